import * as z from "zod";
import {
  environmentUsageOutput,
  eventListOutput,
  eventOutput,
  eventsOutput,
  groupedTotalsOutput,
  shownEvent,
  totalsOutput,
} from "../../books/usage/responses.ts";
import {
  cloudEvent,
  EVENTS_OF_LIST_MAX,
  environmentUsageInput,
  eventInput,
  eventsInput,
  totalsInput,
} from "../../books/usage/schemas.ts";
import type { Operation } from "../operation.ts";
import { appParams, EXAMPLE, ofAdministration } from "./common.ts";
import { exampleDebits } from "./reservations.ts";

const { eventId } = EXAMPLE;

const exampleEvent = {
  eventId,
  userId: "user_42",
  event: "chat.completed",
  model: "large-2",
  quantities: { tokens: 120 },
  properties: { conversation: "c_17" },
};

const storedEvent = {
  eventId,
  event: "chat.completed",
  model: "large-2",
  quantities: { count: 1, tokens: 120 },
  occurredAt: "2026-01-16T08:30:00.000Z",
  receivedAt: "2026-01-16T08:30:00.042Z",
  reservationId: null,
  debits: exampleDebits.debits.map(({ remaining: _, ...debit }) => debit),
  uncovered: null,
  properties: { conversation: "c_17" },
};

const exampleCloudEvent = {
  specversion: "1.0",
  id: "A234-1234-1234",
  source: "/meters/chat",
  type: "chat.completed",
  subject: "user_42",
  time: "2026-01-16T08:30:00Z",
  data: { model: "large-2", quantities: { tokens: 120 } },
};

/** Usage events, and the totals of usage. */
export const usageOperations: readonly Operation[] = [
  {
    id: "recordUsageEvent",
    method: "post",
    path: "/api/v1/usage/events",
    tag: "Usage",
    summary: "Record a usage event",
    description:
      "Records usage once for each `eventId`, and debits the balances that pay for it, in spending order. Each balance pays " +
      "the part of the event that it can, in its own unit. If credits are insufficient, `reject` records nothing (402; the " +
      "same id may be sent again) and `partial` debits what is available. A CloudEvent 1.0 is accepted as well: its `source` (with " +
      "`%` and `#` percent-encoded), `#` and `id` are the eventId, `subject` the userId, `type` the event, `time` occurredAt. Lists go to `/api/v1/usage/events/batch`; this path " +
      "takes them too.",
    access: "secret",
    body: {
      schema: eventInput,
      example: exampleEvent,
      alternatives: { "application/cloudevents+json": { schema: cloudEvent, example: exampleCloudEvent } },
    },
    success: {
      description: "The debits.",
      schema: eventOutput,
      example: exampleDebits,
      replayable: true,
      warns: true,
    },
    errors: ["insufficient_credits", "idempotency_conflict", "usage_limit_reached"],
    writesForId: "refused",
  },
  {
    id: "recordUsageEvents",
    method: "post",
    path: "/api/v1/usage/events/batch",
    tag: "Usage",
    summary: "Record a list of usage events",
    description:
      "Up to 100 events as a bare list. Each event, even a malformed one, succeeds or fails separately, as with " +
      "`recordUsageEvent`. The response is 200 with a result for each. Events of one user are recorded in the order of " +
      "the list.",
    access: "secret",
    body: {
      schema: z.array(eventInput).max(EVENTS_OF_LIST_MAX),
      example: [exampleEvent],
      alternatives: {
        "application/cloudevents-batch+json": {
          schema: z.array(cloudEvent).max(EVENTS_OF_LIST_MAX),
          example: [exampleCloudEvent],
        },
      },
    },
    success: {
      description: "The result or the error of each event, in order.",
      schema: eventListOutput,
      example: { results: [exampleDebits] },
      warns: true,
      headers: {
        "retry-after":
          "When an event has the error `temporarily_unavailable`: seconds to wait before sending it again.",
      },
    },
    errors: [],
  },
  {
    id: "listUsageEvents",
    method: "get",
    path: "/api/v1/usage/events",
    tag: "Usage",
    summary: "List usage events",
    description:
      "Returns a user's events, newest by `occurredAt` first. A page with `event` or `model` examines a limited " +
      "number of events, so it may be short, even empty, while `nextCursor` is not null. A browser may call it with " +
      "a publishable key and the user's token, for that user only, and gets no `properties`. With `eventId` instead " +
      "of `userId`, returns that event, with its `userId`.",
    access: "end-user",
    query: eventsInput,
    success: {
      description: "A page of events, or the event.",
      schema: z.union([eventsOutput, shownEvent.extend({ userId: z.string() }).meta({ id: "UsageEventOfUser" })]),
      example: { events: [storedEvent], nextCursor: null },
    },
    errors: ["requires_secret_key", "not_found"],
  },
  {
    id: "getUsageTotals",
    method: "get",
    path: "/api/v1/usage",
    tag: "Usage",
    summary: "Get usage totals",
    description:
      "Returns the used quantities, by event and unit, of events that occurred in `[from, to)`. These are not " +
      "debits. `groupBy` groups them by event, model and hour, day or month, together with the debited amounts; it " +
      "needs `from`. A span of more than 200,000 events is refused. A browser may call it with a publishable key " +
      "and the user's token, for that user only, for up to 5,000 events.",
    access: "end-user",
    query: totalsInput,
    success: {
      description: "The totals. Units that were not used are left out.",
      schema: z.union([totalsOutput, groupedTotalsOutput]),
      example: { totals: [{ event: "chat.completed", unit: "tokens", amount: 1_200 }] },
    },
    errors: [],
  },
  ...ofAdministration([
    {
      id: "getEnvironmentUsage",
      method: "get",
      path: "/apps/{appId}/usage",
      summary: "Get the usage of all users",
      description:
        "Returns the usage of all users of one mode on the days of `[from, to)`, in UTC, by `occurredAt`. It is " +
        "grouped by day, event, model or user. `user` returns the 100 users with the most events and the 100 users " +
        "with the most of each unit in one list, the most events first. The totals are updated within minutes: they " +
        "contain everything received before `upTo`. A span with more than 2,000,000 sums is refused; each user, " +
        "day, event and model has one sum.",
      params: appParams,
      query: environmentUsageInput,
      success: {
        description: "The totals, by time, event or model, null first; users by events.",
        schema: environmentUsageOutput,
        example: {
          totals: [
            { userId: "user_42", events: 310, quantities: { count: 310, tokens: 482_113 } },
            { userId: "user_7", events: 12, quantities: { count: 12, tokens: 1_200_000 } },
          ],
          upTo: "2026-01-31T12:04:07.512Z",
        },
      },
      errors: [],
    },
  ]),
];
