import * as z from "zod";
import { heldAmount, metersAndVersion, quantitiesOutput } from "../../books/amounts/amount-fields.ts";
import { listEvents, readUsageEventById } from "../../books/usage/list-events.ts";
import { assert } from "../../errors.ts";
import { cursor, identifier, pageLimit, timestamp, userId } from "../../http/fields.ts";
import { lazy } from "../../http/lazy.ts";
import { time } from "../../http/output-fields.ts";
import { words } from "../../lib/words.ts";
import { secretKeyOrUser } from "../access.ts";
import { EXAMPLE } from "../common.ts";
import { operation } from "../operation.ts";
import { exampleDebits } from "./usage-shapes.ts";

const shownEvent = /* @__PURE__ */ lazy(() =>
  z
    .strictObject({
      eventId: z.string().meta(words("The usage event's id.", "chat-2026-01-16-0001")),
      memberId: z
        .string()
        .nullable()
        .optional()
        .meta(words("The member who used it. Null for none. Absent for a publishable key.", "user_7")),
      event: z.string().meta(words("The event's name.", "chat.completed")),
      model: z.string().nullable().meta(words("The model. Null if the event has none.", "large-2")),
      quantities: quantitiesOutput.meta(words("The usage in each unit.")),
      ...metersAndVersion(),
      cost: z
        .number()
        .nullable()
        .optional()
        .meta(
          words("Your own cost, in cents. Null if the list of costs has none. Absent for a publishable key.", null),
        ),
      occurredAt: time.meta(words("When it happened.", "2026-01-16T08:30:00.000Z")),
      receivedAt: time.meta(words("When Purser received it.", "2026-01-16T08:30:00.042Z")),
      reservationId: z
        .string()
        .nullable()
        .meta(words("The reservation that it settled.", "res_7hWk3yB5nC0eUi9fMvS4Lx")),
      debits: z.array(heldAmount).meta(words("The debits, in spending order.")),
      uncovered: quantitiesOutput.nullable().meta(words("The quantities that no balance covered.")),
      properties: z
        .record(z.string(), z.unknown())
        .nullable()
        .optional()
        .meta(words("Absent for a publishable key.", { conversation: "c_17" })),
    })
    .meta({ id: "StoredUsageEvent" }),
);

const { eventId } = EXAMPLE;

const storedEvent = {
  eventId,
  memberId: null,
  event: "chat.completed",
  model: "large-2",
  quantities: { count: 1, tokens: 120 },
  ...{ meters: null, priceVersion: null, cost: null },
  occurredAt: "2026-01-16T08:30:00.000Z",
  receivedAt: "2026-01-16T08:30:00.042Z",
  reservationId: null,
  debits: exampleDebits.debits.map(({ remaining: _, ...debit }) => debit),
  uncovered: null,
  properties: { conversation: "c_17" },
};

export default operation({
  id: "listUsageEvents",
  method: "get",
  path: "/api/v1/usage/events",
  tag: "Usage",
  access: secretKeyOrUser(["eventId", "memberId"]),
  query: lazy(() =>
    z
      .object({
        userId: userId.optional().meta(words("The user whose events they are.", "user_42")),
        eventId: identifier()
          .optional()
          .meta(words("The id of one event, instead of `userId`. Needs a secret key.", "chat-2026-01-16-0001")),
        memberId: identifier().optional().meta(words("Only this member's events. Needs a secret key.", "user_7")),
        event: identifier().optional().meta(words("An event name or a glob.", "chat.completed")),
        model: identifier().optional().meta(words("A model or a glob.", "large-1")),
        from: timestamp
          .optional()
          .meta(words("Only events that occurred at this time or later.", "2026-01-16T08:30:00.000Z")),
        to: timestamp.optional().meta(words("Only events that occurred before this time.", "2026-02-16T08:30:00.000Z")),
        limit: pageLimit("events").meta(words("The most events in a page.", 50)),
        cursor,
      })
      .refine((input) => input.userId !== undefined || input.eventId !== undefined, {
        path: ["userId"],
        message: "is required unless `eventId` is sent",
      })
      .refine((input) => input.userId === undefined || input.eventId === undefined, {
        path: ["eventId"],
        message: "must not be sent together with `userId`",
      }),
  ),
  errors: ["requires_secret_key", "not_found"],
  ...(WITH_REFERENCE && {
    output: () =>
      z.union([
        lazy(() =>
          z
            .strictObject({
              events: z.array(shownEvent).meta(words("The newest by `occurredAt` first.")),
              nextCursor: z
                .string()
                .nullable()
                .meta(words("For the next page, even if this page is short. Null on the last page.", null)),
            })
            .meta({ id: "UsageEventPage" }),
        ),
        shownEvent
          .unwrap()
          .extend({ userId: z.string().meta(words("Your own id of the user.", "user_42")) })
          .meta({ id: "UsageEventOfUser" }),
      ]),
    summary: "List usage events",
    description:
      "Returns a user's events, newest by `occurredAt` first. A page with `event` or `model` examines a limited " +
      "number of events, so it may be short, even empty, while `nextCursor` is not null. A browser may call it with " +
      "a publishable key and the user's token, for that user only, and gets no `properties`. With `eventId` instead " +
      "of `userId`, returns that event, with its `userId`.",
    returns: "A page of events, or the event.",
    example: () => ({ output: { events: [storedEvent], nextCursor: null } }),
  }),
  handler: async (ctx, { query: { userId, eventId, ...page } }) => {
    if (eventId !== undefined) return readUsageEventById(ctx, eventId);
    assert(userId !== undefined, "a query names a user or an event");
    return listEvents(ctx, { ...page, userId });
  },
});
