import * as z from "zod";
import type { CreditFact, InvoiceFact, InvoiceLine } from "./facts.ts";
import { askedOf, metadata, namesOf, nullableText, parse, userIn, whole } from "./stripe-objects.ts";

const credited = z.lazy(() => z.object({ invoice: nullableText, invoice_line_items: z.array(z.string()).nullish() }));
const prorationDetails = z.lazy(() => z.object({ credited_items: credited.nullish() }).nullish());
const lineParent = z.lazy(() =>
  z
    .object({ proration: z.boolean().nullish(), proration_details: prorationDetails, subscription: nullableText })
    .nullish(),
);
const stripeLine = z.lazy(() =>
  z.object({
    id: z.string(),
    amount: whole,
    discount_amounts: z.array(z.object({ amount: whole })).nullish(),
    quantity: whole.nullish(),
    proration: z.boolean().nullish(),
    proration_details: prorationDetails,
    subscription: nullableText,
    price: z.object({ id: z.string(), unit_amount: whole.nullish() }).nullish(),
    pricing: z.object({ price_details: z.object({ price: nullableText }).nullish() }).nullish(),
    parent: z.object({ subscription_item_details: lineParent, invoice_item_details: lineParent }).nullish(),
    period: z.object({ start: whole, end: whole }),
  }),
);

const subscriptionDetails = z.lazy(() => z.object({ metadata, subscription: nullableText }).nullish());
const invoice = z.lazy(() =>
  z.object({
    id: z.string(),
    customer: nullableText,
    metadata,
    amount_paid: whole,
    total: z.nullish(whole),
    currency: z.string(),
    // API versions before 2025-03-31 send `payment_intent`, `charge`, `subscription` and `subscription_details` here, and `price`,
    // `proration`, `proration_details` and `subscription` in lines.
    payment_intent: nullableText,
    charge: nullableText,
    subscription: nullableText,
    subscription_details: subscriptionDetails,
    parent: z.object({ subscription_details: subscriptionDetails }).nullish(),
    lines: z.object({ data: z.array(stripeLine), has_more: z.boolean().nullish() }),
  }),
);

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

/** Returns the change of a payment by `invoice.paid`. */
export function readInvoice(object: unknown, { created: at }: { readonly created: number }) {
  const found = parse(invoice, object);
  const details = found.parent?.subscription_details ?? found.subscription_details ?? null;
  const subscription = found.subscription ?? details?.subscription ?? null;
  const isSubscription = details !== null || subscription !== null;
  const stripeLines = found.lines.data.slice(0, LINES_MAX);
  const lines = stripeLines.map((line) => readLine(line, subscription));
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
    credits: stripeLines.flatMap((stripeLine, index) => {
      const line = lines[index];
      return line === undefined || line.net >= 0 ? [] : (creditOfLine(fact, stripeLine, line) ?? []);
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
    // A discount also brings a negative line nearer to 0.
    net: Math.sign(amount) * Math.max(0, Math.abs(amount) - discount),
    unitAmount: found.price?.unit_amount ?? null,
    subscription: found.subscription ?? parent?.subscription ?? subscription,
    isProration: found.proration ?? parent?.proration ?? false,
    ...{ start: period.start, end: period.end },
  };
}

function creditOfLine({ id, at, data }: InvoiceFact, found: FoundLine, line: InvoiceLine): Credit | null {
  const { price, subscription } = line;
  if (price === null) return null;
  const named = (found.proration_details ?? parentOf(found)?.proration_details)?.credited_items ?? null;
  const items = named?.invoice_line_items ?? [];
  const isNamed = typeof named?.invoice === "string" && items.length > 0;
  const ofSameInvoice = data.lines.filter((other) => other.price === price && other.net > 0).map((other) => other.id);
  const fact = (lines: readonly string[]): CreditFact => ({
    ...{ kind: "credit", id: `${id}:${line.id}`, at, userId: null },
    data: { lines, amount: -line.net, currency: data.currency },
  });
  if (isNamed) return { invoice: named.invoice ?? null, price, subscription, fact: fact(items) };
  return { invoice: ofSameInvoice.length > 0 ? id : null, price, subscription, fact: fact(ofSameInvoice) };
}
