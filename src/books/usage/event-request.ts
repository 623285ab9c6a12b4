import type * as z from "zod";
import { invalid, PurserError } from "../../errors.ts";
import { identifier } from "../../http/fields.ts";
import { refusalOfIssues } from "../../http/validate.ts";
import { isJsonObject, type JsonObject, ownValue } from "../../lib/json.ts";
import type { ListElement } from "./record-list.ts";
import { assertNotAhead, cloudEvent, EVENTS_OF_LIST_MAX, type EventInput, eventIdOf, eventInput } from "./schemas.ts";

const CLOUD_EVENT = "application/cloudevents+json";
const CLOUD_EVENT_BATCH = "application/cloudevents-batch+json";

export type EventRequest =
  | { readonly kind: "one"; readonly input: EventInput }
  | { readonly kind: "list"; readonly elements: readonly ListElement[] };

const mediaTypeOf = (contentType: string | undefined): string =>
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

/** Throws `invalid_request` for a malformed single event. A malformed element of a list is refused separately. */
export function readEventRequest(contentType: string | undefined, body: unknown, nowMs: number): EventRequest {
  const mediaType = mediaTypeOf(contentType);
  assertDeclared(mediaType, body);
  if (mediaType === CLOUD_EVENT) return { kind: "one", input: readOne(CLOUD_EVENT_FORMAT, body, nowMs) };
  if (mediaType === CLOUD_EVENT_BATCH) return { kind: "list", elements: readList(CLOUD_EVENT_FORMAT, body, nowMs) };
  if (Array.isArray(body)) return { kind: "list", elements: readList(PURSER_EVENT, body, nowMs) };
  return { kind: "one", input: readOne(PURSER_EVENT, body, nowMs) };
}

/** The elements of a list, for the route that accepts only lists. */
export function readEventList(contentType: string | undefined, body: unknown, nowMs: number): readonly ListElement[] {
  const mediaType = mediaTypeOf(contentType);
  if (mediaType === CLOUD_EVENT_BATCH) return readList(CLOUD_EVENT_FORMAT, body, nowMs);
  if (mediaType === CLOUD_EVENT) {
    throw invalid("content-type", `must be \`${CLOUD_EVENT_BATCH}\` for a list of CloudEvents`);
  }
  return readList(PURSER_EVENT, body, nowMs);
}

/** The names of fields in one format, for refusals. */
interface Format {
  readonly schema: z.ZodType<EventInput>;
  /** The eventId of an element that may be malformed. */
  readonly eventIdOf: (element: JsonObject) => unknown;
  readonly timeField: string;
}
const eventIdOfMalformed = (element: JsonObject): unknown => {
  const [source, id] = [ownValue(element, "source"), ownValue(element, "id")];
  return typeof source === "string" && typeof id === "string" ? eventIdOf(source, id) : null;
};

const PURSER_EVENT: Format = {
  schema: eventInput,
  eventIdOf: (element) => ownValue(element, "eventId"),
  timeField: "occurredAt",
};
const CLOUD_EVENT_FORMAT: Format = { schema: cloudEvent, eventIdOf: eventIdOfMalformed, timeField: "time" };

function readOne({ schema, timeField }: Format, body: unknown, nowMs: number): EventInput {
  const read = schema.safeParse(body);
  if (read.success) {
    assertNotAhead(read.data.occurredAt, nowMs, timeField);
    return read.data;
  }
  throw refusalOfIssues(read.error.issues, "body");
}

function readList(format: Format, body: unknown, nowMs: number): ListElement[] {
  if (!Array.isArray(body)) {
    throw invalid("body", "must be a list: put the events into brackets, with nothing around them");
  }
  if (body.length > EVENTS_OF_LIST_MAX) throw invalid("body", `must hold at most ${EVENTS_OF_LIST_MAX} events`);
  return body.map((element: unknown) => {
    try {
      if (format === PURSER_EVENT && isCloudEvent(element)) {
        throw invalid("content-type", `must be \`${CLOUD_EVENT_BATCH}\` for a list of CloudEvents`);
      }
      return { input: readOne(format, element, nowMs) };
    } catch (error) {
      if (!(error instanceof PurserError)) throw error;
      return { eventId: readableId(format, element), refusal: error };
    }
  });
}

function readableId(format: Format, element: unknown): string | null {
  if (!isJsonObject(element)) return null;
  const read = identifier().safeParse(format.eventIdOf(element));
  return read.success ? read.data : null;
}
