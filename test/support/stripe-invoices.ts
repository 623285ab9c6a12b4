import type Stripe from "stripe";
import { AT_S, type Fields } from "./stripe-events.ts";
import { type Acacia, type ApiVersion, asOf, TODAY, type Today } from "./stripe-versions.ts";

export interface Line {
  readonly id: string;
  readonly price: string;
  readonly quantity?: number;
  readonly amount?: number;
  readonly proration?: boolean;
  readonly period?: { readonly start: number; readonly end: number };
  readonly discount?: number;
  /** The tax that is added to its amount. */
  readonly tax?: number;
  /** The full amount of one unit, which version BEFORE names. */
  readonly unitAmount?: number;
  readonly subscription?: string;
}

const priceOf = (id: string, amount: number): Acacia["line"]["price"] => ({
  id,
  object: "price",
  active: true,
  billing_scheme: "per_unit",
  created: AT_S,
  currency: "usd",
  custom_unit_amount: null,
  livemode: true,
  lookup_key: null,
  metadata: {},
  nickname: null,
  product: "prod_1",
  recurring: null,
  tax_behavior: "exclusive",
  tiers_mode: null,
  transform_quantity: null,
  type: "recurring",
  unit_amount: amount,
  unit_amount_decimal: `${amount}`,
});

const taxOf = (amount: number, of: number): Stripe.InvoiceLineItem.Tax => ({
  amount,
  tax_behavior: "exclusive",
  tax_rate_details: { tax_rate: "txr_1" },
  taxability_reason: "standard_rated",
  taxable_amount: of,
  type: "tax_rate_details",
});

function lineOf(line: Line, version: ApiVersion): Fields {
  const { id, price, quantity = 1, amount = 1000, proration = false, period, discount = 0, tax = 0 } = line;
  const { unitAmount = amount, subscription = "sub_1" } = line;
  const details = { proration, proration_details: { credited_items: null }, subscription };
  const parent: Stripe.InvoiceLineItem.Parent = proration
    ? {
        invoice_item_details: { ...details, invoice_item: "ii_1" },
        subscription_item_details: null,
        type: "invoice_item_details",
      }
    : {
        invoice_item_details: null,
        subscription_item_details: { ...details, invoice_item: null, subscription_item: "si_1" },
        type: "subscription_item_details",
      };
  const today: Today["line"] = {
    id,
    object: "line_item",
    amount,
    currency: "usd",
    description: "1 × Plan",
    discount_amounts: discount === 0 ? [] : [{ amount: discount, discount: "di_1" }],
    discountable: true,
    discounts: [],
    invoice: "in_1",
    livemode: true,
    metadata: {},
    parent,
    period: period ?? { start: AT_S, end: AT_S + 2_678_400 },
    pretax_credit_amounts: [],
    pricing: {
      price_details: { price, product: "prod_1" },
      type: "price_details",
      unit_amount_decimal: `${unitAmount}`,
    },
    quantity,
    quantity_decimal: `${quantity}`,
    subscription,
    subtotal: amount,
    taxes: tax === 0 ? [] : [taxOf(tax, amount)],
  };
  return asOf("line", version, today, {
    amount_excluding_tax: amount,
    plan: null,
    price: priceOf(price, unitAmount),
    proration,
    proration_details: { credited_items: null },
    subscription: proration ? subscription : null,
    tax_amounts: [],
    tax_rates: [],
    type: proration ? "invoiceitem" : "subscription",
    unit_amount_excluding_tax: `${amount}`,
  });
}

export interface Invoice {
  readonly lines: readonly Line[];
  readonly customer?: string;
  readonly metadata?: Stripe.Metadata;
  /** The metadata of its subscription. Absent without a subscription. */
  readonly subscription?: Stripe.Metadata;
  readonly paid?: number;
  readonly total?: number;
  readonly subscriptionId?: string;
  /** Only in version BEFORE. */
  readonly paymentIntent?: string;
  readonly hasMore?: boolean;
}

export function invoice(id: string, about: Invoice, version: ApiVersion = TODAY): Fields {
  const { lines, customer = "cus_1", metadata = {}, subscription, paid = 1000, hasMore = false } = about;
  const { total = paid, paymentIntent = null, subscriptionId = "sub_1" } = about;
  const today = {
    id,
    object: "invoice",
    account_country: "DE",
    account_name: "Shop",
    account_tax_ids: null,
    amount_due: paid,
    amount_overpaid: 0,
    amount_paid: paid,
    amount_remaining: 0,
    amount_shipping: 0,
    application: null,
    attempt_count: 1,
    attempted: true,
    auto_advance: false,
    automatic_tax: { disabled_reason: null, enabled: false, liability: null, provider: null, status: null },
    automatically_finalizes_at: null,
    billing_reason: subscription === undefined ? "manual" : "subscription_cycle",
    collection_method: "charge_automatically",
    created: AT_S,
    currency: "usd",
    custom_fields: null,
    customer,
    customer_account: null,
    customer_address: null,
    customer_email: "ada@example.com",
    customer_name: "Ada Lovelace",
    customer_phone: null,
    customer_shipping: null,
    customer_tax_exempt: "none",
    customer_tax_ids: [],
    default_payment_method: null,
    default_source: null,
    default_tax_rates: [],
    description: null,
    discounts: [],
    due_date: null,
    effective_at: AT_S,
    ending_balance: 0,
    footer: null,
    from_invoice: null,
    issuer: { type: "self" },
    last_finalization_error: null,
    latest_revision: null,
    livemode: true,
    metadata,
    next_payment_attempt: null,
    number: "ABC-0001",
    on_behalf_of: null,
    parent:
      subscription === undefined
        ? null
        : {
            quote_details: null,
            subscription_details: { metadata: subscription, subscription: subscriptionId },
            type: "subscription_details",
          },
    payment_settings: { default_mandate: null, payment_method_options: null, payment_method_types: null },
    period_end: AT_S,
    period_start: AT_S,
    post_payment_credit_notes_amount: 0,
    pre_payment_credit_notes_amount: 0,
    receipt_number: null,
    rendering: null,
    shipping_cost: null,
    shipping_details: null,
    starting_balance: 0,
    statement_descriptor: null,
    status: "paid",
    status_transitions: { finalized_at: AT_S, marked_uncollectible_at: null, paid_at: AT_S, voided_at: null },
    subtotal: total,
    subtotal_excluding_tax: total,
    test_clock: null,
    total,
    total_discount_amounts: [],
    total_excluding_tax: total,
    total_pretax_credit_amounts: [],
    total_taxes: [],
    webhooks_delivered_at: AT_S,
  } satisfies Today["invoice"];
  const removed = {
    application_fee_amount: null,
    charge: paymentIntent === null ? null : `ch_of_${paymentIntent}`,
    discount: null,
    paid: true,
    paid_out_of_band: false,
    payment_intent: paymentIntent,
    quote: null,
    subscription: subscription === undefined ? null : subscriptionId,
    subscription_details: subscription === undefined ? null : { metadata: subscription },
    tax: null,
    total_tax_amounts: [],
    transfer_data: null,
  } as const;
  const data = lines.map((line) => lineOf(line, version));
  return {
    ...asOf("invoice", version, today, removed),
    lines: { object: "list", data, has_more: hasMore, url: `/v1/invoices/${id}/lines` },
  };
}

/** Joins an invoice and a payment intent. Since version basil, the invoice itself does not name its intent. */
export function invoicePayment(id: string, of: string, paymentIntent: string, paid = 1000): Fields {
  return {
    id,
    object: "invoice_payment",
    amount_paid: paid,
    amount_requested: paid,
    created: AT_S,
    currency: "usd",
    invoice: of,
    is_default: true,
    livemode: true,
    payment: { payment_intent: paymentIntent, type: "payment_intent" },
    status: "paid",
    status_transitions: { canceled_at: null, paid_at: AT_S },
  } satisfies Stripe.InvoicePayment;
}
