import * as z from "zod";
import { mode } from "../../http/fields.ts";
import { time } from "../../http/output-fields.ts";
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

const shownSetting = z.lazy(() =>
  z
    .strictObject({
      signingSecrets: z.array(z.string()).describe("The start and the end of each, to recognise it."),
      currency: z.string(),
      prices: z.array(
        z
          .strictObject({
            price: z.string(),
            packId: z.string(),
            quantity: z.number().optional(),
            expires,
            trial: z.boolean().optional(),
            amount: z.int().optional().describe("The full price of one unit, in the currency's smallest unit."),
          })
          .meta({ id: "ShownStripePrice" }),
      ),
    })
    .meta({ id: "ShownStripeSetting" }),
);

export const stripeOutput = z.lazy(() =>
  z
    .strictObject({
      mode,
      setting: shownSetting.nullable().describe("Null: no events are accepted."),
      lastEventAt: time.nullable().describe("When the last event arrived."),
      refused: z
        .strictObject({ at: time, reason: z.enum(SIGNATURE_FAULTS).meta({ id: "StripeSignatureFault" }) })
        .nullable()
        .describe(
          "When the last request without a valid signature arrived, to the minute, and what was wrong with it.",
        ),
    })
    .meta({ id: "StripeSettings" }),
);

export const setCarryOutput = z.lazy(() =>
  z
    .strictObject({
      customer: z.string(),
      currency: z.string(),
      amount: z.number().min(0).max(CARRY_MAX).meta({ type: "integer" }).describe("In the currency's smallest unit."),
    })
    .meta({ id: "CustomerCarry" }),
);

export const expires = z.lazy(() => z.enum(["pack", "period"]).meta({ id: "StripePriceExpiry" }));

export const stripeOutcome = z.lazy(() => z.enum(OUTCOMES).meta({ id: "PaymentOutcome" }));

/** A currency as Stripe writes it. */
export const currency = z.lazy(() =>
  z.string().regex(/^[a-z]{3}$/, "must be a currency as Stripe writes it, such as `usd`"),
);
