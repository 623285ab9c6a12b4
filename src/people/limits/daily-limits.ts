import { sql } from "drizzle-orm";
import { findConstraint } from "../../db/attempt.ts";
import { asInteger, type ValueOf } from "../../db/query.ts";
import { environments } from "../../db/schema.ts";
import type { TenantCtx } from "../../runtime.ts";

/**
 * The default limits of an environment's analytics in a UTC day (L3). No honest client reaches them. They apply to events from
 * publishable and relay keys. drizzle/0001_invariants.sql repeats them.
 */
export const analyticsDefaults = {
  eventsADay: 1_000_000,
  bytesADay: 1024 ** 3,
  eventsADayOfOneId: 100_000,
  bytesADayOfOneId: 100 * 1024 ** 2,
} as const;

export type AnalyticsLimit = keyof typeof analyticsDefaults;

export type AnalyticsLimits = Readonly<Record<AnalyticsLimit, number>>;

/** A limit of a whole environment: a daily limit, or the space for analytics in the database. */
export type EnvironmentLimit = "eventsADay" | "bytesADay" | "databaseBytes";

/** A limit that can be reached. `claims`: an id's claims (L1). */
export type ReachedLimit = AnalyticsLimit | EnvironmentLimit | "claims";

/** Why an event was dropped. `day`: a limit of the day was reached, so no answer depends on the ids of its events. */
export type DropReason = AnalyticsLimit | EnvironmentLimit | "day";

/** The share of the day's limits that ids without a verified mark may fill. drizzle/0001_invariants.sql repeats it. */
export const UNMARKED_SHARE = 3 / 4;

/** Returns the limits in force, from the stored setting. */
export function parseAnalyticsLimits(stored: string | null): AnalyticsLimits {
  // `setLimits` wrote this JSON.
  const limits = stored === null ? {} : (JSON.parse(stored) as Partial<AnalyticsLimits>);
  return { ...analyticsDefaults, ...limits };
}

/** SQL: a limit in force of an environment. */
export const limitInForce = (limit: AnalyticsLimit) =>
  sql`coalesce(${environments.analyticsLimits} ->> ${limit}, ${analyticsDefaults[limit]})`;

/** SQL: the UTC day of a real time, in days since 1970. The limits use real time even with a test clock (D3). */
export const dayOf = (value: ValueOf<{ dayMs: number }>) => sql<number>`(${asInteger(value("dayMs"))} / 86400000)`;

/** Returns whether a D1 error reports an id's limit. */
export function isIdLimit(error: unknown): boolean {
  const constraint = findConstraint(error);
  return constraint === "limit_id_events" || constraint === "limit_id_bytes";
}

/**
 * Returns whether a D1 error reports that ids without a verified mark fill their share of the day, and the limit that was reached by
 * this batch. Null for any other error.
 */
export function shareLimitIn(error: unknown): { readonly reached: EnvironmentLimit | null } | null {
  const constraint = findConstraint(error);
  if (constraint === "limit_share") return { reached: null };
  if (constraint === "limit_unmarked_events") return { reached: "eventsADay" };
  return constraint === "limit_unmarked_bytes" ? { reached: "bytesADay" } : null;
}

/** Returns the limit of the environment or the database that a D1 error reports. Null for any other error. */
export function environmentLimitIn(error: unknown): EnvironmentLimit | null {
  const constraint = findConstraint(error);
  if (constraint === "limit_space") return "databaseBytes";
  if (constraint === "limit_events") return "eventsADay";
  return constraint === "limit_bytes" ? "bytesADay" : null;
}

/** Returns whether the caller's events are counted. This is so for publishable and relay keys. */
export const isCounted = ({ caller }: TenantCtx): boolean => caller.kind !== "secret";
