import * as z from "zod";
import { ACTIONS } from "./audit-statement.ts";

const auditEntry = z
  .strictObject({
    at: z.string().meta({ format: "date-time" }),
    by: z
      .string()
      .describe("The e-mail address (else the subject) that Cloudflare Access proved, `dashboard`, or `api`."),
    action: z.enum(ACTIONS),
    target: z.string().describe("The id of what was acted on."),
    details: z.looseObject({}).describe("Particulars, by action. Never a secret, a user id or free text."),
  })
  .meta({ id: "AuditEntry" });

export const listAuditOutput = z.strictObject({
  entries: z.array(auditEntry),
  nextCursor: z.string().nullable().describe("Continues the list; null at its end."),
});
export type ListAuditOutput = z.infer<typeof listAuditOutput>;
