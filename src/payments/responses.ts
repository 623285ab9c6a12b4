import * as z from "zod";
import { unit } from "../books/amounts/schemas.ts";
import { mode } from "../http/fields.ts";
import { time } from "../http/responses.ts";
import { CARRY_MAX } from "./carry.ts";
import { LOG_REASONS, STANDING_REASONS } from "./reasons.ts";
import { SIGNATURE_FAULTS } from "./receiver.ts";
import { expires, stripeOutcome as outcome, paymentRefunds, paymentSettler, paymentStatus } from "./schemas.ts";

const money = z.int().describe("In the currency's smallest unit, as at Stripe.");

export const stripeEventOutput = z.lazy(() =>
  z
    .strictObject({
      received: z.literal(true),
      outcome: outcome.describe(
        "The effect of this delivery. `ignored`: no effect, for example because it is a repeat.",
      ),
      paymentKey: z.string().optional().describe("The payment's id at Stripe: its payment intent, if it has one."),
    })
    .meta({ id: "StripeEventReceived" }),
);
export type StripeEventOutput = z.infer<typeof stripeEventOutput>;

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
            amount: z.int().optional(),
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
export type StripeOutput = z.infer<typeof stripeOutput>;

const loggedEvent = z.lazy(() =>
  z
    .strictObject({
      eventId: z.string(),
      type: z.string(),
      at: time.describe("The time of its arrival."),
      outcome: outcome.describe("The outcome. If the event was delivered several times, the most important outcome."),
      reason: z
        .enum(LOG_REASONS)
        .meta({ id: "StripeEventReason" })
        .nullable()
        .describe("Why it granted nothing. Null unless `unmatched` or `ignored`."),
      objectId: z.string().nullable().describe("The id of its object at Stripe."),
      asked: z
        .strictObject({ pack: z.string().nullable(), user: z.string().nullable() })
        .nullable()
        .describe("The pack and the user that it named. No user is stored for an ignored event."),
      hint: z.string().nullable().describe("How to change the integration so that such an event grants."),
      paymentKey: z.string().nullable(),
    })
    .meta({ id: "StripeLogEntry" }),
);

export const listStripeEventsOutput = z.lazy(() =>
  z
    .strictObject({
      events: z.array(loggedEvent),
      nextCursor: z.string().nullable().describe("The cursor of the next page. Null on the last page."),
    })
    .meta({ id: "StripeEventList" }),
);
export type ListStripeEventsOutput = z.infer<typeof listStripeEventsOutput>;

const grant = z.lazy(() =>
  z
    .strictObject({
      balanceId: z.string(),
      packId: z.string(),
      unit,
      initial: z.number(),
      taken: z.number().describe("The amount taken back because of refunds and disputes."),
      short: z.number().describe("The due amount that could not be taken back."),
    })
    .meta({ id: "PaymentGrant" }),
);

const paymentEvent = z.lazy(() =>
  z.strictObject({ eventId: z.string(), type: z.string(), at: time, outcome }).meta({ id: "PaymentEvent" }),
);

const payment = z.lazy(() =>
  z
    .strictObject({
      paymentKey: z.string().describe("Its payment intent, if it has one."),
      names: z.array(z.string()).describe("All Stripe ids of this payment."),
      status: paymentStatus.describe(
        "`unmatched`: it was paid, but nothing could be granted. `waiting`: no event has shown yet what was bought.",
      ),
      refunds: paymentRefunds.describe("How much of it was refunded."),
      isDisputed: z.boolean().describe("Whether a dispute withholds a part of it."),
      settledBy: paymentSettler
        .nullable()
        .describe("Whether a Stripe event granted it, or the administrator by hand. Null if it is not granted."),
      reason: z
        .enum(STANDING_REASONS)
        .meta({ id: "PaymentReason" })
        .nullable()
        .describe(
          "Why nothing was granted. Also for a granted payment: `covered_by_credit`, if the customer's credit covers its invoice, so that nothing is granted, and `carry`, if the carry took money that Stripe's own balance did not pay.",
        ),
      userId: z.string().nullable(),
      currency: z.string().nullable(),
      captured: money,
      refunded: money,
      withheld: money,
      invoice: z
        .strictObject({
          bought: money.describe(
            "The net amounts of its lines above 0. In the currency's smallest unit, as the others.",
          ),
          returned: money.describe("The net amounts of its lines below 0."),
          carried: money.describe("The part that the customer's carry took."),
          share: z
            .number()
            .describe("The share of each line that was granted: what the money paid for, of what was bought."),
        })
        .meta({ id: "PaymentInvoice" })
        .nullable()
        .describe("How its invoice changed the carry of its Stripe customer. Null without an invoice, or before that."),
      grants: z.array(grant),
      events: z.array(paymentEvent).describe("The events that changed it, oldest first."),
      createdAt: time,
    })
    .meta({ id: "Payment" }),
);
export type PaymentOutput = z.infer<typeof payment>;

export const setCarryOutput = z.lazy(() =>
  z
    .strictObject({
      customer: z.string(),
      currency: z.string(),
      amount: z.number().min(0).max(CARRY_MAX).meta({ type: "integer" }).describe("In the currency's smallest unit."),
    })
    .meta({ id: "CustomerCarry" }),
);
export type SetCarryOutput = z.infer<typeof setCarryOutput>;

export const listPaymentsOutput = z.lazy(() =>
  z
    .strictObject({
      payments: z.array(payment),
      sums: z
        .array(
          z
            .strictObject({ currency: z.string(), captured: money, refunded: money, withheld: money })
            .meta({ id: "PaymentSums" }),
        )
        .optional()
        .describe("The sums of all payments that match the filters. Only on the first page."),
      carry: z
        .array(setCarryOutput)
        .optional()
        .describe(
          "The carries of the user's Stripe customers: what their invoices returned and have not bought since. Only on the first page, with `userId`.",
        ),
      nextCursor: z.string().nullable().describe("The cursor of the next page. Null on the last page."),
    })
    .meta({ id: "PaymentList" }),
);
export type ListPaymentsOutput = z.infer<typeof listPaymentsOutput>;
