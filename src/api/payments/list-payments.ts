import * as z from "zod";
import { unit } from "../../books/amounts/amount-fields.ts";
import { cursor, identifier, mode, pageLimit, queryFlag, userId } from "../../http/fields.ts";
import { lazy } from "../../http/lazy.ts";
import { nextCursor, time } from "../../http/output-fields.ts";
import { words } from "../../lib/words.ts";
import { REFUNDS, SETTLERS } from "../../payments/outcomes.ts";
import { listPayments } from "../../payments/payment-lists.ts";
import { STATUS_REASONS } from "../../payments/reasons.ts";
import { administration } from "../access.ts";
import { appParams, EXAMPLE } from "../common.ts";
import { operation } from "../operation.ts";
import { stripeOutcome as outcome, setCarryOutput } from "./payment-shapes.ts";

const money = () => z.int();

const grant = /* @__PURE__ */ lazy(() =>
  z
    .strictObject({
      balanceId: z.string().meta(words("The balance's id.", "crb_5cQx2vN8bT0rKf7yLwZ3Hd")),
      packId: z.string().meta(words("The pack's id.", "cpk_1mVt9sD4gE6uXa8oPzJ2Rq")),
      unit,
      initial: z.number().meta(words("The amount at the grant, in the balance's unit.", 300_000)),
      taken: z.number().meta(words("The amount taken back because of refunds and disputes.", 100_000)),
      short: z.number().meta(words("The due amount that could not be taken back.", 0)),
    })
    .meta({ id: "PaymentGrant" }),
);

const paymentEvent = /* @__PURE__ */ lazy(() =>
  z
    .strictObject({
      eventId: z.string().meta(words("The event's id at Stripe.", "evt_1a")),
      type: z.string().meta(words("The event's type at Stripe.", "checkout.session.completed")),
      at: time.meta(words("When Stripe created it.", "2026-01-15T12:00:00.000Z")),
      outcome,
    })
    .meta({ id: "PaymentEvent" }),
);

const payment = /* @__PURE__ */ lazy(() =>
  z
    .strictObject({
      paymentKey: z.string().meta(words("Its payment intent, if it has one.", "pi_3Q5vXK2eZvKYlo2C1a2b3c4d")),
      names: z
        .array(z.string())
        .meta(words("All Stripe ids of this payment.", ["pi_3Q5vXK2eZvKYlo2C1a2b3c4d", "cs_live_a1b2c3"])),
      status: paymentStatus.meta(
        words(
          "`unmatched`: it was paid, but nothing could be granted. `waiting`: no event has shown yet what was bought.",
          "granted",
        ),
      ),
      refunds: paymentRefunds.meta(words("How much of it was refunded.", "part")),
      isDisputed: z.boolean().meta(words("Whether a dispute withholds a part of it.", false)),
      settledBy: paymentSettler
        .nullable()
        .meta(
          words(
            "Whether a Stripe event granted it, or the administrator by hand. Null if it is not granted.",
            "stripe",
          ),
        ),
      reason: z
        .enum(STATUS_REASONS)
        .meta({ id: "PaymentReason" })
        .nullable()
        .meta(
          words(
            "Why nothing was granted. Also for a granted payment: `covered_by_credit`, if the customer's credit covers its invoice, so that nothing is granted, and `carry`, if the carry took money that Stripe's own balance did not pay.",
            "no_user",
          ),
        ),
      userId: z.string().nullable().meta(words("Your own id of the user.", "user_42")),
      currency: z.string().nullable().meta(words("The currency, as Stripe writes it.", "usd")),
      captured: money().meta(words("In the currency's smallest unit, as at Stripe.", 1_500)),
      refunded: money().meta(words("In the currency's smallest unit, as at Stripe.", 500)),
      withheld: money().meta(words("In the currency's smallest unit, as at Stripe.", 0)),
      invoice: z
        .strictObject({
          bought: money().meta(
            words("The net amounts of its lines above 0. In the currency's smallest unit, as the others.", 1_500),
          ),
          returned: money().meta(words("The net amounts of its lines below 0.", 0)),
          carried: money().meta(words("The part that the customer's carry took.", 0)),
          share: z
            .number()
            .meta(words("The share of each line that was granted: what the money paid for, of what was bought.", 1)),
        })
        .meta({ id: "PaymentInvoice" })
        .nullable()
        .meta(
          words("How its invoice changed the carry of its Stripe customer. Null without an invoice, or before that."),
        ),
      grants: z.array(grant).meta(words("The balances that it granted.")),
      events: z.array(paymentEvent).meta(words("The events that changed it, oldest first.")),
      createdAt: time.meta(words("When it was created.", "2026-01-15T12:00:00.000Z")),
    })
    .meta({ id: "Payment" }),
);

const listPaymentsOutput = /* @__PURE__ */ lazy(() =>
  z
    .strictObject({
      payments: z.array(payment).meta(words("The payments of the page.")),
      sums: z
        .array(
          z
            .strictObject({
              currency: z.string().meta(words("The currency, as Stripe writes it.", "usd")),
              captured: money().meta(words("In the currency's smallest unit, as at Stripe.", 1_500)),
              refunded: money().meta(words("In the currency's smallest unit, as at Stripe.", 500)),
              withheld: money().meta(words("In the currency's smallest unit, as at Stripe.", 0)),
            })
            .meta({ id: "PaymentSums" }),
        )
        .optional()
        .meta(words("The sums of all payments that match the filters. Only on the first page.")),
      carry: z
        .array(setCarryOutput)
        .optional()
        .meta(
          words(
            "The carries of the user's Stripe customers: what their invoices returned and have not bought since. Only on the first page, with `userId`.",
          ),
        ),
      nextCursor,
    })
    .meta({ id: "PaymentList" }),
);

const paymentRefunds = lazy(() =>
  z.enum(REFUNDS).meta({ id: "PaymentRefunds", ...words("How much of a payment was refunded.", "none") }),
);

const paymentSettler = lazy(() =>
  z.enum(SETTLERS).meta({ id: "PaymentSettler", ...words("Who settled a payment.", "stripe") }),
);

const paymentStatus = lazy(() =>
  z.enum(["granted", "unmatched", "waiting"]).meta({ id: "PaymentStatus", ...words("The status.", "granted") }),
);

export const listPaymentsInput = lazy(() =>
  z.object({
    mode: mode.meta(words("The mode of the payments.", "live")),
    status: paymentStatus.optional().meta(words("Only payments of this status.", "granted")),
    refunds: paymentRefunds.optional().meta(words("Only payments that were refunded to this extent.", "none")),
    isDisputed: queryFlag
      .optional()
      .meta(words("Only payments with, or without, an amount that a dispute withholds.", true)),
    settledBy: paymentSettler
      .optional()
      .meta(words("Only payments that were granted by an event, or by hand.", "stripe")),
    userId: userId.optional().meta(words("Only payments of this user.", "user_42")),
    externalRef: identifier(500)
      .optional()
      .meta(words("Only the payment that granted balances under this reference.", "order-1001")),
    limit: pageLimit("payments").meta(words("The most payments in a page.", 50)),
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
  ...(WITH_REFERENCE && {
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
  }),
  handler: (admin, { params, query }) => listPayments(admin, params.appId, query),
});
