import * as z from "zod";
import { cursor, mode, pageLimit } from "../../http/fields.ts";
import { lazy } from "../../http/lazy.ts";
import { nextCursor, time } from "../../http/output-fields.ts";
import { words } from "../../lib/words.ts";
import { listStripeEvents } from "../../payments/payment-lists.ts";
import { LOG_REASONS } from "../../payments/reasons.ts";
import { administration } from "../access.ts";
import { appParams, EXAMPLE } from "../common.ts";
import { operation } from "../operation.ts";
import { stripeOutcome as outcome, stripeOutcome } from "./payment-shapes.ts";

const loggedEvent = /* @__PURE__ */ lazy(() =>
  z
    .strictObject({
      eventId: z.string().meta(words("The event's id at Stripe.", "evt_1a")),
      type: z.string().meta(words("The event's type at Stripe.", "checkout.session.completed")),
      at: time.meta(words("The time of its arrival.", "2026-01-15T12:00:00.000Z")),
      outcome: outcome.meta(
        words("The outcome. If the event was delivered several times, the most important outcome.", "ignored"),
      ),
      reason: z
        .enum(LOG_REASONS)
        .meta({ id: "StripeEventReason" })
        .nullable()
        .meta(words("Why it granted nothing. Null unless `unmatched` or `ignored`.", "another_product")),
      objectId: z.string().nullable().meta(words("The id of its object at Stripe.", "cs_live_a1b2c3")),
      asked: z
        .strictObject({
          pack: z.string().nullable().meta(words("The pack that it named. Null if it named none.", "Starter")),
          user: z.string().nullable().meta(words("The user that it named. Null if it named none.", "user_42")),
        })
        .nullable()
        .meta(words("The pack and the user that it named. No user is stored for an ignored event.")),
      hint: z
        .string()
        .nullable()
        .meta(
          words(
            "How to change the integration so that such an event grants.",
            "`metadata.userId` is not read: name it `user`. `metadata.packId` is not read: name it `pack`.",
          ),
        ),
      paymentKey: z
        .string()
        .nullable()
        .meta(words("The payment's id at Stripe: its payment intent, if it has one.", "pi_3PgafmB7WZ01zgkW1tQm8sLd")),
    })
    .meta({ id: "StripeLogEntry" }),
);

const listStripeEventsOutput = /* @__PURE__ */ lazy(() =>
  z
    .strictObject({
      events: z.array(loggedEvent).meta(words("The events.")),
      nextCursor,
    })
    .meta({ id: "StripeEventList" }),
);

export const listStripeEventsInput = lazy(() =>
  z.object({
    mode: mode.meta(words("The mode of the events.", "live")),
    outcome: stripeOutcome.optional().meta(words("Only events with this outcome.", "granted")),
    limit: pageLimit("events").meta(words("The most events in a page.", 50)),
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
  ...(WITH_REFERENCE && {
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
  }),
  handler: (admin, { params, query }) => listStripeEvents(admin, params.appId, query),
});
