import * as z from "zod";
import { unit } from "../../books/amounts/amount-fields.ts";
import { refundCredits } from "../../books/credits/refund.ts";
import { anyNumber, freeText, identifier, userId } from "../../http/fields.ts";
import { lazy } from "../../http/lazy.ts";
import { KEY, PACK, REFERENCE, TEXT, USER_NAMES } from "../../http/wrong-names.ts";
import { words } from "../../lib/words.ts";
import { secretKey } from "../access.ts";
import { EXAMPLE } from "../common.ts";
import { operation } from "../operation.ts";
import { externalRef } from "./credit-shapes.ts";

const refundedBalance = /* @__PURE__ */ lazy(() =>
  z
    .strictObject({
      balanceId: z.string().meta(words("The balance's id.", "crb_5cQx2vN8bT0rKf7yLwZ3Hd")),
      packItemId: z
        .string()
        .nullable()
        .meta(words("The id of the pack's item. Null for a pack without items.", "cpi_7hWk3yB5nC0eUi9fMvS4Lx")),
      unit,
      taken: z.number().meta(words("The amount that the refund took.", 120)),
      short: z
        .number()
        .meta(
          words(
            "The due amount that could not be taken, because it was spent, held or revoked. Later refunds do not take it.",
            13.333,
          ),
        ),
      remaining: z.number().meta(words("The balance after the refund.", 0)),
    })
    .meta({ id: "RefundedBalance" }),
);

const refundOutput = /* @__PURE__ */ lazy(() =>
  z
    .strictObject({
      refundRef: z.string().meta(words("The reference of the refund.", "re_3Kd9")),
      externalRef: z.string().meta(words("The reference of the grant, such as a payment's id.", "cs_test_a1b2c3")),
      balances: z.array(refundedBalance).min(1).meta(words("The balances.")),
    })
    .meta({ id: "RefundResult" }),
);

const PARTS_MAX = 1_000_000_000_000;

const parts = lazy(() =>
  anyNumber
    .refine(
      (value) => Number.isInteger(value) && value >= 1 && value <= PARTS_MAX,
      "must be a whole number from 1 to 1,000,000,000,000",
    )
    .meta({ type: "integer", minimum: 1, maximum: PARTS_MAX }),
);

const share = lazy(() =>
  z.strictObject(
    {
      part: parts.meta(words("The part that is refunded, such as 500 of the 1,500 cents of a payment.", 500)),
      of: parts.meta(words("The whole payment, in the same unit as `part`.", 1_500)),
    },
    {
      error: ({ input }) =>
        typeof input === "number" ? "must be an object, such as `{ part: 500, of: 1500 }` for 500 of 1,500" : undefined,
    },
  ),
);

export const shareAtMostOne = lazy(() =>
  share.refine(({ part, of }) => part <= of, "must not be above 1: `part` is at most `of`").meta({ id: "RefundShare" }),
);

export const refundInput = lazy(() =>
  z
    .strictObject({
      userId,
      externalRef: externalRef.meta(
        words("The `externalRef` of the grant, or of the grants of several packs.", "cs_test_a1b2c3"),
      ),
      refundRef: identifier(500).meta(
        words("Idempotency key under the reference, such as the refund's id.", "re_3Kd9"),
      ),
      packId: identifier()
        .optional()
        .meta(
          words(
            "Only the balances of this pack: its id, or the name under which they were issued.",
            "cpk_1mVt9sD4gE6uXa8oPzJ2Rq",
          ),
        ),
      share: shareAtMostOne
        .optional()
        .meta(words("The share to take back. Default: everything that earlier refunds left.")),
      reason: freeText().optional().meta(words("Stored as the ledger entries' `note`.", "Payment refunded in part")),
    })
    .meta({
      id: "RefundCredits",
      wrongNames: {
        userId: USER_NAMES,
        externalRef: REFERENCE,
        refundRef: `refundId refund ${KEY}`,
        packId: PACK,
        "!name the payment by the `externalRef` of its grant. `POST /api/v1/credits/revoke` revokes one balance":
          "balanceId balance",
        "!write the part that is refunded into `share`, such as `{ part: 500, of: 1500 }` for 500 of 1,500 cents":
          "amount quantity percent percentage fraction",
        "share.part": "part",
        "share.of": "of",
        reason: TEXT,
      },
    }),
);

const { balanceId, packItemId } = EXAMPLE;

export default operation({
  id: "refundCredits",
  method: "post",
  path: "/api/v1/credits/refund",
  tag: "Credits",
  access: secretKey(),
  body: refundInput,
  errors: ["idempotency_conflict", "credit_balance_not_found"],
  replayable: true,
  writesForId: "rejected",
  idempotent: true,
  ...(WITH_REFERENCE && {
    output: () => refundOutput,
    summary: "Refund a grant by its reference",
    description:
      "Takes back a share of the issued amount of each balance under an `externalRef`, as far as credits remain. " +
      "The shares of several refunds add up exactly. A refund that would bring the sum above 1 is rejected. When the " +
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
  }),
  handler: (ctx, { body }) => refundCredits(ctx, body),
});
