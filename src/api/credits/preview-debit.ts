import { planUsage } from "../../books/usage/plan.ts";
import { planOutput } from "../../books/usage/responses.ts";
import { planInput } from "../../books/usage/schemas.ts";
import { secretKey } from "../access.ts";
import { EXAMPLE } from "../common.ts";
import { operation } from "../operation.ts";

const { balanceId, packId } = EXAMPLE;

export default operation({
  id: "previewDebit",
  method: "post",
  path: "/api/v1/credits/plan",
  tag: "Credits",
  access: secretKey({ reads: true }),
  body: planInput,
  output: () => planOutput,
  warns: true,
  summary: "Preview a debit",
  description:
    "Takes the body of a usage event, without its id. Returns the debits that the event would make now, the " +
    "quantities that no balance covers, why other balances would not be debited, and the usage limits that would " +
    "refuse it. Changes nothing.",
  returns: "The debits that the event would make. `uncovered` is the part that no balance covers.",
  example: () => ({
    body: { userId: "user_42", event: "chat.completed", quantities: { tokens: 120 } },
    output: {
      debits: [{ balanceId, packId, unit: "tokens", amount: 120, remaining: 280 }],
      uncovered: null,
      skipped: [
        {
          balanceId: "crb_2aFw6qH1xR9pLj4sNyT8Kc",
          packName: "Starter",
          unit: "cents",
          remaining: 500,
          reason: "not_needed",
        },
      ],
      limits: [],
    },
  }),
  handler: (ctx, { body }) => planUsage(ctx, body),
});
