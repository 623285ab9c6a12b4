import { sql } from "drizzle-orm";
import { asInteger, type ValueOf } from "../../db/query.ts";
import { environments } from "../../db/schema.ts";

/**
 * The limits of an environment's analytics in a UTC day (L3), and their defaults, which no honest client meets. They count
 * what publishable and relay keys send. drizzle/0001_invariants.sql has the defaults too.
 */
export const analyticsDefaults = {
  eventsADay: 1_000_000,
  bytesADay: 1024 ** 3,
  eventsADayOfOneId: 100_000,
  bytesADayOfOneId: 100 * 1024 ** 2,
} as const;

export type AnalyticsLimit = keyof typeof analyticsDefaults;
export type AnalyticsLimits = Readonly<Record<AnalyticsLimit, number>>;

/** The limits in force, by what is stored of them. */
export function limitsOf(stored: string | null): AnalyticsLimits {
  // Written by `setAnalyticsLimits`.
  const set = stored === null ? {} : (JSON.parse(stored) as Partial<AnalyticsLimits>);
  return { ...analyticsDefaults, ...set };
}

/** The limit in force of an environment. */
export const limitInForce = (limit: AnalyticsLimit) =>
  sql`coalesce(${environments.analyticsLimits} ->> ${limit}, ${analyticsDefaults[limit]})`;

/** The UTC day of a write or a read, in days since 1970. */
export const dayOf = (value: ValueOf<{ nowMs: number }>) => sql<number>`(${asInteger(value("nowMs"))} / 86400000)`;
