import { globMatches } from "../books/amounts/match.ts";
import { readFeatures } from "../db/features.ts";
import { toBase62 } from "../lib/encoding.ts";
import { iso } from "../lib/time.ts";
import type { Mode } from "../runtime.ts";

/** The types of messages (H2). */
export const MESSAGE_TYPES = [
  "credits.granted",
  "credits.refunded",
  "credits.revoked",
  "credits.adjusted",
  "credits.low",
  "credits.depleted",
  "recurring.suspended",
  "balance.expiring",
  "balance.expired",
  "usage.recorded",
  "usage.limit_reached",
  "reservation.expired",
  "person.exported",
  "person.erased",
  "limits.reached",
  "payment.unmatched",
  "payment.taken",
  "payment.restored",
  "purser.test",
] as const;
export type MessageType = (typeof MESSAGE_TYPES)[number];

/** An enabled endpoint, in the environment's features. */
interface EndpointFeature {
  readonly id: string;
  /** Globs. Null for all types except those that must be requested by name. */
  readonly types: readonly string[] | null;
}

/** The enabled endpoints, from the text of an environment's features. */
export function endpointsOf(features: string | null): readonly EndpointFeature[] {
  // Only `syncEndpoints` writes this part.
  return (readFeatures(features).webhooks ?? []) as readonly EndpointFeature[];
}

/** Whether an endpoint with these globs wants a type of message. `*` does not include `usage.recorded`. */
export function wantsType(types: readonly string[] | null, type: MessageType): boolean {
  const mustBeNamed = type === "usage.recorded";
  if (types === null) return !mustBeNamed;
  return types.some((glob) => globMatches(glob, type) && !(mustBeNamed && glob === "*"));
}

const TIME_DIGITS = 8;

/** The prefix of ids of messages that are written at a time. Prefixes sort by time. */
export function messageIdAt(atMs: number): string {
  return `msg_${toBase62(Math.max(0, atMs)).padStart(TIME_DIGITS, "0")}`;
}

export interface MessageRow {
  readonly id: string;
  readonly type: string;
  readonly atMs: number;
  /** JSON object. */
  readonly data: string;
  readonly appId: string;
  readonly mode: Mode;
}

/** The body of a message, identical in every attempt. `data` is the stored text, so that numbers keep all digits. */
export function messageText({ id, type, atMs, appId, mode, data }: MessageRow): string {
  const head = JSON.stringify({ id, type, timestamp: iso(atMs), appId, mode });
  return `${head.slice(0, -1)},"data":${data}}`;
}
