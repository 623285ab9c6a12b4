import * as z from "zod";
import type { InvoiceFact, InvoiceLine } from "./facts.ts";
import { metadata, namesOf, nullableText, parse, readRequestedGrant, userIn, whole } from "./stripe-objects.ts";

const lineParent = z.lazy(() => z.object({ proration: z.boolean().nullish() }).nullish());
const stripeLine = z.lazy(() =>
  z.object({
    id: z.string(),
    amount: whole,
    discount_amounts: z.array(z.object({ amount: whole })).nullish(),
    taxes: z.array(z.object({ amount: whole, tax_behavior: nullableText })).nullish(),
    quantity: whole.nullish(),
    period: z.object({ start: whole, end: whole }),
    pricing: z.object({ price_details: z.object({ price: nullableText }).nullish() }).nullish(),
    parent: z.object({ subscription_item_details: lineParent, invoice_item_details: lineParent }).nullish(),
    // In API versions before 2025-03-31.
    price: z.object({ id: z.string(), unit_amount: whole.nullish(), currency: nullableText }).nullish(),
    proration: z.boolean().nullish(),
    tax_amounts: z.array(z.object({ amount: whole, inclusive: z.boolean() })).nullish(),
  }),
);

const subscriptionDetails = z.lazy(() => z.object({ metadata, subscription: nullableText }).nullish());
const invoice = z.lazy(() =>
  z.object({
    id: z.string(),
    customer: nullableText,
    metadata,
    created: whole.nullish(),
    amount_paid: whole,
    total: z.nullish(whole),
    total_excluding_tax: z.nullish(whole),
    currency: z.string(),
    // In API versions before 2025-03-31. There `subscription_details` is an object even without a subscription.
    payment_intent: nullableText,
    charge: nullableText,
    subscription: nullableText,
    subscription_details: subscriptionDetails,
    paid_out_of_band: z.boolean().nullish(),
    parent: z.object({ subscription_details: subscriptionDetails }).nullish(),
    lines: z.object({ data: z.array(stripeLine), has_more: z.boolean().nullish() }),
  }),
);

/** The most lines that an event contains. */
const LINES_MAX = 100;

/** Returns the change of a payment by `invoice.paid`. */
export function readInvoice(object: unknown, { created: at }: { readonly created: number }) {
  const found = parse(invoice, object);
  const { id, currency, amount_paid: paid, customer = null } = found;
  const details = found.parent?.subscription_details ?? found.subscription_details ?? null;
  const isSubscription =
    (found.subscription ?? details?.subscription ?? found.parent?.subscription_details ?? details?.metadata ?? null) !==
    null;
  const total = found.total ?? 0;
  const data = {
    isSubscription,
    lines: found.lines.data.slice(0, LINES_MAX).map((line) => readLine(line, currency)),
    hasMore: found.lines.has_more === true || found.lines.data.length > LINES_MAX,
    created: found.created ?? at,
    ...{ paid, total, totalWithoutTax: found.total_excluding_tax ?? total, currency },
    // Then a payment intent paid it, which an event names sooner or later.
    isPaidAtStripe: paid > 0 && found.paid_out_of_band !== true,
  };
  const metadata = isSubscription ? details?.metadata : found.metadata;
  const fact: InvoiceFact = { kind: "invoice", id, at, userId: userIn(metadata?.user), data };
  return {
    names: namesOf(found.payment_intent ?? found.charge, id),
    facts: [fact],
    customer,
    asked: readRequestedGrant("invoice", metadata, metadata?.user || null),
  };
}

function readLine(found: z.infer<typeof stripeLine>, currency: string): InvoiceLine {
  const { id, amount, quantity = null, period, discount_amounts, taxes, tax_amounts, price } = found;
  const parent = found.parent?.subscription_item_details ?? found.parent?.invoice_item_details ?? null;
  const sumOf = (amounts: readonly { readonly amount: number }[]) =>
    amounts.reduce((sum, each) => sum + each.amount, 0);
  const discount = (discount_amounts ?? []).reduce((sum, each) => sum + Math.abs(each.amount), 0);
  const added = [
    ...(taxes ?? []).filter((tax) => tax.tax_behavior === "exclusive"),
    ...(tax_amounts ?? []).filter((tax) => !tax.inclusive),
  ];
  return {
    ...{ id, quantity, amount },
    price: found.pricing?.price_details?.price ?? price?.id ?? null,
    // A discount also brings a negative line nearer to 0.
    net: Math.sign(amount) * Math.max(0, Math.abs(amount) - discount),
    tax: sumOf(added),
    unitAmount: (price?.currency ?? currency) === currency ? (price?.unit_amount ?? null) : null,
    isProration: found.proration ?? parent?.proration ?? false,
    ...{ start: period.start, end: period.end },
  };
}
