import { and, eq, not, sql } from "drizzle-orm";
import { requireApp, requireEnvironment } from "../../catalog/apps.ts";
import { insertAuditEntry, newAuditEntry } from "../../catalog/audit.ts";
import { nameKey } from "../../catalog/pack.ts";
import { findConstraint } from "../../db/attempt.ts";
import {
  asInteger,
  computed,
  drizzle,
  fields,
  hasRow,
  insertFrom,
  query,
  scalar,
  type ValueOf,
} from "../../db/query.ts";
import { environments, type Minor, usageLimits } from "../../db/schema.ts";
import { timesOf } from "../../db/settings-snapshot.ts";
import { all, batch } from "../../db/sql.ts";
import { assert, invalid, PurserError } from "../../errors.ts";
import { iso } from "../../lib/time.ts";
import { offsetMsAt, UTC } from "../../lib/time-zone.ts";
import type { AdminCtx, Mode, SystemCtx } from "../../runtime.ts";
import { amountRule, fromMinor, toMinor, type Unit } from "../amounts/amount.ts";
import { type MatchRule, readStoredRules } from "../amounts/match.ts";
import type { WindowLength } from "../ledger/calendar.ts";
import type { UsageLimit } from "./count-usage.ts";

export interface UsageLimitOutput {
  readonly mode: Mode;
  readonly amount: number;
  readonly every: WindowLength;
  readonly per: UsageLimit["per"];
  readonly timeZone: string | null;
  readonly createdAt: string;
  readonly limitId: string;
  readonly name: string;
  readonly matches: MatchRule[];
  readonly unit: Unit;
}

/** Returns whether windows follow the calendar of a time zone: those of a day or longer (TZ1). */
export const followsCalendar = (every: WindowLength): boolean => every !== "minute" && every !== "hour";

/** The error text for an amount of a unit, to follow the field's name. Null when the amount is valid. */
export function rejectAmount(unit: Unit, amount: number): string | null {
  if (amount < 0) return "must not be negative";
  return toMinor(unit, amount) === null ? amountRule(unit, amount) : null;
}

/** The amount in minor units of the unit, or an error text. */
export function readAmount(unit: Unit, amount: number): { readonly minor: Minor } | { readonly rejection: string } {
  const rejection = rejectAmount(unit, amount);
  const minor = toMinor(unit, amount);
  return rejection !== null || minor === null ? { rejection: rejection ?? amountRule(unit, amount) } : { minor };
}

export interface CreateLimitInput {
  readonly mode: Mode;
  readonly name: string;
  readonly matches: MatchRule[];
  readonly unit: Unit;
  readonly amount: number;
  readonly every: WindowLength;
  readonly per: UsageLimit["per"];
  /** Undefined for windows shorter than a day, and for UTC. */
  readonly timeZone?: string | undefined;
}

export interface ListLimitsOutput {
  readonly limits: UsageLimitOutput[];
}

export type LimitRow = typeof usageLimits.$inferSelect;
export type LimitKey = { environmentId: number; limitId: string };

/** A usage limit as the API returns it (Q1). */
export function presentLimit(row: LimitRow, mode: Mode) {
  const { id, name, matches, unit, amountMinor, every, per, timeZone, createdAtMs } = row;
  return {
    ...{ limitId: id, mode, name, matches: [...readStoredRules(matches)], unit },
    ...{ amount: fromMinor(unit, amountMinor), every, per, timeZone, createdAt: iso(createdAtMs) },
  } satisfies UsageLimitOutput;
}

export const ofLimitKey = (value: ValueOf<LimitKey>) =>
  and(eq(usageLimits.environmentId, value("environmentId")), eq(usageLimits.id, value("limitId")));
/** Written without a bound value, so that SQLite uses the partial index of names. */
const isNotDeleted = sql`${usageLimits.isDeleted} = 0`;

const limitsJson = () => {
  const { id, name, matches, unit, amountMinor, every, per, timeZone, utcOffsetMs, environmentId, ordinal } =
    usageLimits;
  return sql`(
    SELECT json_group_array(json_object('id', ${id}, 'name', ${name}, 'matches', json(${matches}), 'unit', ${unit},
      'amountMinor', ${amountMinor}, 'every', ${every}, 'per', ${per},
      'timeZone', ${timeZone}, 'utcOffsetMs', ${utcOffsetMs}) ORDER BY ${ordinal})
    FROM ${usageLimits} WHERE ${environmentId} = ${environments.id} AND ${isNotDeleted}
  )`;
};

/** SQL: an environment's settings snapshot with a copy of its limits. */
export function snapshotWithLimits() {
  const before = sql`coalesce(${environments.settingsSnapshot}, '{}')`;
  return sql`nullif(iif(${limitsJson()} = '[]', json_remove(${before}, '$.limits'),
    json_set(${before}, '$.limits', json(${limitsJson()}))), '{}')`;
}

/** Copies an environment's limits into its settings snapshot. Send it in the batch that changes the limits. */
export const syncLimits = query((value: ValueOf<{ environmentId: number }>) =>
  drizzle
    .update(environments)
    .set({ settingsSnapshot: snapshotWithLimits() })
    .where(eq(environments.id, value("environmentId"))),
);

const LIMITS_MAX = 20;
const ofEnvironment = (value: ValueOf<{ environmentId: number }>) =>
  and(eq(usageLimits.environmentId, value("environmentId")), isNotDeleted);

// The second condition lets a repeated batch find its own limit.
const mayCreateLimit = (value: ValueOf<LimitKey>) => {
  const count = scalar(
    drizzle
      .select(computed({ count: sql<number>`count(*)` }))
      .from(usageLimits)
      .where(ofEnvironment(value)),
  );
  return sql`${count} < ${LIMITS_MAX} AND ${not(hasRow(usageLimits, ofLimitKey(value)))}`;
};

const auditCreated = insertAuditEntry<LimitKey>(mayCreateLimit);
type NewLimit = LimitKey &
  Pick<LimitRow, "name" | "nameKey" | "matches" | "unit" | "every" | "per" | "timeZone" | "utcOffsetMs"> & {
    amount: number;
    nowMs: number;
  };
const insertLimit = query((value: ValueOf<NewLimit>) =>
  insertFrom(
    usageLimits,
    {
      environmentId: asInteger(value("environmentId")),
      id: value("limitId"),
      ordinal: sql`1 + coalesce((
        SELECT max(${usageLimits.ordinal}) FROM ${usageLimits} WHERE ${usageLimits.environmentId} = ${value("environmentId")}
      ), 0)`,
      name: value("name"),
      nameKey: value("nameKey"),
      matches: value("matches"),
      unit: value("unit"),
      amountMinor: asInteger(value("amount")),
      every: value("every"),
      per: value("per"),
      timeZone: value("timeZone"),
      utcOffsetMs: asInteger(value("utcOffsetMs")),
      createdAtMs: asInteger(value("nowMs")),
    },
    sql`WHERE ${mayCreateLimit(value)}`,
  ),
);
const selectLimit = query((value: ValueOf<LimitKey>) =>
  drizzle.select(fields(usageLimits)).from(usageLimits).where(ofLimitKey(value)),
);

/** Returns `invalid_request` if an error means that another limit of the environment has the name; otherwise the error itself. */
export function nameTaken(error: unknown): unknown {
  if (findConstraint(error) !== "usage_limits_name_key") return error;
  return invalid("name", "must be unique: another usage limit of this mode has it");
}

/** Creates a usage limit (Q1), idempotent by its id. Throws `not_found`, and `invalid_request` for a 21st limit or a taken name. */
export async function createLimit(
  admin: AdminCtx,
  appId: string,
  input: CreateLimitInput,
  limitId = admin.newId("lim_"),
): Promise<UsageLimitOutput> {
  const { mode, name, matches, unit, every, per } = input;
  const environment = await requireEnvironment(admin, appId, mode);
  const environmentId = environment.id;
  const key = { environmentId, limitId };
  const amount = toMinor(unit, input.amount);
  assert(amount !== null, "the schema accepts only a whole number of minor units");
  const auditEntry = newAuditEntry(admin, { appId, action: "usage_limit.created", target: limitId, details: { mode } });
  const nowMs = timesOf(environment.clock, admin).now();
  const timeZone = followsCalendar(every) ? (input.timeZone ?? UTC.timeZone) : null;
  const utcOffsetMs = timeZone === null ? 0 : offsetMsAt({ timeZone, utcOffsetMs: 0 }, admin.now());
  const values = {
    ...key,
    name,
    nameKey: nameKey(name),
    matches: JSON.stringify(matches),
    unit,
    amount,
    every,
    per,
    timeZone,
    utcOffsetMs,
    nowMs,
  };
  const [, , , [row]] = await batch(admin.db, [
    auditCreated({ ...auditEntry, ...key }),
    insertLimit(values),
    syncLimits({ environmentId }),
    selectLimit(key),
  ]).catch((error: unknown) => {
    throw nameTaken(error);
  });
  if (row !== undefined) return presentLimit(row, mode);
  throw new PurserError("invalid_request", `An environment may have ${LIMITS_MAX} usage limits. Delete one first.`, {
    details: { limit: LIMITS_MAX },
  });
}

const selectLimits = query((value: ValueOf<{ environmentId: number }>) =>
  drizzle.select(fields(usageLimits)).from(usageLimits).where(ofEnvironment(value)).orderBy(usageLimits.ordinal),
);

/** The usage limits of one mode, oldest first. Throws `not_found`. */
export async function listLimits(root: SystemCtx, appId: string, mode: Mode): Promise<ListLimitsOutput> {
  const { id: environmentId } = await requireEnvironment(root, appId, mode);
  const rows = await all(root.db, selectLimits({ environmentId }));
  return { limits: rows.map((row) => presentLimit(row, mode)) };
}

const selectOwnLimit = query((value: ValueOf<{ appId: string; limitId: string }>) =>
  drizzle
    .select({ ...fields(usageLimits), ...fields(environments, "mode") })
    .from(environments)
    .crossJoin(usageLimits)
    .where(
      and(
        eq(environments.appId, value("appId")),
        eq(usageLimits.id, value("limitId")),
        eq(usageLimits.environmentId, environments.id),
      ),
    ),
);

/** A usage limit, with its application and mode. */
export type LimitOfApp = LimitRow & { readonly appId: string; readonly mode: Mode };

/** Returns an application's usage limit, even while it is being deleted. Throws `not_found`. */
export async function requireLimit(root: SystemCtx, appId: string, limitId: string): Promise<LimitOfApp> {
  const [row] = await all(root.db, selectOwnLimit({ appId, limitId }));
  if (row !== undefined) return { ...row, appId };
  await requireApp(root, appId);
  throw unknownLimit();
}

export const unknownLimit = () =>
  new PurserError("not_found", "There is no such usage limit in this application and mode.", { param: "limitId" });
