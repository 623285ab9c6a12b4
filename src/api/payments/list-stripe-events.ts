import { listStripeEvents } from "../../payments/list.ts";
import { listStripeEventsOutput } from "../../payments/responses.ts";
import { listStripeEventsInput } from "../../payments/schemas.ts";
import { administration } from "../access.ts";
import { appParams, EXAMPLE } from "../common.ts";
import { operation } from "../operation.ts";

const { createdAt } = EXAMPLE;

export default operation({
  id: "listStripeEvents",
  method: "get",
  path: "/api/v1/admin/apps/{appId}/stripe/events",
  tag: "Administration",
  access: administration("people", "argument"),
  params: appParams,
  query: listStripeEventsInput,
  output: () => listStripeEventsOutput,
  summary: "List Stripe's events",
  description:
    "Returns the Stripe events of one mode, newest first: the effect of each, and how to correct it. Events " +
    "without an effect are kept for 30 days, at most 10,000 of them.",
  returns: "A page of events.",
  example: () => ({
    output: {
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
  }),
  handler: (admin, { params, query }) => listStripeEvents(admin, params.appId, query),
});
