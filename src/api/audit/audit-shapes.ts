import * as z from "zod";
import { ACTIONS } from "../../catalog/audit.ts";

const auditEntry = z.lazy(() =>
  z
    .strictObject({
      at: z.string().meta({ format: "date-time" }),
      by: z
        .string()
        .describe(
          "The e-mail address or subject that Cloudflare Access verified; the name of a sign-in; `ak:` and the id of an " +
            "administration key; or `api`.",
        ),
      action: z.enum(ACTIONS),
      target: z.string().describe("The id of the changed application, key or pack."),
      userId: z
        .string()
        .nullable()
        .describe(
          "The current id of the user whom the action is about; an erased user has a pseudonym. Null for an action about no user, and for an administration key without the scope `people`.",
        ),
      details: z.looseObject({}).describe("Details of the action. They contain no secret, user id or free text."),
    })
    .meta({ id: "AuditEntry" }),
);

export const listAuditOutput = z.lazy(() =>
  z
    .strictObject({
      entries: z.array(auditEntry),
      nextCursor: z.string().nullable().describe("The cursor of the next page. Null on the last page."),
    })
    .meta({ id: "AuditPage" }),
);
