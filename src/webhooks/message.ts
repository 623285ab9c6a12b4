import { globMatches } from "../books/amounts/match.ts";
import { readFeatures } from "../db/features.ts";
import { toBase62 } from "../lib/base62.ts";

/** The types of messages (H2). */
export const MESSAGE_TYPES = [
  "credits.granted",
  "credits.refunded",
  "credits.revoked",
  "credits.adjusted",
  "credits.low",
  "credits.depleted",
  "balance.expiring",
  "balance.expired",
  "usage.recorded",
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

/** An endpoint that is on, in the environment's features. */
interface EndpointFeature {
  readonly id: string;
  /** Globs. Null: all that need not be asked for. */
  readonly types: readonly string[] | null;
}

/** The endpoints that are on, by the text of an environment's features. */
export function endpointsOf(features: string | null): readonly EndpointFeature[] {
  // Only `syncEndpoints` writes this part.
  return (readFeatures(features).webhooks ?? []) as readonly EndpointFeature[];
}

/** Whether an endpoint of these globs wants messages of a type. `usage.recorded` must be asked for, by more than `*`. */
export function wantsType(types: readonly string[] | null, type: MessageType): boolean {
  const mustBeNamed = type === "usage.recorded";
  if (types === null) return !mustBeNamed;
  return types.some((glob) => globMatches(glob, type) && !(mustBeNamed && glob === "*"));
}

const TIME_DIGITS = 8;

/** The beginning of the ids of messages that are written at a time. It sorts as times do. */
export function messageIdAt(atMs: number): string {
  return `msg_${toBase62(Math.max(0, atMs)).padStart(TIME_DIGITS, "0")}`;
}
