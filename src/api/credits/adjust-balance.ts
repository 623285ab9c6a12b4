import * as z from "zod";
import { adjustBalance, findTenant } from "../../books/credits/adjust.ts";
import { adjustOutput } from "../../books/credits/responses.ts";
import { adjustInput } from "../../books/credits/schemas.ts";
import { administration } from "../access.ts";
import { EXAMPLE } from "../common.ts";
import { operation } from "../operation.ts";

const { balanceId } = EXAMPLE;

export default operation({
  id: "adjustBalance",
  method: "post",
  path: "/api/v1/admin/balances/{balanceId}/adjust",
  tag: "Administration",
  access: administration("grants", "row"),
  params: z.object({ balanceId: z.string().describe("The id of the balance, `crb_…`.") }),
  body: adjustInput,
  output: () => adjustOutput,
  errors: ["invalid_quantity", "idempotency_conflict", "credit_balance_not_found"],
  replayable: true,
  writesForId: "refused",
  summary: "Adjust a balance",
  description: "Adds credits to a balance, or deducts credits from it. The ledger records the note.",
  returns: "The balance after the adjustment.",
  example: () => ({ body: { delta: 50, note: "Sorry for the outage" }, output: { balanceId, remaining: 330 } }),
  handler: async (admin, { params: { balanceId }, body }) =>
    adjustBalance(await findTenant(admin, balanceId), { balanceId, ...body }),
});
