import * as z from "zod";
import type { CreditFact, Fact, InvoiceFact, InvoiceLine } from "./facts.ts";
import {
  charge,
  dispute,
  invoice,
  invoicePayment,
  type line,
  namesOf,
  parse,
  refund,
  session,
  userIn,
} from "./stripe-objects.ts";

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

export const stripeEventInput = z.lazy(() =>
  z
    .looseObject({
      id: z.string(),
      type: z.string(),
      created: z.int().describe("In seconds since 1970."),
      livemode: z.boolean(),
      account: z.string().nullish().describe("Of Stripe Connect: such an event is ignored."),
      data: z.looseObject({ object: z.looseObject({}) }),
    })
    .meta({ id: "StripeEvent" }),
);
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

/** A negative line of an invoice (S6). */
export interface Credit {
  /** The invoice that has the credited lines. Null: the newest granted line of its price and subscription is meant. */
  readonly invoice: string | null;
  readonly price: string;
  readonly subscription: string | null;
  readonly fact: CreditFact;
}

/** More lines than an event has. */
const LINES_MAX = 100;

/** What an `invoice.paid` says. */
function readInvoice(object: unknown, { created: at }: { readonly created: number }) {
  const found = parse(invoice, object);
  const details = found.parent?.subscription_details ?? found.subscription_details ?? null;
  const subscription = found.subscription ?? details?.subscription ?? null;
  const isSubscription = details !== null || subscription !== null;
  const taken = found.lines.data.slice(0, LINES_MAX);
  const lines = taken.map((one) => readLine(one, subscription));
  const data = {
    ...{ isSubscription, subscription, lines },
    hasMore: found.lines.has_more === true || found.lines.data.length > LINES_MAX,
    paid: found.amount_paid,
    total: found.total ?? 0,
    currency: found.currency,
  };
  const userId = userIn(isSubscription ? details?.metadata?.user : found.metadata?.user);
  const fact: InvoiceFact = { kind: "invoice", id: found.id, at, userId, data };
  return {
    names: namesOf(found.payment_intent ?? found.charge, found.id),
    facts: [fact],
    customer: found.customer ?? null,
    credits: taken.flatMap((one, index) => {
      const read = lines[index];
      return read === undefined || read.net >= 0 ? [] : (creditOf(fact, one, read) ?? []);
    }),
  };
}

type FoundLine = z.infer<typeof line>;

const parentOf = ({ parent }: FoundLine) => parent?.subscription_item_details ?? parent?.invoice_item_details ?? null;

function readLine(found: FoundLine, subscription: string | null): InvoiceLine {
  const { id, amount, quantity = null, period, discount_amounts } = found;
  const parent = parentOf(found);
  const discount = (discount_amounts ?? []).reduce((sum, each) => sum + Math.abs(each.amount), 0);
  return {
    ...{ id, quantity, amount },
    price: found.pricing?.price_details?.price ?? found.price?.id ?? null,
    // A discount makes a negative line smaller too.
    net: Math.sign(amount) * Math.max(0, Math.abs(amount) - discount),
    unitAmount: found.price?.unit_amount ?? null,
    subscription: found.subscription ?? parent?.subscription ?? subscription,
    isProration: found.proration ?? parent?.proration ?? false,
    ...{ start: period.start, end: period.end },
  };
}

function creditOf({ id, at, data }: InvoiceFact, found: FoundLine, read: InvoiceLine): Credit | null {
  const { price, subscription } = read;
  if (price === null) return null;
  const named = (found.proration_details ?? parentOf(found)?.proration_details)?.credited_items ?? null;
  const items = named?.invoice_line_items ?? [];
  const isNamed = typeof named?.invoice === "string" && items.length > 0;
  const beside = data.lines.filter((one) => one.price === price && one.net > 0).map((one) => one.id);
  const fact = (lines: readonly string[]): CreditFact => ({
    ...{ kind: "credit", id: `${id}:${read.id}`, at, userId: null },
    data: { lines, amount: -read.net, currency: data.currency },
  });
  if (isNamed) return { invoice: named.invoice ?? null, price, subscription, fact: fact(items) };
  return { invoice: beside.length > 0 ? id : null, price, subscription, fact: fact(beside) };
}
