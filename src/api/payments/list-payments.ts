import * as z from "zod";
import { unit } from "../../books/amounts/amount-fields.ts";
import { cursor, identifier, mode, pageLimit, queryFlag, userId } from "../../http/fields.ts";
import { time } from "../../http/output-fields.ts";
import { REFUNDS, SETTLERS } from "../../payments/outcomes.ts";
import { listPayments } from "../../payments/payment-lists.ts";
import { STANDING_REASONS } from "../../payments/reasons.ts";
import { administration } from "../access.ts";
import { appParams, EXAMPLE } from "../common.ts";
import { operation } from "../operation.ts";
import { stripeOutcome as outcome, setCarryOutput } from "./payment-shapes.ts";

const money = z.int().describe("In the currency's smallest unit, as at Stripe.");

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
  z
    .strictObject({
      eventId: z.string().describe("The event's id at Stripe."),
      type: z.string().describe("The event's type at Stripe."),
      at: time.describe("When it arrived."),
      outcome,
    })
    .meta({ id: "PaymentEvent" }),
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

const listPaymentsOutput = z.lazy(() =>
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

const paymentRefunds = z.lazy(() => z.enum(REFUNDS).meta({ id: "PaymentRefunds" }));

const paymentSettler = z.lazy(() => z.enum(SETTLERS).meta({ id: "PaymentSettler" }));

const paymentStatus = z.lazy(() => z.enum(["granted", "unmatched", "waiting"]).meta({ id: "PaymentStatus" }));

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

const { balanceId, createdAt, packId } = EXAMPLE;

const examplePaymentKey = "pi_3Q5vXK2eZvKYlo2C1a2b3c4d";

export default operation({
  id: "listPayments",
  method: "get",
  path: "/api/v1/admin/apps/{appId}/payments",
  tag: "Administration",
  access: administration("people", "argument"),
  params: appParams,
  query: listPaymentsInput,
  output: () => listPaymentsOutput,
  summary: "List payments",
  description: "Returns the Stripe payments of one mode, newest first, with granted credits and credits taken back.",
  returns: "A page of payments.",
  example: () => ({
    output: {
      payments: [
        {
          paymentKey: examplePaymentKey,
          names: [examplePaymentKey, "cs_live_a1b2c3"],
          status: "granted",
          refunds: "part",
          isDisputed: false,
          settledBy: "stripe",
          reason: null,
          userId: "user_42",
          currency: "usd",
          captured: 1500,
          refunded: 500,
          withheld: 0,
          invoice: null,
          grants: [{ balanceId, packId, unit: "tokens", initial: 300_000, taken: 100_000, short: 0 }],
          events: [
            { eventId: "evt_1a", type: "checkout.session.completed", at: createdAt, outcome: "granted" },
            { eventId: "evt_2b", type: "charge.refunded", at: "2026-01-16T09:00:00.000Z", outcome: "taken" },
          ],
          createdAt,
        },
      ],
      sums: [{ currency: "usd", captured: 1500, refunded: 500, withheld: 0 }],
      nextCursor: null,
    },
  }),
  handler: (admin, { params, query }) => listPayments(admin, params.appId, query),
});
