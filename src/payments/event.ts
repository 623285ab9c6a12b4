import * as z from "zod";
import type { CreditFact, Fact, InvoiceFact, InvoiceLine } from "./facts.ts";
import { type HintFacts, type IgnoredReason, misnamed, NO_FACTS } from "./hints.ts";
import {
  charge,
  dispute,
  intent,
  invoice,
  invoicePayment,
  namesOf,
  parse,
  refund,
  session,
  type stripeLine,
  userIn,
} from "./stripe-objects.ts";

/** The data of an event about one payment. */
export interface PaymentChange {
  readonly eventId: string;
  readonly type: string;
  /** `created`, in seconds. */
  readonly at: number;
  /** The text for ledger notes: its type and the id of its object. */
  readonly note: string;
  /** Stripe ids that the event shows to be one payment. */
  readonly names: readonly string[];
  readonly facts: readonly Fact[];
  /** The Stripe customer of an invoice. */
  readonly customer: string | null;
  /** The credits of other invoices by negative lines. */
  readonly credits: readonly Credit[];
  /** The user of a customer, from a subscription's session. */
  readonly link: { readonly customer: string; readonly userId: string } | null;
  /** The names in the event, for the log. */
  readonly asked: AskedGrant;
}

/** The names in an event, unchanged (S5). */
export interface AskedGrant {
  readonly objectId: string | null;
  readonly pack: string | null;
  readonly user: string | null;
  readonly hint: HintFacts;
}

/** An event that does not concern Purser, and why. */
export interface IgnoredEvent {
  readonly ignored: IgnoredReason;
  readonly asked: AskedGrant;
}

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

type SaidOf = Partial<Pick<PaymentChange, "names" | "facts" | "customer" | "credits" | "link">>;
type Said = (SaidOf | { readonly ignored: IgnoredReason }) & { readonly asked?: Partial<AskedGrant> };

/** The change of a payment by an event, or the reason why the event is ignored. */
export function readChange(event: StripeEvent): PaymentChange | IgnoredEvent {
  const { object } = event.data;
  const { id } = object;
  const asked = { objectId: typeof id === "string" ? id : null, pack: null, user: null, hint: NO_FACTS };
  // An event of Stripe Connect is about another account's money.
  if (typeof event.account === "string") return { ignored: "connect", asked };
  const reader = READERS.get(event.type);
  if (reader === undefined) return { ignored: "another_type", asked };
  const said = reader(object, event);
  const all = { ...asked, ...said.asked };
  if ("ignored" in said) return { ignored: said.ignored, asked: all };
  const { id: objectId } = parse(z.object({ id: z.string() }), object);
  const common = { eventId: event.id, type: event.type, at: event.created, note: `Stripe ${event.type}: ${objectId}` };
  return { names: [], facts: [], customer: null, credits: [], link: null, ...said, ...common, asked: all };
}

type EventReader = (object: unknown, event: StripeEvent) => Said;

const readSession: EventReader = (object, { created: at }) => {
  const found = parse(session, object);
  const { id, payment_intent: payment, metadata: own } = found;
  const named = found.client_reference_id || own?.user || null;
  const userId = userIn(named);
  const names = namesOf(payment, found.invoice, id);
  const goods =
    found.amount_subtotal == null ? null : found.amount_subtotal - (found.total_details?.amount_discount ?? 0);
  const asked = askedOf(found.mode === "subscription" ? "subscription" : "session", own, named, goods);
  if (found.mode === "subscription") {
    if (userId === null || typeof found.customer !== "string") return { ignored: "no_user", asked };
    const link = { customer: found.customer, userId };
    return { names: typeof found.invoice === "string" ? names : [], link, asked };
  }
  if (found.mode !== "payment") return { ignored: "setup_mode", asked };
  if (named === null && !own?.pack) return { ignored: "another_product", asked };
  if (found.payment_status === "unpaid") return { ignored: "unpaid", asked };
  const data = {
    pack: own?.pack ?? null,
    quantity: own?.quantity ?? null,
    goods,
    total: found.amount_total ?? null,
    currency: found.currency ?? null,
    ref: payment ?? id,
  };
  return { names, facts: [{ kind: "session", id, at, userId, data }], asked };
};

/** The names in an event's metadata. */
function askedOf(
  kind: HintFacts["kind"],
  metadata: { readonly pack?: unknown; readonly quantity?: unknown } | null | undefined,
  named: string | null,
  goods: number | null = null,
): Partial<AskedGrant> {
  const pack = typeof metadata?.pack === "string" && metadata.pack !== "" ? metadata.pack : null;
  const user = userIn(named);
  const quantity = metadata?.quantity == null ? ("none" as const) : ("given" as const);
  const state = named === null ? ("none" as const) : user === null ? ("invalid" as const) : ("named" as const);
  const hint = {
    ...NO_FACTS,
    kind,
    misnamed: misnamed(metadata),
    user: state,
    hasPack: pack !== null,
    quantity,
    goods,
  };
  return { pack, user, hint };
}

/** An off-session payment that names its pack and its user in its own metadata. */
const readIntent: EventReader = (object, { created: at }) => {
  const { id, invoice: of, metadata, amount_received: paid, currency } = parse(intent, object);
  const named = metadata?.user || null;
  const asked = askedOf("intent", metadata, named, paid);
  const pack = metadata?.pack || null;
  if (named === null || pack === null) return { ignored: "another_product", asked };
  const data = { pack, quantity: metadata?.quantity ?? null, goods: paid, total: paid, currency, ref: id };
  return { names: namesOf(id, of), facts: [{ kind: "intent", id, at, userId: userIn(named), data }], asked };
};

const readInvoicePayment: EventReader = (object, { created: at }) => {
  const { payment, invoice: of, amount_paid: paid, currency } = parse(invoicePayment, object);
  const id = payment.payment_intent ?? payment.charge;
  // The invoice was paid outside of Stripe.
  if (typeof id !== "string") return { ignored: "no_payment" };
  const data = { paid: paid ?? 0, currency };
  return { names: namesOf(id, of), facts: [{ kind: "invoice_payment", id, at, userId: null, data }] };
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
  const data = { charge: ofCharge, of, amount, out: isReinstated ? stillOut(found) : amount, currency, isReinstated };
  return { names: [of], facts: [{ kind: "dispute", id, at, userId: null, data }] };
};

/**
 * The part of a dispute that is still withdrawn, by its balance transactions, in any currency. It is rounded up, so that it is never
 * too small.
 */
function stillOut({ amount, status, balance_transactions }: z.infer<typeof dispute>): number {
  const moved = (balance_transactions ?? []).map((transaction) => BigInt(transaction.amount));
  const withdrawn = moved.reduce((sum, each) => (each < 0n ? sum - each : sum), 0n);
  const out = -moved.reduce((sum, each) => sum + each, 0n);
  if (status === "won" || out <= 0n) return 0;
  return Number((BigInt(amount) * out + withdrawn - 1n) / withdrawn);
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

/** A negative line of an invoice (S6). */
export interface Credit {
  /** The invoice with the credited lines. Null means the newest granted line of the same price and subscription. */
  readonly invoice: string | null;
  readonly price: string;
  readonly subscription: string | null;
  readonly fact: CreditFact;
}

/** The most lines that an event contains. */
const LINES_MAX = 100;

/** The change of a payment by `invoice.paid`. */
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
  const metadata = isSubscription ? details?.metadata : found.metadata;
  const userId = userIn(metadata?.user);
  const fact: InvoiceFact = { kind: "invoice", id: found.id, at, userId, data };
  return {
    names: namesOf(found.payment_intent ?? found.charge, found.id),
    facts: [fact],
    customer: found.customer ?? null,
    asked: askedOf("invoice", metadata, metadata?.user || null),
    credits: taken.flatMap((one, index) => {
      const read = lines[index];
      return read === undefined || read.net >= 0 ? [] : (creditOfLine(fact, one, read) ?? []);
    }),
  };
}

type FoundLine = z.infer<typeof stripeLine>;

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

function creditOfLine({ id, at, data }: InvoiceFact, found: FoundLine, read: InvoiceLine): Credit | null {
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
