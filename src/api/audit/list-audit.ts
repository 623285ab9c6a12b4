import { requireApp } from "../../catalog/apps.ts";
import { listAudit } from "../../catalog/list-audit.ts";
import { listAuditOutput } from "../../catalog/responses.ts";
import { listAuditInput } from "../../catalog/schemas.ts";
import { administration, BY_USER } from "../access.ts";
import { appParams, EXAMPLE } from "../common.ts";
import { operation } from "../operation.ts";

const { createdAt } = EXAMPLE;

export default operation({
  id: "listAudit",
  method: "get",
  path: "/api/v1/admin/apps/{appId}/audit",
  tag: "Administration",
  access: administration(BY_USER, "none"),
  params: appParams,
  query: listAuditInput,
  output: () => listAuditOutput,
  summary: "List an application's audit log",
  description:
    "Returns every administrative action on the application, by API or dashboard, newest first. Requests that " +
    "were refused, repeated or without effect are not recorded.",
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
  handler: async (admin, { params, query }) => {
    const { id } = await requireApp(admin, params.appId);
    return listAudit(admin, id, query);
  },
});
