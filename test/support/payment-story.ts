import { dispute } from "./stripe-disputes.ts";
import { charge, eventOf, paymentIntent, refund, session, type TestEvent } from "./stripe-events.ts";
import { invoice, invoicePayment } from "./stripe-invoices.ts";
import { type ApiVersion, TODAY } from "./stripe-versions.ts";

export const PRICES = { items: "price_items", wallet: "price_wallet", period: "price_period" };

/** All of Stripe's events about one payment of 1000: of its checkout session, its payment intent, its invoice and its charge. */
export const STORY_EVENTS = [
  "completed",
  "asyncPaid",
  "received",
  "invoicePaid",
  "tie",
  "refunded30",
  "refunded100",
  "refundFailed",
  "withdrawn",
  "reinstated",
] as const;
export type StoryEvent = (typeof STORY_EVENTS)[number];
export type Story = Readonly<Record<StoryEvent, TestEvent>>;

export interface StoryOptions {
  readonly nowS: number;
  readonly userId: string;
  /** A part of all Stripe ids, which makes them unique. */
  readonly id: string;
  /** Whether the session names its invoice. */
  readonly isTied: boolean;
  /** Whether the invoice is a subscription's. Otherwise it waits until its payment intent is known (S3). */
  readonly isSubscription?: boolean;
  /** In version BEFORE, an invoice names its payment intent. */
  readonly version?: ApiVersion;
  /** Whether all events have the same second. */
  readonly isAtOnce?: boolean;
}

/** The events of a payment of 1000 for 250.5 cents of credits. */
export function storyOf(options: StoryOptions): Story {
  const { nowS, userId, id, isTied, isSubscription = false, version = TODAY, isAtOnce = false } = options;
  const [pi, cs, ch, inv, dp] = ["pi_", "cs_", "ch_", "in_", "dp_"].map((prefix) => `${prefix}${id}`) as [
    string,
    string,
    string,
    string,
    string,
  ];
  const metadata = { pack: "wallet", quantity: "250.5" };
  const fields = { client_reference_id: userId, metadata, payment_intent: pi, invoice: isTied ? inv : null };
  const named = isSubscription ? { subscription: { user: userId } } : { metadata: { user: userId } };
  const bill = { ...named, lines: [{ id: "il_1", price: PRICES.wallet }], paymentIntent: pi };
  const tell = (type: string, seconds: number, object: Parameters<typeof eventOf>[2]) =>
    eventOf(type, nowS + (isAtOnce ? 0 : seconds), object, version);
  return {
    completed: tell("checkout.session.completed", 0, session(cs, fields)),
    asyncPaid: tell("checkout.session.async_payment_succeeded", 1, session(cs, fields)),
    // In version BEFORE, the intent names its invoice.
    received: tell(
      "payment_intent.succeeded",
      1,
      paymentIntent(pi, { metadata: { ...metadata, user: userId } }, version, inv),
    ),
    invoicePaid: tell("invoice.paid", 1, invoice(inv, bill, version)),
    tie: tell("invoice_payment.paid", 1, invoicePayment(`inpay_${id}`, inv, pi)),
    refunded30: tell("charge.refunded", 2, charge(ch, pi, 300)),
    refunded100: tell("charge.refunded", 3, charge(ch, pi, 1000)),
    refundFailed: tell("refund.failed", 4, refund(`re_${id}`, ch, pi, 700, "failed")),
    withdrawn: tell("charge.dispute.funds_withdrawn", 5, dispute(dp, ch, pi, 200, [-200])),
    reinstated: tell("charge.dispute.funds_reinstated", 6, dispute(dp, ch, pi, 200, [-200, 150])),
  };
}
