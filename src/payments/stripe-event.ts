import * as z from "zod";
import { type Fraction, fraction, fractionText, ONE, reduceFraction, ZERO } from "../books/amounts/fraction.ts";
import type { Fact } from "./facts.ts";
import { readInvoice } from "./invoice.ts";
import { type IgnoredReason, NO_FACTS } from "./reasons.ts";

import {
  charge,
  dispute,
  type GrantRequest,
  intent,
  invoicePayment,
  namesOf,
  parse,
  readRequestedGrant,
  refund,
  session,
  userIn,
} from "./stripe-objects.ts";

export interface StripeEvent {
  readonly [name: string]: unknown;
  readonly id: string;
  readonly type: string;
  readonly created: number;
  readonly livemode: boolean;
  readonly data: { readonly [name: string]: unknown; readonly object: { readonly [name: string]: unknown } };
  readonly account?: string | null | undefined;
}

/** The data of an event about one payment. */
export interface PaymentChange {
  readonly eventId: string;
  readonly type: string;
  /** `created`, in seconds. */
  readonly at: number;
  /** The text for ledger notes: its type and the id of its object. */
  readonly note: string;
  /** The Stripe ids that, as the event shows, belong to one payment. */
  readonly names: readonly string[];
  readonly facts: readonly Fact[];
  /** The Stripe customer of an invoice. */
  readonly customer: string | null;
  /** The user of a customer, from the checkout session of a subscription. */
  readonly link: { readonly customer: string; readonly userId: string } | null;
  /** The names in the event, for the log. */
  readonly asked: GrantRequest;
}

/** An event that does not concern Purser, with the reason. */
export interface IgnoredEvent {
  readonly ignored: IgnoredReason;
  readonly asked: GrantRequest;
}

type ReadParts = Partial<Pick<PaymentChange, "names" | "facts" | "customer" | "link">>;
type EventReading = (ReadParts | { readonly ignored: IgnoredReason }) & { readonly asked?: Partial<GrantRequest> };

/** Returns the change of a payment by an event, or the reason why the event is ignored. */
export function readChange(event: StripeEvent): PaymentChange | IgnoredEvent {
  const { object } = event.data;
  const { id } = object;
  const asked = { objectId: typeof id === "string" ? id : null, pack: null, user: null, hint: NO_FACTS };
  // An event of Stripe Connect is about another account's money.
  if (typeof event.account === "string") return { ignored: "connect", asked };
  const reader = READERS.get(event.type);
  if (reader === undefined) return { ignored: "another_type", asked };
  const reading = reader(object, event);
  const all = { ...asked, ...reading.asked };
  if ("ignored" in reading) return { ignored: reading.ignored, asked: all };
  const { id: objectId } = parse(z.object({ id: z.string() }), object);
  const common = { eventId: event.id, type: event.type, at: event.created, note: `Stripe ${event.type}: ${objectId}` };
  return { names: [], facts: [], customer: null, link: null, ...reading, ...common, asked: all };
}

type EventReader = (object: unknown, event: StripeEvent) => EventReading;

/** The values of `payment_status` that grant. */
const PAID: readonly string[] = ["paid", "no_payment_required"];

const readSession: EventReader = (object, { created: at }) => {
  const found = parse(session, object);
  const { id, payment_intent: payment, metadata } = found;
  const named = found.client_reference_id || metadata?.user || null;
  const userId = userIn(named);
  const names = namesOf(payment, found.invoice, id);
  const goods =
    found.amount_subtotal == null ? null : found.amount_subtotal - (found.total_details?.amount_discount ?? 0);
  const asked = readRequestedGrant(found.mode === "subscription" ? "subscription" : "session", metadata, named, goods);
  if (found.mode === "subscription") {
    if (userId === null || typeof found.customer !== "string") return { ignored: "no_user", asked };
    const link = { customer: found.customer, userId };
    return { names: typeof found.invoice === "string" ? names : [], link, asked };
  }
  if (found.mode !== "payment") return { ignored: "setup_mode", asked };
  if (named === null && !metadata?.pack) return { ignored: "another_product", asked };
  if (!PAID.includes(found.payment_status)) return { ignored: "unpaid", asked };
  const data = {
    pack: metadata?.pack ?? null,
    quantity: metadata?.quantity ?? null,
    goods,
    total: found.amount_total ?? null,
    currency: found.currency ?? null,
    ref: payment ?? id,
  };
  return { names, facts: [{ kind: "session", id, at, userId, data }], asked };
};

/** Reads an off-session payment, which names its pack and its user in its metadata. */
const readIntent: EventReader = (object, { created: at }) => {
  const { id, invoice: of, metadata, amount_received: paid, currency } = parse(intent, object);
  const named = metadata?.user || null;
  const asked = readRequestedGrant("intent", metadata, named, paid);
  const pack = metadata?.pack || null;
  if (named === null || pack === null) return { ignored: "another_product", asked };
  const data = { pack, quantity: metadata?.quantity ?? null, goods: paid, total: paid, currency, ref: id };
  return { names: namesOf(id, of), facts: [{ kind: "intent", id, at, userId: userIn(named), data }], asked };
};

const readInvoicePayment: EventReader = (object, { created: at }) => {
  const { id: ownId, payment, invoice: of, amount_paid: paid, currency } = parse(invoicePayment, object);
  const name = payment.payment_intent ?? payment.charge;
  // A payment outside of Stripe has no other name. Its invoice need not wait any more.
  const id = name ?? ownId;
  const data = { paid: paid ?? 0, currency };
  return { names: namesOf(name, of), facts: [{ kind: "invoice_payment", id, at, userId: null, data }] };
};

const readCharge: EventReader = (object, { created: at }) => {
  const { id, payment_intent, amount_captured, amount_refunded, currency } = parse(charge, object);
  const of = payment_intent ?? id;
  const data = { of, refunded: amount_refunded, captured: amount_captured, currency };
  return { names: [of], facts: [{ kind: "charge", id, at, userId: null, data }] };
};

const readRefund: EventReader = (object, { created: at }) => {
  const { id, charge: ofCharge = null, payment_intent, amount, status } = parse(refund, object);
  const of = payment_intent ?? ofCharge;
  if (of === null) return { ignored: "no_payment" };
  const isFailed = status === "failed" || status === "canceled";
  const data = { charge: ofCharge, of, amount, isFailed, failedAt: isFailed ? at : null };
  return { names: [of], facts: [{ kind: "refund", id, at, userId: null, data }] };
};

const readDispute: EventReader = (object, { created: at, type }) => {
  const found = parse(dispute, object);
  const { id, charge: ofCharge, amount, currency } = found;
  const of = found.payment_intent ?? ofCharge;
  const isReinstated = type === "charge.dispute.funds_reinstated";
  const data = {
    charge: ofCharge,
    of,
    amount,
    out: fractionText(isReinstated ? withdrawnPart(found) : ONE),
    currency,
    isReinstated,
  };
  return { names: [of], facts: [{ kind: "dispute", id, at, userId: null, data }] };
};

/** Returns the part of a dispute that is still withdrawn, by its balance transactions, in whatever currency they are. */
function withdrawnPart({ status, balance_transactions }: z.infer<typeof dispute>): Fraction {
  const moved = (balance_transactions ?? []).map((transaction) => BigInt(transaction.amount));
  const withdrawn = moved.reduce((sum, each) => (each < 0n ? sum - each : sum), 0n);
  const out = -moved.reduce((sum, each) => sum + each, 0n);
  return status === "won" || out <= 0n ? ZERO : reduceFraction(fraction(out, withdrawn));
}

const READERS = new Map<string, EventReader>([
  ["checkout.session.completed", readSession],
  ["checkout.session.async_payment_succeeded", readSession],
  ["payment_intent.succeeded", readIntent],
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
