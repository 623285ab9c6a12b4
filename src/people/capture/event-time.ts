import { parseTimestamp } from "../../lib/time.ts";

/** If a time is further in the future, the client's clock is wrong. */
const FUTURE_MS_MAX = 23 * 3_600_000;
const EARLIEST_MS = Date.parse("0000-01-01T00:00:00Z");
const ISO_WITHOUT_ZONE = /^\d{4}-\d{2}-\d{2}([Tt ]\d{2}:\d{2}(:\d{2}(\.\d+)?)?)?$/;
const ISO_WITH_SHORT_ZONE = /^\d{4}-\d{2}-\d{2}[Tt ]\d{2}:\d{2}:\d{2}(\.\d+)?[+-]\d{2}$/;
const RFC_2822 = /^[A-Z][a-z]{2}, \d{1,2} [A-Z][a-z]{2} \d{4} /;
/** Seconds or milliseconds since the epoch. */
const EPOCH = /^\d{10}(\d{3})?$/;

/** The times that a client sends for an event, in milliseconds. Null if it does not send one. */
export interface ClientTime {
  readonly timestampMs: number | null;
  /** The time between the event and the request. */
  readonly offsetMs: number | null;
  /** The client's clock when it sent the request. */
  readonly sentAtMs: number | null;
}

/** A time in any format of PostHog's clients. Without a zone it is UTC. Null when it is not a time. */
export function parseClientTime(text: string): number | null {
  const exact = parseTimestamp(text);
  if (exact !== null) return exact;
  if (ISO_WITHOUT_ZONE.test(text)) return parseTimestamp(text.length === 10 ? `${text}T00:00Z` : `${text}Z`);
  if (ISO_WITH_SHORT_ZONE.test(text)) return parseTimestamp(`${text}:00`);
  if (EPOCH.test(text)) return Number(text.padEnd(13, "0"));
  // Outside of RFC 2822, Date.parse accepts almost any text.
  const atMs = RFC_2822.test(text) ? Date.parse(text) : Number.NaN;
  return Number.isNaN(atMs) ? null : atMs;
}

/**
 * When an event happened, by this service's clock, computed like PostHog: now minus `offset`; else the client's timestamp,
 * corrected by the difference of the clocks; else now. A time far in the future is replaced by now.
 */
export function eventTimeMs(client: ClientTime, nowMs: number): number {
  let atMs = nowMs;
  if (client.offsetMs !== null) atMs = nowMs - client.offsetMs;
  else if (client.timestampMs !== null) {
    atMs = client.timestampMs - (client.sentAtMs === null ? 0 : client.sentAtMs - nowMs);
  }
  if (atMs > nowMs + FUTURE_MS_MAX) return nowMs;
  return atMs >= EARLIEST_MS ? Math.trunc(atMs) : 0;
}
