import * as z from "zod";
import { anyNumber, cursor, identifier, mode, pageLimit, queryFlag, userId } from "../http/fields.ts";
import { CARRY_MAX } from "./carry.ts";

const PRICES_MAX = 100;
/** Stripe's amounts have at most eight digits, or twelve in currencies with small units. */
const AMOUNT_MAX = 999_999_999_999;

/** How much of a payment was refunded. */
export const REFUNDS = ["none", "part", "whole"] as const;
/** Who granted a payment's balances: a Stripe event, or the administrator by hand. */
export const SETTLERS = ["stripe", "admin"] as const;
export const paymentRefunds = z.lazy(() => z.enum(REFUNDS).meta({ id: "PaymentRefunds" }));
export const paymentSettler = z.lazy(() => z.enum(SETTLERS).meta({ id: "PaymentSettler" }));
export const expires = z.lazy(() => z.enum(["pack", "period"]).meta({ id: "StripePriceExpiry" }));
export const paymentStatus = z.lazy(() => z.enum(["granted", "unmatched", "waiting"]).meta({ id: "PaymentStatus" }));

/** The outcomes of an event, the most important first (S5). */
export const OUTCOMES = ["granted", "taken", "restored", "remembered", "unmatched", "ignored"] as const;
export const stripeOutcome = z.lazy(() => z.enum(OUTCOMES).meta({ id: "PaymentOutcome" }));

const price = z.lazy(() =>
  z
    .strictObject({
      price: identifier().describe("The price's id at Stripe, `price_…`."),
      packId: identifier().describe("The pack's id (`cpk_…`), or its name in any case."),
      quantity: anyNumber
        .optional()
        .describe("For a pack without items: the amount to grant for one unit of the price, in the pack's unit."),
      expires: expires
        .default("pack")
        .describe("`period`: the balances expire when the period that was paid for ends."),
      trial: z
        .boolean()
        .optional()
        .describe(
          "Whether a line without a price, as in a trial, also grants: once for each user and for each Stripe customer. Default: false.",
        ),
      amount: z
        .int()
        .min(1, "must be at least 1")
        .max(AMOUNT_MAX, `must be at most ${AMOUNT_MAX}`)
        .optional()
        .describe(
          "The full price of one unit, in the smallest unit of the setting's `currency`. A proration line grants the share of the pack that corresponds to the paid share of this price. An older API version tells the full price with the line, which is used first. Default: the amount of another line of the price on the same invoice.",
        ),
    })
    .meta({ id: "StripePrice" }),
);

/** A currency as Stripe writes it. */
const currency = z.lazy(() => z.string().regex(/^[a-z]{3}$/, "must be a currency as Stripe writes it, such as `usd`"));

const settingInput = z.lazy(() =>
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
        .describe("The endpoint's signing secret, and the previous one during a rotation. Default: the current ones."),
      currency: currency.default("usd").describe("The currency of amounts that are granted as a pack in `cents`."),
      prices: z
        .array(price)
        .max(PRICES_MAX, `must have at most ${PRICES_MAX} prices`)
        .refine(
          (prices: readonly { price: string }[]) => new Set(prices.map(({ price }) => price)).size === prices.length,
          "must have each price only once",
        )
        .default([])
        .describe("The grants of invoice lines, by price."),
    })
    .meta({ id: "StripeSetting" }),
);

export const setStripeInput = z.lazy(() =>
  z
    .strictObject({
      mode,
      setting: settingInput
        .nullable()
        .describe(
          "The whole setting, except `signingSecrets`, which may be left out. Null: no more events are accepted.",
        ),
    })
    .meta({ id: "SetStripe" }),
);
export type SetStripeInput = z.infer<typeof setStripeInput>;

export const listPaymentsInput = z.lazy(() =>
  z.object({
    mode: mode.describe("The mode of the payments."),
    status: paymentStatus.optional().describe("Only payments of this status."),
    refunds: paymentRefunds.optional().describe("Only payments that were refunded to this extent."),
    isDisputed: queryFlag.optional().describe("Only payments with, or without, an amount that a dispute withholds."),
    settledBy: paymentSettler.optional().describe("Only payments that were granted by an event, or by hand."),
    userId: userId.optional().describe("Only payments of this user."),
    externalRef: identifier(500).optional().describe("Only the payment that granted balances under this reference."),
    limit: pageLimit("payments"),
    cursor,
  }),
);
export type ListPaymentsInput = z.infer<typeof listPaymentsInput>;

export const listStripeEventsInput = z.lazy(() =>
  z.object({
    mode: mode.describe("The mode of the events."),
    outcome: stripeOutcome.optional().describe("Only events with this outcome."),
    limit: pageLimit("events"),
    cursor,
  }),
);
export type ListStripeEventsInput = z.infer<typeof listStripeEventsInput>;

export const settlePaymentInput = z.lazy(() =>
  z
    .strictObject({
      mode,
      userId,
      packId: identifier().describe("The pack's id (`cpk_…`), or its name in any case."),
      quantity: anyNumber
        .nullish()
        .describe(
          "For a pack without items, the amount. For a pack with items, how many times it is granted, 1 to 100. Default: the checkout session's quantity, or the paid amount for a pack in `cents`.",
        ),
    })
    .meta({ id: "SettlePayment" }),
);
export type SettlePaymentInput = z.infer<typeof settlePaymentInput>;

export const setCarryInput = z.lazy(() =>
  z
    .strictObject({
      mode,
      customer: identifier().describe("The customer's id at Stripe, `cus_…`, or the key that a list of carries shows."),
      currency,
      // A number that a double does not represent exactly becomes infinite.
      amount: anyNumber
        .refine(
          (amount: number) => Number.isInteger(amount) && amount >= 0 && amount <= CARRY_MAX,
          `must be a whole number from 0 to ${CARRY_MAX}, in the currency's smallest unit`,
        )
        .meta({ type: "integer" })
        .describe("The new carry, in the currency's smallest unit."),
    })
    .meta({ id: "SetCarry" }),
);
export type SetCarryInput = z.infer<typeof setCarryInput>;

export const stripeEventInput = z.lazy(() =>
  z
    .looseObject({
      id: z.string(),
      type: z.string(),
      created: z.int().describe("In seconds since 1970."),
      livemode: z.boolean(),
      account: z.string().nullish().describe("Set in Stripe Connect events, which are ignored."),
      data: z.looseObject({ object: z.looseObject({}) }),
    })
    .meta({ id: "StripeEvent" }),
);
export type StripeEvent = z.infer<typeof stripeEventInput>;
