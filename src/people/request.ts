import { invalid, PurserError } from "../errors.ts";
import { isJsonObject, type JsonObject, own } from "../lib/json.ts";
import { parseClientTime } from "./event-time.ts";

/** A request of PostHog's v0 dialect: `/batch/`, `/e/`, `/capture/` and their like. */
export interface CaptureRequest {
  /** Null: none was sent. */
  readonly apiKey: string | null;
  readonly events: readonly unknown[];
  readonly sentAtMs: number | null;
}

/** So many events are one batch; more are refused with 413, on which clients halve what they send. */
export const eventsMax = 10_000;

/**
 * The envelope of events: `{ api_key, batch, sent_at }`, one event, or a bare list of events that carry their key in
 * `properties.token`. `sentAtQuery` is the `_` of the query string, in milliseconds. Throws `invalid_request`.
 */
export function readCaptureRequest(body: unknown, sentAtQuery: string | undefined): CaptureRequest {
  const envelope: JsonObject = isJsonObject(body) ? body : {};
  const list = Array.isArray(body) ? body : (own(envelope, "batch") ?? (isJsonObject(body) ? [body] : null));
  if (!Array.isArray(list)) throw invalid(isJsonObject(body) ? "batch" : "body", "must hold events");
  assertEventCount(list);
  const sentAt = own(envelope, "sent_at");
  const queried = sentAtQuery !== undefined && /^\d{1,15}$/.test(sentAtQuery) ? Number(sentAtQuery) : null;
  return {
    apiKey: keyOf(envelope) ?? keyOfAll(list),
    events: list,
    sentAtMs: typeof sentAt === "string" ? parseClientTime(sentAt) : queried,
  };
}

export function assertEventCount(events: readonly unknown[]): void {
  if (events.length === 0) throw invalid("batch", "must hold at least one event");
  if (events.length > eventsMax) {
    throw new PurserError("payload_too_large", `A request holds at most ${eventsMax} events.`);
  }
}

/** The key of a body or an event, wherever clients put it. */
export function keyOf(value: unknown): string | null {
  if (!isJsonObject(value)) return null;
  const properties = own(value, "properties");
  const beside = own(value, "api_key") ?? own(value, "token") ?? own(value, "$token");
  const key = beside ?? (isJsonObject(properties) ? own(properties, "token") : undefined);
  return typeof key === "string" ? key : null;
}

/** One request is for one environment: events that carry keys of their own must agree. */
function keyOfAll(events: readonly unknown[]): string | null {
  const keys = new Set(events.map(keyOf));
  if (keys.size > 1) throw invalid("batch", "must carry one key");
  return [...keys][0] ?? null;
}
