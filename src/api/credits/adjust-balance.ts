import * as z from "zod";
import { adjustBalance, findTenant } from "../../books/credits/adjust.ts";
import { anyNumber, freeText, identifier } from "../../http/fields.ts";
import type { AdminCtx } from "../../runtime.ts";
import { administrationOfRow } from "../access.ts";
import { EXAMPLE } from "../common.ts";
import { operation } from "../operation.ts";

export const adjustInput = z.lazy(() =>
  z
    .strictObject({
      delta: anyNumber
        .refine((delta) => delta !== 0, "must not be 0")
        .describe("The change in the balance's unit. Negative to deduct; not 0."),
      note: freeText()
        .refine((text) => text !== "", "must not be empty")
        .describe("The reason, stored with the ledger entry."),
      adjustmentId: identifier().optional().describe("Idempotency key. A repeat returns the first result."),
    })
    .meta({ id: "AdjustBalance" }),
);

const { balanceId } = EXAMPLE;

/** Loads the tenant of the balance, whose mode decides a key's rights. */
async function loadTenant(admin: AdminCtx, path: { readonly balanceId: string }) {
  const tenant = await findTenant(admin, path.balanceId);
  return { mode: tenant.environment.mode, tenant };
}

export default operation({
  id: "adjustBalance",
  method: "post",
  path: "/api/v1/admin/balances/{balanceId}/adjust",
  tag: "Administration",
  access: administrationOfRow("grants", loadTenant),
  params: z.object({ balanceId: z.string().describe("The id of the balance, `crb_…`.") }),
  body: adjustInput,
  output: () => z.strictObject({ balanceId: z.string(), remaining: z.number() }).meta({ id: "AdjustResult" }),
  errors: ["invalid_quantity", "idempotency_conflict", "credit_balance_not_found"],
  replayable: true,
  writesForId: "refused",
  idempotent: { field: "adjustmentId" },
  summary: "Adjust a balance",
  description: "Adds credits to a balance, or deducts credits from it. The ledger records the note.",
  returns: "The balance after the adjustment.",
  example: () => ({ body: { delta: 50, note: "Sorry for the outage" }, output: { balanceId, remaining: 330 } }),
  handler: ({ row: { tenant } }, { params: { balanceId }, body }) => adjustBalance(tenant, { balanceId, ...body }),
});
