import * as z from "zod";
import { identifier } from "../http/fields.ts";
import { refusalOfIssues } from "../http/refusal-of-issues.ts";
import type { Fact, InvoiceLine } from "./facts.ts";
import { charge, dispute, invoice, invoicePayment, type line, refund, session } from "./stripe-objects.ts";

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
  /** A subscription's session says whose a customer is. */
  readonly link: { readonly customer: string; readonly userId: string } | null;
}

export const stripeEventInput = z
  .looseObject({
    id: z.string(),
    type: z.string(),
    created: z.int().describe("In seconds since 1970."),
    livemode: z.boolean(),
    data: z.looseObject({ object: z.looseObject({}) }),
  })
  .meta({ id: "StripeEvent" });
export type StripeEvent = z.infer<typeof stripeEventInput>;

function parse<Schema extends z.ZodType>(schema: Schema, value: unknown): z.output<Schema> {
  const result = schema.safeParse(value);
  if (!result.success) throw refusalOfIssues(result.error.issues, "data.object");
  return result.data;
}

const USER = identifier();
/** A user that a grant would take. Null for none, and for what is no user id. */
function userIn(...texts: readonly (string | null | undefined)[]): string | null {
  const found = texts.find((value) => value !== null && value !== undefined && value !== "");
  return found !== undefined && USER.safeParse(found).success ? (found ?? null) : null;
}

type Said = Partial<Pick<PaymentChange, "names" | "facts" | "customer" | "link">>;
type Names = readonly (string | null | undefined)[];
const namesOf = (...names: Names): string[] => [...new Set(names.filter((name) => typeof name === "string"))];

/** What an event says of a payment. Null for an event that is about nothing here. */
export function readChange(event: StripeEvent): PaymentChange | null {
  const { object } = event.data;
  const said = READERS.get(event.type)?.(object, event) ?? null;
  if (said === null) return null;
  const { id } = parse(z.object({ id: z.string() }), object);
  const common = { eventId: event.id, type: event.type, at: event.created, note: `Stripe ${event.type}: ${id}` };
  return { names: [], facts: [], customer: null, link: null, ...said, ...common };
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
    subtotal: found.amount_subtotal ?? null,
    total: found.amount_total ?? null,
    currency: found.currency ?? null,
    ref: intent ?? id,
  };
  return { names, facts: [{ kind: "session", id, at, userId, data }] };
};

/** More lines than an event has. */
const LINES_MAX = 100;

function readLine(found: z.infer<typeof line>): InvoiceLine {
  const { id, amount, quantity = null, period, parent } = found;
  const isProration =
    found.proration ?? parent?.subscription_item_details?.proration ?? parent?.invoice_item_details?.proration ?? false;
  const price = found.pricing?.price_details?.price ?? found.price?.id ?? null;
  return { id, price, quantity, amount, isProration, start: period.start, end: period.end };
}

const readInvoice: Reader = (object, { created: at }) => {
  const found = parse(invoice, object);
  const details = found.parent?.subscription_details ?? found.subscription_details ?? null;
  const isSubscription = details !== null || typeof found.subscription === "string";
  const data = {
    isSubscription,
    lines: found.lines.data.slice(0, LINES_MAX).map(readLine),
    hasMore: found.lines.has_more === true || found.lines.data.length > LINES_MAX,
    paid: found.amount_paid,
    currency: found.currency,
  };
  const userId = userIn(isSubscription ? details?.metadata?.user : found.metadata?.user);
  return {
    names: namesOf(found.payment_intent ?? found.charge, found.id),
    facts: [{ kind: "invoice", id: found.id, at, userId, data }],
    customer: found.customer ?? null,
  };
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

/** What the balance transactions of a dispute say is still withheld. One in another currency counts as all. */
function stillOut({ amount, currency, balance_transactions }: z.infer<typeof dispute>): number {
  const moved = balance_transactions ?? [];
  const out = -moved.reduce((sum, transaction) => sum + transaction.amount, 0);
  if (out <= 0) return 0;
  return moved.every((transaction) => transaction.currency === currency) ? Math.min(out, amount) : amount;
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
