import { afterAll, describe, expect, it } from "vitest";
import { STRIPE_EVENTS } from "../../../src/payments/stripe-event.ts";
import { expectLedgerInvariants } from "../../support/invariants.ts";
import { PRICES } from "../../support/payment-story.ts";
import { paymentsWorld } from "../../support/payments.ts";
import { dispute } from "../../support/stripe-disputes.ts";
import { charge, eventOf, paymentIntent, refund, session } from "../../support/stripe-events.ts";
import { invoice, invoicePayment } from "../../support/stripe-invoices.ts";
import { type ApiVersion, BEFORE, VERSIONS } from "../../support/stripe-versions.ts";

afterAll(expectLedgerInvariants);

/** Every type of event that Purser reads, in the shape of a version, with its outcome after the events before it. */
function eventsOf(version: ApiVersion, nowS: number) {
  const metadata = { pack: "wallet", user: "u" };
  const bought = { client_reference_id: "u", metadata, payment_intent: "pi_1", currency: "usd" };
  const bill = { subscription: { user: "u" }, paymentIntent: "pi_3", lines: [{ id: "il_1", price: PRICES.wallet }] };
  const cases = [
    ["checkout.session.completed", session("cs_1", bought, version), "granted"],
    ["checkout.session.async_payment_succeeded", session("cs_1", bought, version), "remembered"],
    ["payment_intent.succeeded", paymentIntent("pi_2", { metadata }, version), "granted"],
    ["invoice.paid", invoice("in_1", bill, version), "granted"],
    // Before basil the invoice itself names its payment intent.
    ...(version === BEFORE ? [] : [["invoice_payment.paid", invoicePayment("inpay_1", "in_1", "pi_3"), "remembered"]]),
    ["charge.refunded", charge("ch_1", "pi_1", 300, 1000, version), "taken"],
    ["charge.refunded", charge("ch_3", "pi_3", 500, 1000, version), "taken"],
    ["refund.updated", refund("re_1", "ch_1", "pi_1", 300, "succeeded", version), "remembered"],
    ["refund.failed", refund("re_1", "ch_1", "pi_1", 300, "failed", version), "restored"],
    [
      "charge.dispute.funds_withdrawn",
      dispute("dp_2", "ch_2", "pi_2", 200, [-200], "usd", "needs_response", version),
      "taken",
    ],
    [
      "charge.dispute.funds_reinstated",
      dispute("dp_2", "ch_2", "pi_2", 200, [-200, 200], "usd", "won", version),
      "restored",
    ],
  ] as const;
  return cases.map(([type, object, outcome], index) => ({
    event: eventOf(String(type), nowS + index, Object(object), version),
    outcome: String(outcome),
  }));
}

describe.each(VERSIONS)("the events of Stripe's API version %s", (version) => {
  it("are all read, and each has its effect once", async () => {
    const w = await paymentsWorld();
    const cases = eventsOf(version, w.nowS);
    const types = new Set(cases.map(({ event }) => event.type));
    expect(STRIPE_EVENTS.filter((type) => !types.has(type))).toEqual(
      version === BEFORE ? ["invoice_payment.paid"] : [],
    );
    for (const { event, outcome } of cases) {
      expect(await w.deliver(event), `${event.type} of ${version}`).toBe(outcome);
      expect(await w.deliver(event), `${event.type} of ${version} again`).toBe("ignored");
    }
    expect(await w.balances("u")).toEqual([
      ["cents", 125.25, "active"],
      ["cents", 1000, "active"],
      ["cents", 1000, "active"],
    ]);
  });
});
