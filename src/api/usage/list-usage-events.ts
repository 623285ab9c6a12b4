import * as z from "zod";
import { heldAmount, metersAndVersion, quantitiesOutput } from "../../books/amounts/amount-fields.ts";
import { listEvents, readUsageEventById } from "../../books/usage/list-events.ts";
import { assert } from "../../errors.ts";
import { cursor, identifier, pageLimit, timestamp, userId } from "../../http/fields.ts";
import { time } from "../../http/output-fields.ts";
import { once } from "../../lib/once.ts";
import { secretKeyOrUser } from "../access.ts";
import { EXAMPLE } from "../common.ts";
import { operation } from "../operation.ts";
import { exampleDebits } from "./usage-shapes.ts";

const shownEvent = z.lazy(
  once(() =>
    z
      .strictObject({
        eventId: z.string(),
        event: z.string(),
        model: z.string().nullable(),
        quantities: quantitiesOutput,
        ...metersAndVersion(),
        cost: z.number().nullable().optional().meta({
          description: "Your own cost, in cents. Null if the list of costs has none. Absent for a publishable key.",
          example: null,
        }),
        occurredAt: time,
        receivedAt: time,
        reservationId: z.string().nullable().describe("The reservation that it settled."),
        debits: z.array(heldAmount).describe("The debits, in spending order."),
        uncovered: quantitiesOutput.nullable().describe("The quantities that no balance covered."),
        properties: z.record(z.string(), z.unknown()).nullable().optional().describe("Absent for a publishable key."),
      })
      .meta({ id: "StoredUsageEvent" }),
  ),
);

const { eventId } = EXAMPLE;

const storedEvent = {
  eventId,
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
  access: secretKeyOrUser(["eventId"]),
  query: z.lazy(() =>
    z
      .object({
        userId: userId.optional().describe("The user whose events they are."),
        eventId: identifier().optional().describe("The id of one event, instead of `userId`. Needs a secret key."),
        event: identifier().optional().describe("An event name or a glob."),
        model: identifier().optional().describe("A model or a glob."),
        from: timestamp.optional().describe("Only events that occurred at this time or later."),
        to: timestamp.optional().describe("Only events that occurred before this time."),
        limit: pageLimit("events"),
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
  output: () =>
    z.union([
      z.lazy(() =>
        z
          .strictObject({
            events: z.array(shownEvent).describe("The newest by `occurredAt` first."),
            nextCursor: z
              .string()
              .nullable()
              .describe("For the next page, even if this page is short. Null on the last page."),
          })
          .meta({ id: "UsageEventPage" }),
      ),
      shownEvent.unwrap().extend({ userId: z.string() }).meta({ id: "UsageEventOfUser" }),
    ]),
  errors: ["requires_secret_key", "not_found"],
  summary: "List usage events",
  description:
    "Returns a user's events, newest by `occurredAt` first. A page with `event` or `model` examines a limited " +
    "number of events, so it may be short, even empty, while `nextCursor` is not null. A browser may call it with " +
    "a publishable key and the user's token, for that user only, and gets no `properties`. With `eventId` instead " +
    "of `userId`, returns that event, with its `userId`.",
  returns: "A page of events, or the event.",
  example: () => ({ output: { events: [storedEvent], nextCursor: null } }),
  handler: async (ctx, { query: { userId, eventId, ...page } }) => {
    if (eventId !== undefined) return readUsageEventById(ctx, eventId);
    assert(userId !== undefined, "a query names a user or an event");
    return listEvents(ctx, { ...page, userId });
  },
});
