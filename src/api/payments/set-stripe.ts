import * as z from "zod";
import { anyNumber, identifier, mode } from "../../http/fields.ts";
import { lazy } from "../../http/lazy.ts";
import { words } from "../../lib/words.ts";
import { setStripe } from "../../payments/stripe-setting.ts";
import { administration } from "../access.ts";
import { appParams } from "../common.ts";
import { operation } from "../operation.ts";
import { currency, exampleStripeSettings, expires, prices, stripeOutput } from "./payment-shapes.ts";

const PRICES_MAX = 100;

/** Stripe's amounts have at most eight digits, or twelve in currencies with small units. */
const AMOUNT_MAX = 999_999_999_999;

const price = lazy(() =>
  z
    .strictObject({
      price: identifier().meta(words("The price's id at Stripe, `price_…`.", "price_1PgafmB7WZ01zgkW6dKueIc5")),
      packId: identifier().meta(
        words("The pack's id (`cpk_…`), or its name in any case.", "cpk_1mVt9sD4gE6uXa8oPzJ2Rq"),
      ),
      quantity: anyNumber
        .optional()
        .meta(
          words("For a pack without items: the amount to grant for one unit of the price, in the pack's unit.", 1_000),
        ),
      expires: expires
        .default("pack")
        .meta(words("`period`: the balances expire when the period that was paid for ends.", "period")),
      trial: z
        .boolean()
        .optional()
        .meta(
          words(
            "Whether a line without a price, as in a trial, also grants: once for each user and for each Stripe customer. Default: false.",
            true,
          ),
        ),
      amount: z
        .int()
        .min(1, "must be at least 1")
        .max(AMOUNT_MAX, `must be at most ${AMOUNT_MAX}`)
        .optional()
        .meta(
          words(
            "The full price of one unit, in the smallest unit of the setting's `currency`. A proration line grants the share of the pack that corresponds to the paid share of this price. An older API version tells the full price with the line, which is used first. Default: the amount of another line of the price on the same invoice.",
            120,
          ),
        ),
    })
    .meta({ id: "StripePrice" }),
);

const settingInput = lazy(() =>
  z
    .strictObject({
      signingSecrets: z
        .array(
          z
            .string()
            .max(200, "must have at most 200 characters")
            .regex(/^whsec_[\w+/=-]{8,}$/, "must be the signing secret of an endpoint at Stripe, `whsec_…`"),
        )
        .min(1, "must have one secret, or two")
        .max(2, "must have one secret, or two")
        .optional()
        .meta(
          words("The endpoint's signing secret, and the previous one during a rotation. Default: the current ones.", [
            "whsec_8f2aQ1xYb0c9d8e7AbCd",
          ]),
        ),
      currency: currency
        .default("usd")
        .meta(words("The currency of amounts that are granted as a pack in `cents`.", "usd")),
      prices: z
        .array(price)
        .max(PRICES_MAX, `must have at most ${PRICES_MAX} prices`)
        .refine(
          (prices: readonly { price: string }[]) => new Set(prices.map(({ price }) => price)).size === prices.length,
          "must have each price only once",
        )
        .default([])
        .meta(words("The grants of invoice lines, by price.")),
    })
    .meta({ id: "StripeSetting" }),
);

export const setStripeInput = lazy(() =>
  z
    .strictObject({
      mode,
      setting: settingInput
        .nullable()
        .meta(
          words(
            "The whole setting, except `signingSecrets`, which may be left out. Null: no more events are accepted.",
          ),
        ),
    })
    .meta({ id: "SetStripe" }),
);

export default operation({
  id: "setStripe",
  method: "put",
  path: "/api/v1/admin/apps/{appId}/stripe",
  tag: "Administration",
  access: administration("access", "argument"),
  params: appParams,
  body: setStripeInput,
  errors: ["credit_pack_not_found", "secrets_unavailable"],
  warns: true,
  ...(WITH_REFERENCE && {
    output: () => stripeOutput,
    summary: "Set how Stripe's events are received",
    description:
      "Sets, for one mode, how Purser verifies and applies Stripe's events. The setting takes effect at once. A " +
      "secret is not returned again. Without `signingSecrets`, the existing secrets stay.",
    returns: "The setting, without its secrets.",
    example: () => ({
      body: { mode: "live", setting: { signingSecrets: ["whsec_8f2aQ1xYb0c9d8e7AbCd"], prices } },
      output: exampleStripeSettings,
    }),
  }),
  handler: (admin, { params, body }) => setStripe(admin, params.appId, body),
});
