import * as z from "zod";
import { requireApp } from "../../catalog/apps.ts";
import { listAudit } from "../../catalog/audit-page.ts";
import { cursor, identifier, mode, pageLimit } from "../../http/fields.ts";
import { lazy } from "../../http/lazy.ts";
import { words } from "../../lib/words.ts";
import { administration, BY_USER } from "../access.ts";
import { appParams, EXAMPLE } from "../common.ts";
import { operation } from "../operation.ts";
import { listAuditOutput } from "./audit-shapes.ts";

const listAuditInput = lazy(() =>
  z
    .object({
      limit: pageLimit("entries").meta(words("The most entries in a page.", 50)),
      cursor,
      userId: identifier().optional().meta(words("Only actions about this user, of `mode`.", "user_42")),
      mode: mode.optional().meta(words("With `userId`: the mode that the user is in.", "live")),
    })
    .superRefine(({ userId, mode }, context) => {
      if (userId === undefined && mode !== undefined)
        context.addIssue({ code: "custom", path: ["userId"], message: "is required with `mode`" });
      if (userId !== undefined && mode === undefined)
        context.addIssue({ code: "custom", path: ["mode"], message: "is required with `userId`" });
    }),
);

const { createdAt } = EXAMPLE;

export default operation({
  id: "listAudit",
  method: "get",
  path: "/api/v1/admin/apps/{appId}/audit",
  tag: "Administration",
  access: administration(BY_USER, "none"),
  params: appParams,
  query: listAuditInput,
  ...(WITH_REFERENCE && {
    output: () => listAuditOutput,
    summary: "List an application's audit log",
    description:
      "Returns every administrative action on the application, by API or dashboard, newest first. Requests that " +
      "were rejected, repeated or without effect are not recorded. The header `latest-audit-entry` of the first page has the " +
      "number of the newest entry, 0 for none; send it as `if-latest-audit-entry` with a change.",
    returns: "A page of the audit log.",
    example: () => ({
      output: {
        entries: [
          {
            at: createdAt,
            by: "ann@example.com",
            action: "pack.changed",
            target: EXAMPLE.packId,
            userId: null,
            details: { version: 2, fields: ["packName"] },
          },
        ],
        nextCursor: null,
      },
    }),
  }),
  handler: async (admin, { params, query }, { setHeader }) => {
    const { id } = await requireApp(admin, params.appId);
    const { page, newestSeq } = await listAudit(admin, id, query);
    if (query.cursor === undefined && query.userId === undefined) setHeader("latest-audit-entry", `${newestSeq}`);
    return page;
  },
});
