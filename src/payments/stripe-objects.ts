import * as z from "zod";
import { identifier } from "../http/fields.ts";
import { refusalOfIssues } from "../http/validate.ts";

/** The used fields of Stripe's objects. Other fields are ignored, because Stripe may add fields at any time. */
const nullableText = z.lazy(() => z.string().nullish());
const whole = z.lazy(() => z.int());
const metadata = z.lazy(() =>
  z.looseObject({ user: nullableText, pack: nullableText, quantity: nullableText }).nullish(),
);

export const session = z.lazy(() =>
  z.object({
    id: z.string(),
    mode: z.string(),
    payment_status: z.string(),
    payment_intent: nullableText,
    invoice: nullableText,
    customer: nullableText,
    client_reference_id: nullableText,
    metadata,
    amount_subtotal: whole.nullish(),
    amount_total: whole.nullish(),
    total_details: z.object({ amount_discount: whole.nullish() }).nullish(),
    currency: nullableText,
  }),
);

export const intent = z.lazy(() =>
  z.object({
    id: z.string(),
    amount_received: whole,
    currency: z.string(),
    metadata,
    // Of API versions before 2025-03-31.
    invoice: nullableText,
  }),
);

const credited = z.lazy(() => z.object({ invoice: nullableText, invoice_line_items: z.array(z.string()).nullish() }));
const prorationDetails = z.lazy(() => z.object({ credited_items: credited.nullish() }).nullish());
const lineParent = z.lazy(() =>
  z
    .object({ proration: z.boolean().nullish(), proration_details: prorationDetails, subscription: nullableText })
    .nullish(),
);
export const stripeLine = z.lazy(() =>
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
export const invoice = z.lazy(() =>
  z.object({
    id: z.string(),
    customer: nullableText,
    metadata,
    amount_paid: whole,
    total: z.nullish(whole),
    currency: z.string(),
    // Only in API versions before 2025-03-31, like `subscription` and `subscription_details` here, and in lines `price`,
    // `proration`, `proration_details` and `subscription`.
    payment_intent: nullableText,
    charge: nullableText,
    subscription: nullableText,
    subscription_details: subscriptionDetails,
    parent: z.object({ subscription_details: subscriptionDetails }).nullish(),
    lines: z.object({ data: z.array(stripeLine), has_more: z.boolean().nullish() }),
  }),
);

export const invoicePayment = z.lazy(() =>
  z.object({
    id: z.string(),
    invoice: z.string(),
    amount_paid: whole.nullish(),
    currency: z.string(),
    payment: z.object({ payment_intent: nullableText, charge: nullableText }),
  }),
);

export const charge = z.lazy(() =>
  z.object({
    id: z.string(),
    payment_intent: nullableText,
    amount_captured: whole,
    amount_refunded: whole,
    currency: z.string(),
  }),
);

export const refund = z.lazy(() =>
  z.object({ id: z.string(), charge: nullableText, payment_intent: nullableText, amount: whole, status: nullableText }),
);

export const dispute = z.lazy(() =>
  z.object({
    id: z.string(),
    charge: z.string(),
    payment_intent: nullableText,
    amount: whole,
    currency: z.string(),
    status: nullableText,
    balance_transactions: z.array(z.object({ amount: whole, currency: z.string() })).nullish(),
  }),
);

/** The used fields of an event's object. Throws `invalid_request` for an object that Stripe would not send. */
export function parse<Schema extends z.ZodType>(schema: Schema, value: unknown): z.output<Schema> {
  const result = schema.safeParse(value);
  if (!result.success) throw refusalOfIssues(result.error.issues, "data.object");
  return result.data;
}

type Texts = readonly (string | null | undefined)[];

const USER = z.lazy(() => identifier());
/** The first valid user id among these texts. Null when there is none. */
export function userIn(...texts: Texts): string | null {
  const found = texts.find((value) => value !== null && value !== undefined && value !== "");
  return found !== undefined && USER.safeParse(found).success ? (found ?? null) : null;
}

export const namesOf = (...names: Texts): string[] => [...new Set(names.filter((name) => typeof name === "string"))];
