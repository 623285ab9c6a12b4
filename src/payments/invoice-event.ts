import type * as z from "zod";
import type { CreditFact, InvoiceFact, InvoiceLine } from "./facts.ts";
import { namesOf, parse, userIn } from "./read-object.ts";
import { invoice, type line } from "./stripe-objects.ts";

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
export function readInvoice(object: unknown, { created: at }: { readonly created: number }) {
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
