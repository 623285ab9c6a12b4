import * as z from "zod";
import { adjustBalance, findTenant } from "../../books/credits/adjust.ts";
import { anyNumber, freeText, identifier } from "../../http/fields.ts";
import { lazy } from "../../http/lazy.ts";
import { KEY, TEXT } from "../../http/wrong-names.ts";
import { words } from "../../lib/words.ts";
import type { AdminCtx } from "../../runtime.ts";
import { administrationOfRow } from "../access.ts";
import { EXAMPLE } from "../common.ts";
import { operation } from "../operation.ts";

export const adjustInput = lazy(() =>
  z
    .strictObject({
      delta: anyNumber
        .refine((delta) => delta !== 0, "must not be 0")
        .meta(words("The change in the balance's unit. Negative to deduct; not 0.", 50)),
      note: freeText()
        .refine((text) => text !== "", "must not be empty")
        .meta(words("The reason, stored with the ledger entry.", "Sorry for the outage")),
      adjustmentId: identifier()
        .optional()
        .meta(words("Idempotency key. A repeat returns the first result.", "adj-2026-01-16-1")),
    })
    .meta({ id: "AdjustBalance", wrongNames: { delta: "amount value quantity", note: TEXT, adjustmentId: KEY } }),
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
  params: lazy(() =>
    z.object({
      balanceId: z.string().meta(words("The id of the balance, `crb_…`.", "crb_5cQx2vN8bT0rKf7yLwZ3Hd")),
    }),
  ),
  body: adjustInput,
  errors: ["invalid_quantity", "idempotency_conflict", "credit_balance_not_found"],
  replayable: true,
  writesForId: "rejected",
  idempotent: { field: "adjustmentId" },
  ...(WITH_REFERENCE && {
    output: () =>
      z
        .strictObject({
          balanceId: z.string().meta(words("The balance's id.", "crb_5cQx2vN8bT0rKf7yLwZ3Hd")),
          remaining: z.number().meta(words("The remaining amount, in the balance's unit.", 330)),
        })
        .meta({ id: "AdjustResult" }),
    summary: "Adjust a balance",
    description: "Adds credits to a balance, or deducts credits from it. The ledger records the note.",
    returns: "The balance after the adjustment.",
    example: () => ({ body: { delta: 50, note: "Sorry for the outage" }, output: { balanceId, remaining: 330 } }),
  }),
  handler: ({ row: { tenant } }, { params: { balanceId }, body }) => adjustBalance(tenant, { balanceId, ...body }),
});
