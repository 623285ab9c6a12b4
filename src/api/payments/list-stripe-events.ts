import * as z from "zod";
import { cursor, mode, pageLimit } from "../../http/fields.ts";
import { time } from "../../http/output-fields.ts";
import { listStripeEvents } from "../../payments/payment-lists.ts";
import { LOG_REASONS } from "../../payments/reasons.ts";
import { administration } from "../access.ts";
import { appParams, EXAMPLE } from "../common.ts";
import { operation } from "../operation.ts";
import { stripeOutcome as outcome, stripeOutcome } from "./payment-shapes.ts";

const loggedEvent = z.lazy(() =>
  z
    .strictObject({
      eventId: z.string().describe("The event's id at Stripe."),
      type: z.string().describe("The event's type at Stripe."),
      at: time.describe("The time of its arrival."),
      outcome: outcome.describe("The outcome. If the event was delivered several times, the most important outcome."),
      reason: z
        .enum(LOG_REASONS)
        .meta({ id: "StripeEventReason" })
        .nullable()
        .describe("Why it granted nothing. Null unless `unmatched` or `ignored`."),
      objectId: z.string().nullable().describe("The id of its object at Stripe."),
      asked: z
        .strictObject({ pack: z.string().nullable(), user: z.string().nullable() })
        .nullable()
        .describe("The pack and the user that it named. No user is stored for an ignored event."),
      hint: z.string().nullable().describe("How to change the integration so that such an event grants."),
      paymentKey: z.string().nullable(),
    })
    .meta({ id: "StripeLogEntry" }),
);

const listStripeEventsOutput = z.lazy(() =>
  z
    .strictObject({
      events: z.array(loggedEvent),
      nextCursor: z.string().nullable().describe("The cursor of the next page. Null on the last page."),
    })
    .meta({ id: "StripeEventList" }),
);

export const listStripeEventsInput = z.lazy(() =>
  z.object({
    mode: mode.describe("The mode of the events."),
    outcome: stripeOutcome.optional().describe("Only events with this outcome."),
    limit: pageLimit("events"),
    cursor,
  }),
);

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
