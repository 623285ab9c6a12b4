import { listPayments } from "../../payments/list.ts";
import { listPaymentsOutput } from "../../payments/responses.ts";
import { listPaymentsInput } from "../../payments/schemas.ts";
import { administration } from "../access.ts";
import { appParams, EXAMPLE } from "../common.ts";
import { operation } from "../operation.ts";

const { balanceId, createdAt, packId } = EXAMPLE;

const examplePaymentKey = "pi_3Q5vXK2eZvKYlo2C1a2b3c4d";

export default operation({
  id: "listPayments",
  method: "get",
  path: "/api/v1/admin/apps/{appId}/payments",
  tag: "Administration",
  access: administration("people", "argument"),
  params: appParams,
  query: listPaymentsInput,
  output: () => listPaymentsOutput,
  summary: "List payments",
  description: "Returns the Stripe payments of one mode, newest first, with granted credits and credits taken back.",
  returns: "A page of payments.",
  example: () => ({
    output: {
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
  }),
  handler: (admin, { params, query }) => listPayments(admin, params.appId, query),
});
