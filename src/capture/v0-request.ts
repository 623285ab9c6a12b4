import { invalid, PurserError } from "../errors.ts";
import { isJsonObject, type JsonObject, own } from "../lib/json.ts";
import { parseClientTime } from "./event-time.ts";

/** A request of PostHog's v0 protocol: `/batch/`, `/e/`, `/capture/` and others. */
export interface CaptureRequest {
  readonly events: readonly unknown[];
  readonly sentAtMs: number | null;
}

/** The most events of a batch. For more the response is 413, after which clients send half as many. */
const eventsMax = 10_000;

/**
 * The key of a request, next to the events or in each of them. Null when none was sent. Throws `invalid_request` if events
 * have different keys, because a request is for one environment.
 */
export function keyOfRequest(body: unknown): string | null {
  if (isJsonObject(body)) {
    const key = keyOf(body);
    if (key !== null) return key;
  }
  const keys = new Set(eventsOf(body).map(keyOf));
  if (keys.size > 1) throw invalid("batch", "must carry one key");
  return [...keys][0] ?? null;
}

/**
 * The events of a request: `{ api_key, batch, sent_at }`, one event, or a bare list. `sentAtQuery` is the `_` of the
 * query string, in milliseconds. Throws `invalid_request`, `payload_too_large`.
 */
export function readCaptureRequest(body: unknown, sentAtQuery: string | undefined): CaptureRequest {
  const envelope: JsonObject = isJsonObject(body) ? body : {};
  if (!Array.isArray(own(envelope, "batch") ?? [])) throw invalid("batch", "must be a list of events");
  const events = eventsOf(body);
  assertEventCount(events);
  const sentAt = own(envelope, "sent_at");
  const queried = sentAtQuery !== undefined && /^\d{1,15}$/.test(sentAtQuery) ? Number(sentAtQuery) : null;
  return { events, sentAtMs: typeof sentAt === "string" ? parseClientTime(sentAt) : queried };
}

/** The events of a body. Empty if the body has none of the known forms. */
function eventsOf(body: unknown): readonly unknown[] {
  if (Array.isArray(body)) return body;
  if (!isJsonObject(body)) return [];
  const batch = own(body, "batch");
  if (Array.isArray(batch)) return batch;
  return batch === undefined ? [body] : [];
}

export function assertEventCount(events: readonly unknown[]): void {
  if (events.length === 0) throw invalid("batch", "must hold at least one event");
  if (events.length > eventsMax) {
    throw new PurserError("payload_too_large", `A request holds at most ${eventsMax} events.`);
  }
}

/** The key of a body or an event. */
export function keyOf(value: unknown): string | null {
  if (!isJsonObject(value)) return null;
  const properties = own(value, "properties");
  const beside = own(value, "api_key") ?? own(value, "token") ?? own(value, "$token");
  const key = beside ?? (isJsonObject(properties) ? own(properties, "token") : undefined);
  return typeof key === "string" ? key : null;
}
