import { Webhook } from "standardwebhooks";
import { DAY_MS } from "../lib/time.ts";

/** The headers of an attempt: a signature for each secret, `whsec_` and base64. */
export function signedHeaders(
  id: string,
  atMs: number,
  body: string,
  secrets: readonly string[],
): Record<string, string> {
  const signatures = secrets.map((secret) => new Webhook(secret).sign(id, new Date(atMs), body));
  return {
    "content-type": "application/json",
    "user-agent": "Purser",
    "webhook-id": id,
    "webhook-timestamp": String(Math.floor(atMs / 1_000)),
    "webhook-signature": signatures.join(" "),
  };
}

const SECOND_MS = 1_000;
const MINUTE_MS = 60 * SECOND_MS;
const HOUR_MS = 60 * MINUTE_MS;

/** The delays between one attempt and the next (H4). */
const DELAYS_MS = [
  5 * SECOND_MS,
  MINUTE_MS,
  5 * MINUTE_MS,
  30 * MINUTE_MS,
  ...[2, 5, 10, 14, 20, 24].map((hours) => hours * HOUR_MS),
];

export const TRIES_MAX = DELAYS_MS.length + 1;

/** Up to 10 % later, so that deliveries that failed together are not repeated together. `characters` are random. */
function jitter(characters: string): number {
  let sum = 0;
  for (const character of characters) sum = (sum * 31 + character.charCodeAt(0)) % 1_000;
  return 1 + sum / 10_000;
}

/** `Retry-After` in milliseconds, at most a day. 0 when it is absent or malformed. */
export function retryAfterMs(header: string | null, nowMs: number): number {
  if (header === null) return 0;
  const ms = /^\d+$/.test(header) ? Number(header) * SECOND_MS : Date.parse(header) - nowMs;
  return ms > 0 ? Math.min(ms, DAY_MS) : 0;
}

/** The delay after the nth attempt, from 1, before the next one. Null after the last. */
export function nextDelayMs(tries: number, atLeastMs: number, characters: string): number | null {
  const delay = DELAYS_MS[tries - 1];
  return delay === undefined ? null : Math.round(Math.max(delay * jitter(characters), atLeastMs));
}
