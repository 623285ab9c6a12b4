/**
 * Stripe's events, whole, as Stripe documents them for an API version: today's, in which an invoice names no payment intent,
 * and the one before, in which it does.
 */
export type ApiVersion = "2026-01-28.clover" | "2025-02-24.acacia";
export const TODAY: ApiVersion = "2026-01-28.clover";
export const BEFORE: ApiVersion = "2025-02-24.acacia";

export interface TestEvent {
  readonly id: string;
  readonly type: string;
  readonly created: number;
  readonly [field: string]: unknown;
}

type Fields = Readonly<Record<string, unknown>>;

let events = 0;

/** An event of an object. */
export function eventOf(type: string, created: number, object: Fields, apiVersion: ApiVersion = TODAY): TestEvent {
  return {
    id: `evt_${++events}`,
    object: "event",
    api_version: apiVersion,
    created,
    data: { object },
    livemode: true,
    pending_webhooks: 1,
    request: { id: null, idempotency_key: null },
    type,
  };
}

export function session(id: string, fields: Fields): Fields {
  return {
    id,
    object: "checkout.session",
    adaptive_pricing: { enabled: true },
    after_expiration: null,
    allow_promotion_codes: null,
    amount_subtotal: 1000,
    amount_total: 1000,
    automatic_tax: { enabled: false, liability: null, provider: null, status: null },
    billing_address_collection: null,
    cancel_url: "https://shop.example.com/cancel",
    client_reference_id: null,
    client_secret: null,
    collected_information: { shipping_details: null },
    consent: null,
    consent_collection: null,
    created: 1_768_478_000,
    currency: "usd",
    currency_conversion: null,
    custom_fields: [],
    custom_text: { after_submit: null, shipping_address: null, submit: null, terms_of_service_acceptance: null },
    customer: null,
    customer_creation: "if_required",
    customer_details: {
      address: { city: null, country: "DE", line1: null, line2: null, postal_code: "10115", state: null },
      email: "ada@example.com",
      name: "Ada Lovelace",
      phone: null,
      tax_exempt: "none",
      tax_ids: [],
    },
    customer_email: null,
    discounts: [],
    expires_at: 1_768_564_400,
    invoice: null,
    invoice_creation: { enabled: false, invoice_data: { metadata: {}, footer: null } },
    livemode: true,
    locale: null,
    metadata: {},
    mode: "payment",
    payment_intent: null,
    payment_link: null,
    payment_method_collection: "if_required",
    payment_method_configuration_details: null,
    payment_method_options: { card: { request_three_d_secure: "automatic" } },
    payment_method_types: ["card"],
    payment_status: "paid",
    phone_number_collection: { enabled: false },
    recovered_from: null,
    saved_payment_method_options: null,
    setup_intent: null,
    shipping_address_collection: null,
    shipping_cost: null,
    shipping_options: [],
    status: "complete",
    submit_type: null,
    subscription: null,
    success_url: "https://shop.example.com/thanks",
    total_details: { amount_discount: 0, amount_shipping: 0, amount_tax: 0 },
    ui_mode: "hosted",
    url: null,
    ...fields,
  };
}

export interface Line {
  readonly id: string;
  readonly price: string;
  readonly quantity?: number;
  readonly amount?: number;
  readonly proration?: boolean;
  readonly period?: { readonly start: number; readonly end: number };
  readonly discount?: number;
  /** What a negative line credits. */
  readonly credited?: { readonly invoice: string; readonly lines: readonly string[] };
  /** The full amount of one, as the older API tells it. */
  readonly unitAmount?: number;
  readonly subscription?: string;
}

function lineOf(line: Line, v: ApiVersion): Fields {
  const { id, price, quantity = 1, amount = 1000, proration = false, period, discount = 0, credited } = line;
  const { unitAmount = amount, subscription = "sub_1" } = line;
  const credits = credited === undefined ? null : { invoice: credited.invoice, invoice_line_items: credited.lines };
  const common = {
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
    period: period ?? { start: 1_768_478_000, end: 1_771_156_400 },
    pretax_credit_amounts: [],
    quantity,
  };
  if (v === BEFORE) {
    return {
      ...common,
      amount_excluding_tax: amount,
      plan: null,
      price: { id: price, object: "price", active: true, currency: "usd", product: "prod_1", unit_amount: unitAmount },
      proration,
      proration_details: { credited_items: credits },
      subscription: proration ? subscription : null,
      tax_amounts: [],
      tax_rates: [],
      type: proration ? "invoiceitem" : "subscription",
      unit_amount_excluding_tax: `${amount}`,
    };
  }
  const details = { proration, proration_details: { credited_items: credits }, subscription };
  const parent = proration
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
  return {
    ...common,
    parent,
    pricing: {
      price_details: { price, product: "prod_1" },
      type: "price_details",
      unit_amount_decimal: `${unitAmount}`,
    },
    subtotal: amount,
    taxes: [],
  };
}

export interface Invoice {
  readonly lines: readonly Line[];
  readonly customer?: string;
  readonly metadata?: Fields;
  /** The metadata of its subscription. Absent: it is of no subscription. */
  readonly subscription?: Fields;
  readonly paid?: number;
  readonly total?: number;
  readonly subscriptionId?: string;
  /** Told by the older API alone. */
  readonly paymentIntent?: string;
  readonly hasMore?: boolean;
}

export function invoice(id: string, about: Invoice, v: ApiVersion = TODAY): Fields {
  const {
    lines,
    customer = "cus_1",
    metadata = {},
    subscription,
    paid = 1000,
    total = paid,
    paymentIntent,
    hasMore,
  } = about;
  const { subscriptionId = "sub_1" } = about;
  const common = {
    id,
    object: "invoice",
    account_country: "DE",
    account_name: "Shop",
    amount_due: paid,
    amount_paid: paid,
    amount_remaining: 0,
    attempt_count: 1,
    attempted: true,
    auto_advance: false,
    billing_reason: subscription === undefined ? "manual" : "subscription_cycle",
    collection_method: "charge_automatically",
    created: 1_768_478_000,
    currency: "usd",
    customer,
    customer_email: "ada@example.com",
    customer_name: "Ada Lovelace",
    ending_balance: 0,
    lines: {
      object: "list",
      data: lines.map((line) => lineOf(line, v)),
      has_more: hasMore ?? false,
      url: `/v1/invoices/${id}/lines`,
    },
    livemode: true,
    metadata,
    number: "ABC-0001",
    period_end: 1_768_478_000,
    period_start: 1_768_478_000,
    post_payment_credit_notes_amount: 0,
    starting_balance: 0,
    status: "paid",
    status_transitions: {
      finalized_at: 1_768_478_000,
      marked_uncollectible_at: null,
      paid_at: 1_768_478_000,
      voided_at: null,
    },
    subtotal: total,
    total,
  };
  if (v === BEFORE) {
    return {
      ...common,
      charge: paymentIntent === undefined ? null : `ch_of_${paymentIntent}`,
      paid: true,
      paid_out_of_band: false,
      payment_intent: paymentIntent ?? null,
      subscription: subscription === undefined ? null : subscriptionId,
      subscription_details: subscription === undefined ? null : { metadata: subscription },
    };
  }
  const parent = {
    quote_details: null,
    subscription_details: { metadata: subscription, subscription: subscriptionId },
    type: "subscription_details",
  };
  return { ...common, parent: subscription === undefined ? null : parent };
}

export function invoicePayment(id: string, of: string, paymentIntent: string, paid = 1000): Fields {
  return {
    id,
    object: "invoice_payment",
    amount_paid: paid,
    amount_requested: paid,
    created: 1_768_478_000,
    currency: "usd",
    invoice: of,
    is_default: true,
    livemode: true,
    payment: { payment_intent: paymentIntent, type: "payment_intent" },
    status: "paid",
    status_transitions: { canceled_at: null, paid_at: 1_768_478_000 },
  };
}

export function charge(id: string, paymentIntent: string | null, refunded: number, captured = 1000): Fields {
  return {
    id,
    object: "charge",
    amount: captured,
    amount_captured: captured,
    amount_refunded: refunded,
    balance_transaction: "txn_1",
    billing_details: { address: null, email: "ada@example.com", name: "Ada Lovelace", phone: null },
    captured: true,
    created: 1_768_478_000,
    currency: "usd",
    customer: null,
    disputed: false,
    livemode: true,
    metadata: {},
    paid: true,
    payment_intent: paymentIntent,
    payment_method: "pm_1",
    receipt_email: null,
    refunded: refunded === captured,
    status: "succeeded",
  };
}

export function refund(id: string, of: string, paymentIntent: string | null, amount: number, status: string): Fields {
  return {
    id,
    object: "refund",
    amount,
    balance_transaction: "txn_2",
    charge: of,
    created: 1_768_478_100,
    currency: "usd",
    destination_details: { card: { reference: "1", type: "refund" }, type: "card" },
    metadata: {},
    payment_intent: paymentIntent,
    reason: "requested_by_customer",
    receipt_number: null,
    source_transfer_reversal: null,
    status,
    transfer_reversal: null,
  };
}

/** `moved`: the amounts of its balance transactions. */
export function dispute(
  id: string,
  of: string,
  paymentIntent: string | null,
  amount: number,
  moved: readonly number[],
  currency = "usd",
  status = "needs_response",
): Fields {
  return {
    id,
    object: "dispute",
    amount,
    balance_transactions: moved.map((each, index) => ({
      id: `txn_${id}_${index}`,
      object: "balance_transaction",
      amount: each,
      currency,
      fee: 1500,
      net: each - 1500,
      type: "adjustment",
    })),
    charge: of,
    created: 1_768_478_200,
    currency,
    evidence: { customer_email_address: "ada@example.com" },
    is_charge_refundable: false,
    livemode: true,
    metadata: {},
    payment_intent: paymentIntent,
    reason: "fraudulent",
    status,
  };
}
