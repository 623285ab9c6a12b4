import * as z from "zod";
import { mode } from "../../http/fields.ts";
import { lazy } from "../../http/lazy.ts";
import { time } from "../../http/output-fields.ts";
import { words } from "../../lib/words.ts";
import { CARRY_MAX } from "../../payments/carry.ts";
import { OUTCOMES } from "../../payments/outcomes.ts";
import { SIGNATURE_FAULTS } from "../../payments/receiver.ts";
import { EXAMPLE } from "../common.ts";

const { packId } = EXAMPLE;

export const prices = [{ price: "price_1PgafmB7WZ01zgkW6dKueIc5", packId, expires: "period" }];

export const exampleStripeSettings = {
  mode: "live",
  setting: { signingSecrets: ["whsec_…AbCd"], currency: "usd", prices },
  lastEventAt: "2026-01-15T12:00:00.000Z",
  refused: { at: "2026-01-15T11:58:00.000Z", reason: "wrong_secret" },
};

const shownSetting = /* @__PURE__ */ lazy(() =>
  z
    .strictObject({
      signingSecrets: z
        .array(z.string())
        .meta(words("The start and the end of each, to recognise it.", ["whsec_…AbCd"])),
      currency: z.string().meta(words("The currency, as Stripe writes it.", "usd")),
      prices: z
        .array(
          z
            .strictObject({
              price: z.string().meta(words("The price's id at Stripe.", "price_1PgafmB7WZ01zgkW6dKueIc5")),
              packId: z.string().meta(words("The pack's id.", "cpk_1mVt9sD4gE6uXa8oPzJ2Rq")),
              quantity: z.number().optional().meta(words("The amount of a pack without items.", 1_000)),
              expires,
              trial: z.boolean().optional().meta(words("Whether a line without a price also grants.", true)),
              amount: z
                .int()
                .optional()
                .meta(words("The full price of one unit, in the currency's smallest unit.", 120)),
            })
            .meta({ id: "ShownStripePrice" }),
        )
        .meta(words("The grants of invoice lines, by price.")),
    })
    .meta({ id: "ShownStripeSetting" }),
);

export const stripeOutput = /* @__PURE__ */ lazy(() =>
  z
    .strictObject({
      mode,
      setting: shownSetting.nullable().meta(words("Null: no events are accepted.")),
      lastEventAt: time.nullable().meta(words("When the last event arrived.", "2026-01-15T12:00:00.000Z")),
      refused: z
        .strictObject({
          at: time.meta(words("The time.", "2026-01-15T12:00:00.000Z")),
          reason: z
            .enum(SIGNATURE_FAULTS)
            .meta({ id: "StripeSignatureFault" })
            .meta(words("The reason.", "Duplicate purchase")),
        })
        .nullable()
        .meta(
          words("When the last request without a valid signature arrived, to the minute, and what was wrong with it."),
        ),
    })
    .meta({ id: "StripeSettings" }),
);

export const setCarryOutput = /* @__PURE__ */ lazy(() =>
  z
    .strictObject({
      customer: z.string().meta(words("The customer's id at Stripe.", "cus_9s6XKzkNRiz8i3")),
      currency: z.string().meta(words("The currency, as Stripe writes it.", "usd")),
      amount: z
        .number()
        .min(0)
        .max(CARRY_MAX)
        .meta({ type: "integer" })
        .meta(words("In the currency's smallest unit.", 0)),
    })
    .meta({ id: "CustomerCarry" }),
);

export const expires = lazy(() =>
  z.enum(["pack", "period"]).meta({
    id: "StripePriceExpiry",
    ...words("When its balances expire: as the pack says, or with the paid period.", "pack"),
  }),
);

export const stripeOutcome = lazy(() =>
  z.enum(OUTCOMES).meta({ id: "PaymentOutcome", ...words("The effect of the event.", "granted") }),
);

/** A currency as Stripe writes it. */
export const currency = lazy(() =>
  z
    .string()
    .regex(/^[a-z]{3}$/, "must be a currency as Stripe writes it, such as `usd`")
    .meta(words("The currency, as Stripe writes it.", "usd")),
);
