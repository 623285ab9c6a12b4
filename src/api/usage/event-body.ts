import * as z from "zod";
import { withImplied } from "../../books/amounts/given-quantities.ts";
import { assertNotAhead } from "../../books/usage/plan.ts";
import type { EventInput } from "../../books/usage/record-event.ts";
import type { ListElement } from "../../books/usage/record-list.ts";
import { invalid, PurserError } from "../../errors.ts";
import { identifier, userId } from "../../http/fields.ts";
import { rejectionOfIssues } from "../../http/issue-text.ts";
import { lazy } from "../../http/lazy.ts";
import { codePoints } from "../../lib/code-points.ts";
import { isJsonObject, type JsonObject, ownValue } from "../../lib/json.ts";
import { words } from "../../lib/words.ts";
import { BodyByType } from "../body-by-type.ts";
import { eventInput, isNoReservationId, isOneOf, occurredAt, TIME_OF_USAGE, usageFields } from "./usage-shapes.ts";

/** The eventId of a CloudEvent: its source and id together are unique, and the escapes keep two pairs from one eventId. */
const makeEventId = (source: string, id: string): string =>
  `${source.replaceAll("%", "%25").replaceAll("#", "%23")}#${id}`;

const EVENT_ID_CODE_POINTS_MAX = 200;

/** The `data` of a CloudEvent. */
const cloudEventData = lazy(() => {
  const { memberId, model, quantities, meters, properties } = usageFields();
  return z
    .strictObject({ memberId, model, quantities, meters, properties })
    .refine(...isOneOf)
    .meta({ id: "CloudEventData" });
});

/** A CloudEvent 1.0 as JSON, read as a usage event (U1). Extension attributes are ignored. */
const cloudEvent = lazy(() =>
  z
    .looseObject({
      specversion: z.literal("1.0").meta(words("The version of CloudEvents.")),
      id: identifier().meta(words("Unique within the `source`. Both together are the eventId.", "A234-1234-1234")),
      source: identifier()
        .refine(...isNoReservationId)
        .meta(words("Where the event comes from.", "/meters/chat")),
      type: usageFields().event.meta(words("The event's name, such as `chat.completed`.", "chat.completed")),
      subject: userId,
      time: occurredAt.nullish().meta(words(TIME_OF_USAGE, "2026-01-16T08:30:00Z")),
      data: cloudEventData.nullish().meta(words("The data.")),
    })
    // CloudEvents count a null as absent.
    .refine((given) => given.data_base64 === undefined || given.data_base64 === null, {
      path: ["data_base64"],
      message: "must not be given: the data of an event is JSON",
    })
    .refine(({ source, id }) => codePoints(makeEventId(source, id)) <= EVENT_ID_CODE_POINTS_MAX, {
      path: ["id"],
      message: `and \`source\` must have at most ${EVENT_ID_CODE_POINTS_MAX} code points together, as \`source#id\` with escapes`,
    })
    .transform(
      ({ id, source, type, subject, time, data }): EventInput => ({
        eventId: makeEventId(source, id),
        userId: subject,
        memberId: data?.memberId,
        event: type,
        model: data?.model,
        ...withImplied({ quantities: data?.quantities, meters: data?.meters }),
        occurredAt: time ?? undefined,
        properties: data?.properties,
        onShortage: "reject",
      }),
    )
    .meta({ id: "CloudEvent" }),
);

const EVENTS_OF_LIST_MAX = 100;

const CLOUD_EVENT = "application/cloudevents+json";
const CLOUD_EVENT_BATCH = "application/cloudevents-batch+json";

/** An event as it was sent, with the name that the request's format has for its time. */
interface SentEvent {
  readonly input: EventInput;
  readonly timeField: string;
}

type SentElement = SentEvent | Exclude<ListElement, { readonly input: EventInput }>;

type EventRequest =
  | { readonly kind: "one"; readonly event: SentEvent }
  | { readonly kind: "list"; readonly elements: readonly SentElement[] };

const parseMediaType = (contentType: string | undefined): string =>
  (contentType ?? "").replace(/;.*$/s, "").trim().toLowerCase();

const isCloudEvent = (value: unknown): boolean => isJsonObject(value) && ownValue(value, "specversion") !== undefined;

/** Throws `invalid_request` for a body whose form does not match its content type. */
function assertDeclared(mediaType: string, body: unknown): void {
  if (isCloudEvent(body) && !mediaType.startsWith("application/cloudevents")) {
    throw invalid("content-type", `must be \`${CLOUD_EVENT}\` for a CloudEvent`);
  }
  if (mediaType !== CLOUD_EVENT || isCloudEvent(body)) return;
  if (Array.isArray(body)) {
    throw invalid("body", `must be an object, not a list: a list of CloudEvents is \`${CLOUD_EVENT_BATCH}\``);
  }
  if (isJsonObject(body) && ownValue(body, "eventId") !== undefined) {
    throw invalid("content-type", "must be `application/json` for an event that is not a CloudEvent");
  }
}

/** Throws `invalid_request` for a malformed single event. A malformed element of a list is rejected separately. */
function readEventRequest(contentType: string | undefined, body: unknown): EventRequest {
  const mediaType = parseMediaType(contentType);
  assertDeclared(mediaType, body);
  if (mediaType === CLOUD_EVENT) return { kind: "one", event: readOne(CLOUD_EVENT_FORMAT, body) };
  if (mediaType === CLOUD_EVENT_BATCH) return { kind: "list", elements: readList(CLOUD_EVENT_FORMAT, body) };
  if (Array.isArray(body)) return { kind: "list", elements: readList(PURSER_EVENT, body) };
  return { kind: "one", event: readOne(PURSER_EVENT, body) };
}

/** The elements of a list, for the route that accepts only lists. */
function readEventList(contentType: string | undefined, body: unknown): readonly SentElement[] {
  const mediaType = parseMediaType(contentType);
  if (mediaType === CLOUD_EVENT_BATCH) return readList(CLOUD_EVENT_FORMAT, body);
  if (mediaType === CLOUD_EVENT) {
    throw invalid("content-type", `must be \`${CLOUD_EVENT_BATCH}\` for a list of CloudEvents`);
  }
  return readList(PURSER_EVENT, body);
}

/** The names of fields in one format, for rejections. */
interface Format {
  readonly schema: z.ZodType<EventInput>;
  /** The eventId of an element that may be malformed. */
  readonly makeEventId: (element: JsonObject) => unknown;
  readonly timeField: string;
}
const eventIdOfMalformed = (element: JsonObject): unknown => {
  const [source, id] = [ownValue(element, "source"), ownValue(element, "id")];
  return typeof source === "string" && typeof id === "string" ? makeEventId(source, id) : null;
};

const PURSER_EVENT: Format = {
  schema: eventInput,
  makeEventId: (element) => ownValue(element, "eventId"),
  timeField: "occurredAt",
};
const CLOUD_EVENT_FORMAT: Format = { schema: cloudEvent, makeEventId: eventIdOfMalformed, timeField: "time" };

function readOne({ schema, timeField }: Format, body: unknown): SentEvent {
  const read = schema.safeParse(body);
  if (read.success) return { input: read.data, timeField };
  throw rejectionOfIssues(read.error.issues, "body");
}

function readList(format: Format, body: unknown): SentElement[] {
  if (!Array.isArray(body)) {
    throw invalid("body", "must be a list: put the events into brackets, with nothing around them");
  }
  if (body.length > EVENTS_OF_LIST_MAX) throw invalid("body", `must have at most ${EVENTS_OF_LIST_MAX} events`);
  return body.map((element: unknown) => {
    try {
      if (format === PURSER_EVENT && isCloudEvent(element)) {
        throw invalid("content-type", `must be \`${CLOUD_EVENT_BATCH}\` for a list of CloudEvents`);
      }
      return readOne(format, element);
    } catch (error) {
      if (!(error instanceof PurserError)) throw error;
      return { eventId: readableId(format, element), rejection: error };
    }
  });
}

function readableId(format: Format, element: unknown): string | null {
  if (!isJsonObject(element)) return null;
  const read = identifier().safeParse(format.makeEventId(element));
  return read.success ? read.data : null;
}

/** Returns the event of a request. Throws `invalid_request` when its time is ahead (L5). */
export function eventAt({ input, timeField }: SentEvent, nowMs: number): EventInput {
  assertNotAhead(input.occurredAt, nowMs, timeField);
  return input;
}

/** Returns the elements of a list. Those whose time is ahead are rejected, each for itself (L5). */
export const elementsAt = (elements: readonly SentElement[], nowMs: number): ListElement[] =>
  elements.map((element) => {
    if (!("input" in element)) return element;
    try {
      return { input: eventAt(element, nowMs) };
    } catch (error) {
      if (!(error instanceof PurserError)) throw error;
      return { eventId: element.input.eventId, rejection: error };
    }
  });

/** The body of one event. It takes lists too. */
export const oneEvent = new BodyByType(
  () => ({ "application/json": eventInput, [CLOUD_EVENT]: cloudEvent }),
  readEventRequest,
);

/** The body of a list of events. */
export const listOfEvents = new BodyByType(
  () => ({
    "application/json": z.array(eventInput).max(EVENTS_OF_LIST_MAX),
    [CLOUD_EVENT_BATCH]: z.array(cloudEvent).max(EVENTS_OF_LIST_MAX),
  }),
  readEventList,
);
