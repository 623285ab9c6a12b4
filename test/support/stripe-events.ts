import type Stripe from "stripe";
import { type ApiVersion, asOf, BEFORE, CLOVER, TODAY } from "./stripe-versions.ts";

/** Complete Stripe events, in the shape of an API version. The types of the package `stripe` check every field. */
export interface TestEvent {
  readonly id: string;
  readonly type: string;
  readonly created: number;
  readonly [field: string]: unknown;
}

export type Fields = Readonly<Record<string, unknown>>;

export const AT_S = 1_768_478_000;
let events = 0;

/** An event about an object. */
export function eventOf(type: string, created: number, object: Fields, apiVersion: ApiVersion = TODAY): TestEvent {
  const common = {
    id: `evt_${++events}`,
    object: "event",
    api_version: apiVersion,
    created,
    livemode: true,
    pending_webhooks: 1,
    request: { id: null, idempotency_key: null },
  } satisfies Omit<Stripe.EventBase, "type" | "data">;
  return { ...common, data: { object }, type };
}

export function session(id: string, fields: Fields, version: ApiVersion = TODAY): Fields {
  const today = {
    id,
    object: "checkout.session",
    adaptive_pricing: { enabled: true },
    after_expiration: null,
    allow_promotion_codes: null,
    allowed_payment_method_types: null,
    amount_subtotal: 1000,
    amount_total: 1000,
    automatic_tax: { enabled: false, liability: null, provider: null, status: null },
    billing_address_collection: null,
    cancel_url: "https://shop.example.com/cancel",
    client_reference_id: null,
    client_secret: null,
    collected_information: { business_name: null, individual_name: null, shipping_details: null },
    consent: null,
    consent_collection: null,
    created: AT_S,
    currency: "usd",
    currency_conversion: null,
    custom_fields: [],
    custom_text: { after_submit: null, shipping_address: null, submit: null, terms_of_service_acceptance: null },
    customer: null,
    customer_account: null,
    customer_creation: "if_required",
    customer_details: {
      address: { city: null, country: "DE", line1: null, line2: null, postal_code: "10115", state: null },
      business_name: null,
      email: "ada@example.com",
      individual_name: null,
      name: "Ada Lovelace",
      phone: null,
      tax_exempt: "none",
      tax_ids: [],
    },
    customer_email: null,
    discounts: [],
    expires_at: AT_S + 86_400,
    integration_identifier: null,
    invoice: null,
    invoice_creation: null,
    livemode: true,
    locale: null,
    managed_payments: null,
    metadata: {},
    mode: "payment",
    origin_context: null,
    payment_intent: null,
    payment_link: null,
    payment_method_collection: "if_required",
    payment_method_configuration_details: null,
    payment_method_options: { card: { request_three_d_secure: "automatic" } },
    payment_method_types: ["card"],
    payment_status: "paid",
    permissions: null,
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
    ui_mode: "hosted_page",
    url: null,
    wallet_options: null,
  } satisfies Stripe.Checkout.Session;
  // `hosted_page` came with 2026-03-25.dahlia (CHANGELOG.md, 21.0.0).
  const named = version === CLOVER || version === BEFORE ? { ui_mode: "hosted" } : {};
  return { ...asOf("session", version, today, { shipping_details: null }), ...named, ...fields };
}

/** A payment intent that succeeded, such as an off-session charge. `of` is its invoice, which version BEFORE names. */
export function paymentIntent(
  id: string,
  fields: Fields,
  version: ApiVersion = TODAY,
  of: string | null = null,
): Fields {
  const today = {
    id,
    object: "payment_intent",
    allowed_payment_method_types: null,
    amount: 1000,
    amount_capturable: 0,
    amount_details: { tip: {} },
    amount_received: 1000,
    application: null,
    application_fee_amount: null,
    automatic_payment_methods: null,
    canceled_at: null,
    cancellation_reason: null,
    capture_method: "automatic_async",
    client_secret: null,
    confirmation_method: "automatic",
    created: AT_S,
    currency: "usd",
    customer: "cus_1",
    customer_account: null,
    description: null,
    excluded_payment_method_types: null,
    last_payment_error: null,
    latest_charge: "ch_1",
    livemode: true,
    managed_payments: null,
    metadata: {},
    next_action: null,
    on_behalf_of: null,
    payment_method: "pm_1",
    payment_method_configuration_details: null,
    payment_method_options: null,
    payment_method_types: ["card"],
    payment_record: null,
    processing: null,
    receipt_email: null,
    review: null,
    setup_future_usage: null,
    shipping: null,
    source: null,
    statement_descriptor: null,
    statement_descriptor_suffix: null,
    status: "succeeded",
    transfer_data: null,
    transfer_group: null,
  } satisfies Stripe.PaymentIntent;
  return { ...asOf("intent", version, today, { invoice: of }), ...fields };
}

export function charge(
  id: string,
  paymentIntent: string | null,
  refunded: number,
  captured = 1000,
  version: ApiVersion = TODAY,
): Fields {
  const today = {
    id,
    object: "charge",
    amount: captured,
    amount_captured: captured,
    amount_refunded: refunded,
    application: null,
    application_fee: null,
    application_fee_amount: null,
    balance_transaction: "txn_1",
    billing_details: { address: null, email: "ada@example.com", name: "Ada Lovelace", phone: null, tax_id: null },
    calculated_statement_descriptor: null,
    captured: true,
    created: AT_S,
    currency: "usd",
    customer: null,
    description: null,
    disputed: false,
    failure_balance_transaction: null,
    failure_code: null,
    failure_message: null,
    fraud_details: null,
    livemode: true,
    metadata: {},
    on_behalf_of: null,
    outcome: null,
    paid: true,
    payment_intent: paymentIntent,
    payment_method: "pm_1",
    payment_method_details: null,
    receipt_email: null,
    receipt_number: null,
    receipt_url: null,
    refunded: refunded === captured,
    review: null,
    shipping: null,
    source: null,
    source_transfer: null,
    statement_descriptor: null,
    statement_descriptor_suffix: null,
    status: "succeeded",
    transfer_data: null,
    transfer_group: null,
  } satisfies Stripe.Charge;
  return asOf("charge", version, today, { invoice: null });
}

export function refund(
  id: string,
  of: string,
  paymentIntent: string | null,
  amount: number,
  status: string,
  version: ApiVersion = TODAY,
): Fields {
  const today = {
    id,
    object: "refund",
    amount,
    balance_transaction: "txn_2",
    charge: of,
    created: AT_S + 100,
    currency: "usd",
    customer: null,
    customer_account: null,
    destination_details: { card: { reference: "1", type: "refund" }, type: "card" },
    metadata: {},
    payment_intent: paymentIntent,
    payment_method: "pm_1",
    reason: "requested_by_customer",
    receipt_number: null,
    source_transfer_reversal: null,
    status,
    transfer_reversal: null,
  } satisfies Stripe.Refund;
  return asOf("refund", version, today, {});
}
