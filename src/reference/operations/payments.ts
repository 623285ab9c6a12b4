import * as z from "zod";
import { grantOutput } from "../../books/credits/responses.ts";
import {
  listPaymentsOutput,
  listStripeEventsOutput,
  setCarryOutput,
  stripeEventOutput,
  stripeOutput,
} from "../../payments/responses.ts";
import {
  listPaymentsInput,
  listStripeEventsInput,
  readStripeInput,
  setCarryInput,
  setStripeInput,
  settlePaymentInput,
  stripeEventInput,
} from "../../payments/schemas.ts";
import type { Operation } from "../operation.ts";
import { appId, appParams, EXAMPLE, ofAdministration } from "./common.ts";

const { balanceId, createdAt, packId } = EXAMPLE;
const examplePaymentKey = "pi_3Q5vXK2eZvKYlo2C1a2b3c4d";

const prices = [{ price: "price_1PgafmB7WZ01zgkW6dKueIc5", packId, expires: "period" }];
const exampleStripeSettings = {
  mode: "live",
  setting: { signingSecrets: ["whsec_…AbCd"], currency: "usd", prices },
  lastEventAt: "2026-01-15T12:00:00.000Z",
  refused: { at: "2026-01-15T11:58:00.000Z", reason: "wrong_secret" },
};

/** The events and the payments of Stripe. */
export const paymentOperations: readonly Operation[] = [
  {
    id: "receiveStripeEvent",
    method: "post",
    path: "/api/v1/stripe/{appId}/{mode}",
    tag: "Payments",
    access: "open",
    summary: "Receive an event from Stripe",
    description:
      "For Stripe, not for you. Set this URL as an endpoint at Stripe, and its signing secret by `setStripe`. Events " +
      "may come in any order, and repeatedly. It needs no key: `Stripe-Signature` proves the sender.",
    params: z.object({ appId, mode: z.enum(["live", "test"]).describe("The mode of the events.") }),
    body: {
      schema: stripeEventInput,
      example: {
        id: "evt_1a",
        object: "event",
        type: "charge.refunded",
        created: 1_768_478_400,
        livemode: true,
        data: { object: { id: "ch_1a", object: "charge", amount_captured: 1500, amount_refunded: 500 } },
      },
    },
    success: {
      description: "The event was processed, or ignored.",
      schema: stripeEventOutput,
      example: { received: true, outcome: "taken", paymentKey: examplePaymentKey },
    },
    errors: ["invalid_signature", "not_found", "secrets_unavailable"],
  },
  ...ofAdministration([
    {
      id: "setStripe",
      method: "put",
      path: "/apps/{appId}/stripe",
      summary: "Set how Stripe's events are received",
      description:
        "Sets, for one mode, how Purser verifies and applies Stripe's events. The setting takes effect at once. A " +
        "secret is not returned again. Without `signingSecrets`, the existing secrets stay.",
      params: appParams,
      body: {
        schema: setStripeInput,
        example: { mode: "live", setting: { signingSecrets: ["whsec_8f2aQ1xYb0c9d8e7AbCd"], prices } },
      },
      success: {
        description: "The setting, without its secrets.",
        schema: stripeOutput,
        example: exampleStripeSettings,
        warns: true,
      },
      errors: ["credit_pack_not_found", "secrets_unavailable"],
    },
    {
      id: "getStripe",
      method: "get",
      path: "/apps/{appId}/stripe",
      summary: "Get how Stripe's events are received",
      description: "Returns the setting of one mode, with the time of the last event.",
      params: appParams,
      query: readStripeInput,
      success: {
        description: "The setting, without its secrets.",
        schema: stripeOutput,
        example: exampleStripeSettings,
      },
      errors: [],
    },
    {
      id: "listStripeEvents",
      method: "get",
      path: "/apps/{appId}/stripe/events",
      summary: "List Stripe's events",
      description:
        "Returns the Stripe events of one mode, newest first: the effect of each, and how to correct it. Events " +
        "without an effect are kept for 30 days, at most 10,000 of them.",
      params: appParams,
      query: listStripeEventsInput,
      success: {
        description: "A page of events.",
        schema: listStripeEventsOutput,
        example: {
          events: [
            {
              eventId: "evt_1a",
              type: "checkout.session.completed",
              at: createdAt,
              outcome: "ignored",
              reason: "another_product",
              objectId: "cs_live_a1b2c3",
              asked: null,
              hint: "`metadata.userId` is not read: name it `user`. `metadata.packId` is not read: name it `pack`.",
              paymentKey: null,
            },
          ],
          nextCursor: null,
        },
      },
      errors: [],
    },
    {
      id: "listPayments",
      method: "get",
      path: "/apps/{appId}/payments",
      summary: "List payments",
      description:
        "Returns the Stripe payments of one mode, newest first, with granted credits and credits taken back.",
      params: appParams,
      query: listPaymentsInput,
      success: {
        description: "A page of payments.",
        schema: listPaymentsOutput,
        example: {
          payments: [
            {
              paymentKey: examplePaymentKey,
              names: [examplePaymentKey, "cs_live_a1b2c3"],
              status: "granted",
              refunds: "part",
              isDisputed: false,
              settledBy: "stripe",
              reason: null,
              userId: "user_42",
              currency: "usd",
              captured: 1500,
              refunded: 500,
              withheld: 0,
              invoice: null,
              grants: [{ balanceId, packId, unit: "tokens", initial: 300_000, taken: 100_000, short: 0 }],
              events: [
                { eventId: "evt_1a", type: "checkout.session.completed", at: createdAt, outcome: "granted" },
                { eventId: "evt_2b", type: "charge.refunded", at: "2026-01-16T09:00:00.000Z", outcome: "taken" },
              ],
              createdAt,
            },
          ],
          sums: [{ currency: "usd", captured: 1500, refunded: 500, withheld: 0 }],
          nextCursor: null,
        },
      },
      errors: [],
    },
    {
      id: "setCarry",
      method: "post",
      path: "/apps/{appId}/payments/carry",
      summary: "Set the carry of a Stripe customer",
      description:
        "The carry is the money that a customer's invoices returned for a plan, and that has not paid for another plan yet. " +
        "The next invoices grant that much less. Set it if Stripe's own balance of the customer differs, for example " +
        "because you paid it out. `listPayments` shows it with a `userId`.",
      params: appParams,
      body: {
        schema: setCarryInput,
        example: { mode: "live", customer: "cus_9s6XKzkNRiz8i3", currency: "usd", amount: 0 },
      },
      success: {
        description: "The carry.",
        schema: setCarryOutput,
        example: { customer: "cus_9s6XKzkNRiz8i3", currency: "usd", amount: 0 },
      },
      errors: [],
    },
    {
      id: "settlePayment",
      method: "post",
      path: "/apps/{appId}/payments/{paymentKey}/settle",
      summary: "Settle a payment by hand",
      description:
        "Grants a pack for a payment that has granted nothing. Later refunds and disputes take it back like any grant of a " +
        "payment. If its invoice has not changed the customer's carry, it does so now.",
      params: z.object({ appId, paymentKey: z.string().describe("Any of the payment's ids at Stripe.") }),
      body: { schema: settlePaymentInput, example: { mode: "live", userId: "user_42", packId } },
      success: {
        description: "The balances.",
        schema: grantOutput,
        example: {
          balances: [{ balanceId, packItemId: null, remaining: 1500, expiresAt: null }],
          balanceId,
          remaining: 1500,
          expiresAt: null,
        },
        replayable: true,
      },
      errors: ["credit_pack_not_found", "invalid_quantity", "test_quota_exceeded", "idempotency_conflict"],
    },
  ]),
];
