import * as z from "zod";
import type { Fact } from "./facts.ts";
import { type Credit, readInvoice } from "./invoice-event.ts";
import { namesOf, parse, userIn } from "./read-object.ts";
import { charge, dispute, invoicePayment, refund, session } from "./stripe-objects.ts";

/** What an event says of one payment. */
export interface PaymentChange {
  readonly eventId: string;
  readonly type: string;
  /** `created`, in seconds. */
  readonly at: number;
  /** What the ledger's notes say of it: its type, and the id of its object. */
  readonly note: string;
  /** The names that it says are one payment. */
  readonly names: readonly string[];
  readonly facts: readonly Fact[];
  /** The Stripe customer of an invoice. */
  readonly customer: string | null;
  /** What negative lines credit of other invoices. */
  readonly credits: readonly Credit[];
  /** A subscription's session says whose a customer is. */
  readonly link: { readonly customer: string; readonly userId: string } | null;
}

export const stripeEventInput = z
  .looseObject({
    id: z.string(),
    type: z.string(),
    created: z.int().describe("In seconds since 1970."),
    livemode: z.boolean(),
    account: z.string().nullish().describe("Of Stripe Connect: such an event is ignored."),
    data: z.looseObject({ object: z.looseObject({}) }),
  })
  .meta({ id: "StripeEvent" });
export type StripeEvent = z.infer<typeof stripeEventInput>;

type Said = Partial<Pick<PaymentChange, "names" | "facts" | "customer" | "credits" | "link">>;

/** What an event says of a payment. Null for an event that is about nothing here. */
export function readChange(event: StripeEvent): PaymentChange | null {
  const { object } = event.data;
  // Of Stripe Connect: another account's money.
  if (typeof event.account === "string") return null;
  const said = READERS.get(event.type)?.(object, event) ?? null;
  if (said === null) return null;
  const { id } = parse(z.object({ id: z.string() }), object);
  const common = { eventId: event.id, type: event.type, at: event.created, note: `Stripe ${event.type}: ${id}` };
  return { names: [], facts: [], customer: null, credits: [], link: null, ...said, ...common };
}

type Reader = (object: unknown, event: StripeEvent) => Said | null;

const readSession: Reader = (object, { created: at }) => {
  const found = parse(session, object);
  const { id, payment_intent: intent, metadata: own } = found;
  const userId = userIn(found.client_reference_id, own?.user);
  const names = namesOf(intent, found.invoice, id);
  if (found.mode === "subscription") {
    if (userId === null || typeof found.customer !== "string") return null;
    const link = { customer: found.customer, userId };
    return { names: typeof found.invoice === "string" ? names : [], link };
  }
  if (found.mode !== "payment" || found.payment_status === "unpaid") return null;
  // Another product's.
  if (!found.client_reference_id && !own?.user && !own?.pack) return null;
  const data = {
    pack: own?.pack ?? null,
    quantity: own?.quantity ?? null,
    goods: found.amount_subtotal == null ? null : found.amount_subtotal - (found.total_details?.amount_discount ?? 0),
    total: found.amount_total ?? null,
    currency: found.currency ?? null,
    ref: intent ?? id,
  };
  return { names, facts: [{ kind: "session", id, at, userId, data }] };
};

const readInvoicePayment: Reader = (object, { created: at }) => {
  const { payment, invoice: of, amount_paid: paid, currency } = parse(invoicePayment, object);
  const id = payment.payment_intent ?? payment.charge;
  // What was paid outside of Stripe.
  if (typeof id !== "string") return null;
  const data = { paid: paid ?? 0, currency };
  return { names: namesOf(id, of), facts: [{ kind: "invoice_payment", id, at, userId: null, data }] };
};

const readCharge: Reader = (object, { created: at }) => {
  const { id, payment_intent, amount_captured, amount_refunded, currency } = parse(charge, object);
  const of = payment_intent ?? id;
  const data = { of, refunded: amount_refunded, captured: amount_captured, currency };
  return { names: [of], facts: [{ kind: "charge", id, at, userId: null, data }] };
};

const readRefund: Reader = (object, { created: at }) => {
  const { id, charge: ofCharge = null, payment_intent, amount, status } = parse(refund, object);
  const of = payment_intent ?? ofCharge;
  if (of === null) return null;
  const isFailed = status === "failed" || status === "canceled";
  const data = { charge: ofCharge, of, amount, isFailed, failedAt: isFailed ? at : null };
  return { names: [of], facts: [{ kind: "refund", id, at, userId: null, data }] };
};

const readDispute: Reader = (object, { created: at, type }) => {
  const found = parse(dispute, object);
  const { id, charge: ofCharge, amount, currency } = found;
  const of = found.payment_intent ?? ofCharge;
  const isReinstated = type === "charge.dispute.funds_reinstated";
  const data = { charge: ofCharge, of, amount, out: isReinstated ? stillOut(found) : amount, currency, isReinstated };
  return { names: [of], facts: [{ kind: "dispute", id, at, userId: null, data }] };
};

/**
 * The part of a dispute that its balance transactions say is still out, in whichever currency they are. Rounded up, so that what
 * is out is never less than that.
 */
function stillOut({ amount, status, balance_transactions }: z.infer<typeof dispute>): number {
  const moved = (balance_transactions ?? []).map((transaction) => BigInt(transaction.amount));
  const withdrawn = moved.reduce((sum, each) => (each < 0n ? sum - each : sum), 0n);
  const out = -moved.reduce((sum, each) => sum + each, 0n);
  if (status === "won" || out <= 0n) return 0;
  return Number((BigInt(amount) * out + withdrawn - 1n) / withdrawn);
}

const READERS = new Map<string, Reader>([
  ["checkout.session.completed", readSession],
  ["checkout.session.async_payment_succeeded", readSession],
  ["invoice.paid", readInvoice],
  ["invoice_payment.paid", readInvoicePayment],
  ["charge.refunded", readCharge],
  ["refund.updated", readRefund],
  ["refund.failed", readRefund],
  ["charge.dispute.funds_withdrawn", readDispute],
  ["charge.dispute.funds_reinstated", readDispute],
]);

/** The events to choose at Stripe. */
export const STRIPE_EVENTS = [...READERS.keys()];
