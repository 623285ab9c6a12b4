import * as z from "zod";
import { ACTIONS } from "../../catalog/audit.ts";
import { lazy } from "../../http/lazy.ts";
import { nextCursor } from "../../http/output-fields.ts";
import { words } from "../../lib/words.ts";

const auditEntry = /* @__PURE__ */ lazy(() =>
  z
    .strictObject({
      at: z.string().meta({ format: "date-time" }).meta(words("The time.", "2026-01-15T12:00:00.000Z")),
      by: z
        .string()
        .meta(
          words(
            "The e-mail address or subject that Cloudflare Access verified; the name of a sign-in; `ak:` and the id of an " +
              "administration key; or `api`.",
            "ann@example.com",
          ),
        ),
      action: z.enum(ACTIONS).meta(words("What was done.", "pack.changed")),
      target: z
        .string()
        .nullable()
        .meta(
          words(
            "The id of what was changed, such as a key or a pack. Null for a recurring grant, whose id you choose, and an administration key without the scope `people`.",
            "cpk_1mVt9sD4gE6uXa8oPzJ2Rq",
          ),
        ),
      userId: z
        .string()
        .nullable()
        .meta(
          words(
            "The current id of the user whom the action is about; an erased user has a pseudonym. Null for an action about no user, and for an administration key without the scope `people`.",
            "user_42",
          ),
        ),
      details: z.looseObject({}).meta(
        words("Details of the action. They contain no secret, user id or free text.", {
          version: 2,
          fields: ["packName"],
        }),
      ),
    })
    .meta({ id: "AuditEntry" }),
);

export const listAuditOutput = /* @__PURE__ */ lazy(() =>
  z
    .strictObject({
      entries: z.array(auditEntry).meta(words("The entries of the page.")),
      nextCursor,
    })
    .meta({ id: "AuditPage" }),
);
