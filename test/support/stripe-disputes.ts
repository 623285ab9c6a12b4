import type Stripe from "stripe";
import { AT_S, type Fields } from "./stripe-events.ts";
import { type ApiVersion, asOf, TODAY } from "./stripe-versions.ts";

const NO_EVIDENCE: Stripe.Dispute.Evidence = {
  access_activity_log: null,
  billing_address: null,
  cancellation_policy: null,
  cancellation_policy_disclosure: null,
  cancellation_rebuttal: null,
  customer_communication: null,
  customer_email_address: "ada@example.com",
  customer_name: null,
  customer_purchase_ip: null,
  customer_signature: null,
  duplicate_charge_documentation: null,
  duplicate_charge_explanation: null,
  duplicate_charge_id: null,
  enhanced_evidence: {},
  product_description: null,
  receipt: null,
  refund_policy: null,
  refund_policy_disclosure: null,
  refund_refusal_explanation: null,
  service_date: null,
  service_documentation: null,
  shipping_address: null,
  shipping_carrier: null,
  shipping_date: null,
  shipping_documentation: null,
  shipping_tracking_number: null,
  uncategorized_file: null,
  uncategorized_text: null,
};

/** A dispute of the charge `of`. `moved` has the amounts of its balance transactions. */
export function dispute(
  id: string,
  of: string,
  paymentIntent: string | null,
  amount: number,
  moved: readonly number[],
  currency = "usd",
  status: Stripe.Dispute["status"] = "needs_response",
  version: ApiVersion = TODAY,
): Fields {
  const transactions = moved.map(
    (each, index): Stripe.BalanceTransaction => ({
      id: `txn_${id}_${index}`,
      object: "balance_transaction",
      amount: each,
      available_on: AT_S,
      balance_type: "payments",
      created: AT_S,
      currency,
      description: null,
      exchange_rate: null,
      fee: 1500,
      fee_details: [],
      net: each - 1500,
      reporting_category: "dispute",
      source: id,
      status: "available",
      type: "adjustment",
    }),
  );
  const today = {
    id,
    object: "dispute",
    amount,
    balance_transactions: transactions,
    charge: of,
    created: AT_S + 200,
    currency,
    enhanced_eligibility_types: [],
    evidence: NO_EVIDENCE,
    evidence_details: {
      due_by: null,
      enhanced_eligibility: {},
      has_evidence: false,
      past_due: false,
      submission_count: 0,
      submission_method: "not_submitted",
    },
    intended_submission_method: null,
    is_charge_refundable: false,
    livemode: true,
    metadata: {},
    payment_intent: paymentIntent,
    reason: "fraudulent",
    status,
  } satisfies Stripe.Dispute;
  return asOf("dispute", version, today, {});
}
