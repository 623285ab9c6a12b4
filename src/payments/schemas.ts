import * as z from "zod/mini";
import { about, described } from "#described";
import { anyNumber, cursor, identifier, mode, pageLimit } from "../http/fields.ts";
import { userId } from "../ledger/schemas.ts";

const PRICES_MAX = 100;
/** The largest amount at Stripe has eight digits; twelve for currencies of small units. */
const AMOUNT_MAX = 999_999_999_999;

export const expires = described(z.enum(["pack", "period"]), about({ id: "StripePriceExpiry" }));
export const paymentStatus = described(z.enum(["granted", "unmatched", "waiting"]), about({ id: "PaymentStatus" }));

const price = described(
  z.strictObject({
    price: described(identifier(), about("The price's id at Stripe, `price_…`.")),
    packId: described(identifier(), about("The pack's id (`cpk_…`), or its name in any case.")),
    quantity: described(
      z.optional(anyNumber),
      about("For a pack without items: the amount of one, in the pack's unit."),
    ),
    expires: described(
      z._default(expires, "pack"),
      about("`period`: the balances expire when the period that was paid for ends."),
    ),
    trial: described(
      z.optional(z.boolean()),
      about("Whether a line of which nothing is paid grants too, once a user. Default: false."),
    ),
    amount: described(
      z.optional(
        z.int().check(z.minimum(1, "must be at least 1"), z.maximum(AMOUNT_MAX, `must be at most ${AMOUNT_MAX}`)),
      ),
      about(
        "What one costs in full, in the smallest unit of the setting's `currency`. A proration line grants the share of the pack that it pays of this. Default: what the invoice says.",
      ),
    ),
  }),
  about({ id: "StripePrice" }),
);

const setting = described(
  z.strictObject({
    signingSecrets: described(
      z.optional(
        z
          .array(
            z
              .string()
              .check(
                z.maxLength(200, "must have at most 200 characters"),
                z.regex(/^whsec_[\w+/=-]{8,}$/, "must be a signing secret of an endpoint at Stripe, `whsec_…`"),
              ),
          )
          .check(z.minLength(1, "must have one secret, or two"), z.maxLength(2, "must have one secret, or two")),
      ),
      about(
        "The endpoint's signing secret, and the one before it while it is being rotated. Default: those that are set.",
      ),
    ),
    currency: described(
      z._default(
        z.string().check(z.regex(/^[a-z]{3}$/, "must be a currency as Stripe writes it, such as `usd`")),
        "usd",
      ),
      about("The currency in which amounts top up a pack in `cents`."),
    ),
    prices: described(
      z._default(
        z.array(price).check(
          z.maxLength(PRICES_MAX, `must have at most ${PRICES_MAX} prices`),
          z.refine(
            (prices: readonly { price: string }[]) => new Set(prices.map((one) => one.price)).size === prices.length,
            "must have each price once",
          ),
        ),
        [],
      ),
      about("What a line of an invoice grants, by its price."),
    ),
  }),
  about({ id: "StripeSetting" }),
);

export const setStripeInput = described(
  z.strictObject({
    mode,
    setting: described(
      z.nullable(setting),
      about("The whole setting, but for `signingSecrets`. Null: no events are taken any more."),
    ),
  }),
  about({ id: "SetStripe" }),
);
export type SetStripeInput = z.infer<typeof setStripeInput>;

export const readStripeInput = z.object({ mode: described(mode, about("The mode whose setting it is.")) });

export const listPaymentsInput = z.object({
  mode: described(mode, about("The mode of the payments.")),
  status: described(z.optional(paymentStatus), about("Only payments of this status.")),
  limit: pageLimit("payments"),
  cursor,
});
export type ListPaymentsInput = z.infer<typeof listPaymentsInput>;

export const settlePaymentInput = described(
  z.strictObject({
    mode,
    userId,
    packId: described(identifier(), about("The pack's id (`cpk_…`), or its name in any case.")),
    quantity: described(
      z.nullish(anyNumber),
      about(
        "For a pack without items. Default: what the checkout session says, or the amount paid for a pack in `cents`.",
      ),
    ),
  }),
  about({ id: "SettlePayment" }),
);
export type SettlePaymentInput = z.infer<typeof settlePaymentInput>;
