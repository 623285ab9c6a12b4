import * as z from "zod";
import { anyNumber, identifier, mode, userId } from "../../http/fields.ts";
import { lazy } from "../../http/lazy.ts";
import { words } from "../../lib/words.ts";
import { settlePayment } from "../../payments/settle-by-hand.ts";
import { administration } from "../access.ts";
import { appId, EXAMPLE } from "../common.ts";
import { grantOutput } from "../credits/credit-shapes.ts";
import { operation } from "../operation.ts";

export const settlePaymentInput = lazy(() =>
  z
    .strictObject({
      mode,
      userId,
      packId: identifier().meta(
        words("The pack's id (`cpk_…`), or its name in any case.", "cpk_1mVt9sD4gE6uXa8oPzJ2Rq"),
      ),
      quantity: anyNumber
        .nullish()
        .meta(
          words(
            "For a pack without items, the amount. For a pack with items, how many times it is granted, 1 to 100. Default: the checkout session's quantity, or the paid amount for a pack in `cents`.",
            1_000,
          ),
        ),
    })
    .meta({ id: "SettlePayment" }),
);

const { balanceId, packId } = EXAMPLE;

export default operation({
  id: "settlePayment",
  method: "post",
  path: "/api/v1/admin/apps/{appId}/payments/{paymentKey}/settle",
  tag: "Administration",
  access: administration("grants", "argument"),
  params: z.object({
    appId,
    paymentKey: z.string().meta(words("Any of the payment's ids at Stripe.", "pi_3PgafmB7WZ01zgkW1tQm8sLd")),
  }),
  body: settlePaymentInput,
  errors: ["credit_pack_not_found", "invalid_quantity", "test_quota_exceeded", "idempotency_conflict"],
  replayable: true,

  idempotent: true,
  ...(WITH_REFERENCE && {
    output: () => grantOutput,
    summary: "Settle a payment by hand",
    description:
      "Grants a pack for a payment that has granted nothing. Later refunds and disputes take it back like any grant of a " +
      "payment. If its invoice has not changed the customer's carry, it does so now.",
    returns: "The balances.",
    example: () => ({
      body: { mode: "live", userId: "user_42", packId },
      output: {
        balances: [{ balanceId, packItemId: null, remaining: 1500, expiresAt: null }],
        balanceId,
        remaining: 1500,
        expiresAt: null,
      },
    }),
  }),
  handler: (admin, { params, body }) => settlePayment(admin, params.appId, params.paymentKey, body),
});
