import { refundCredits } from "../../books/credits/refund.ts";
import { refundOutput } from "../../books/credits/responses.ts";
import { refundInput } from "../../books/credits/schemas.ts";
import { secretKey } from "../access.ts";
import { EXAMPLE } from "../common.ts";
import { operation } from "../operation.ts";

const { balanceId, packItemId } = EXAMPLE;

export default operation({
  id: "refundCredits",
  method: "post",
  path: "/api/v1/credits/refund",
  tag: "Credits",
  access: secretKey(),
  body: refundInput,
  output: () => refundOutput,
  errors: ["idempotency_conflict", "credit_balance_not_found"],
  replayable: true,
  writesForId: "refused",
  summary: "Refund a grant by its reference",
  description:
    "Takes back a share of the issued amount of each balance under an `externalRef`, as far as credits remain. " +
    "The shares of several refunds add up exactly. A refund that would bring the sum above 1 is refused. When the " +
    "sum is 1, the balance is revoked, with everything that remains. The same `refundRef` with the same body " +
    "returns the first result, with `idempotent-replayed: true`.",
  returns: "The amount taken from each balance, in the order of the grant.",
  example: () => ({
    body: {
      userId: "user_42",
      externalRef: "cs_test_a1b2c3",
      refundRef: "re_3Kd9",
      share: { part: 500, of: 1_500 },
      reason: "Payment refunded in part",
    },
    output: {
      refundRef: "re_3Kd9",
      externalRef: "cs_test_a1b2c3",
      balances: [{ balanceId, packItemId, unit: "tokens", taken: 120, short: 13.333, remaining: 0 }],
    },
  }),
  handler: (ctx, { body }) => refundCredits(ctx, body),
});
