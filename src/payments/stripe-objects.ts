import * as z from "zod/mini";

/** What is used of Stripe's objects. Stripe adds fields at any time: what is not used here is not looked at. */
const text = z.nullish(z.string());
const whole = z.int();
const metadata = z.nullish(z.object({ user: text, pack: text, quantity: text }));

export const session = z.object({
  id: z.string(),
  mode: z.string(),
  payment_status: z.string(),
  payment_intent: text,
  invoice: text,
  customer: text,
  client_reference_id: text,
  metadata,
  amount_subtotal: z.nullish(whole),
  amount_total: z.nullish(whole),
  total_details: z.nullish(z.object({ amount_discount: z.nullish(whole) })),
  currency: text,
});

const credited = z.object({ invoice: text, invoice_line_items: z.nullish(z.array(z.string())) });
const prorationDetails = z.nullish(z.object({ credited_items: z.nullish(credited) }));
const lineParent = z.nullish(
  z.object({ proration: z.nullish(z.boolean()), proration_details: prorationDetails, subscription: text }),
);
export const line = z.object({
  id: z.string(),
  amount: whole,
  discount_amounts: z.nullish(z.array(z.object({ amount: whole }))),
  quantity: z.nullish(whole),
  proration: z.nullish(z.boolean()),
  proration_details: prorationDetails,
  subscription: text,
  price: z.nullish(z.object({ id: z.string(), unit_amount: z.nullish(whole) })),
  pricing: z.nullish(z.object({ price_details: z.nullish(z.object({ price: text })) })),
  parent: z.nullish(z.object({ subscription_item_details: lineParent, invoice_item_details: lineParent })),
  period: z.object({ start: whole, end: whole }),
});

const subscriptionDetails = z.nullish(z.object({ metadata, subscription: text }));
export const invoice = z.object({
  id: z.string(),
  customer: text,
  metadata,
  amount_paid: whole,
  total: z.nullish(whole),
  currency: z.string(),
  // Of API versions before 2025-03-31, as are `subscription` and `subscription_details` here, and of lines `price`, `proration`,
  // `proration_details` and `subscription`.
  payment_intent: text,
  charge: text,
  subscription: text,
  subscription_details: subscriptionDetails,
  parent: z.nullish(z.object({ subscription_details: subscriptionDetails })),
  lines: z.object({ data: z.array(line), has_more: z.nullish(z.boolean()) }),
});

export const invoicePayment = z.object({
  id: z.string(),
  invoice: z.string(),
  amount_paid: z.nullish(whole),
  currency: z.string(),
  payment: z.object({ payment_intent: text, charge: text }),
});

export const charge = z.object({
  id: z.string(),
  payment_intent: text,
  amount_captured: whole,
  amount_refunded: whole,
  currency: z.string(),
});

export const refund = z.object({ id: z.string(), charge: text, payment_intent: text, amount: whole, status: text });

export const dispute = z.object({
  id: z.string(),
  charge: z.string(),
  payment_intent: text,
  amount: whole,
  currency: z.string(),
  status: text,
  balance_transactions: z.nullish(z.array(z.object({ amount: whole, currency: z.string() }))),
});
