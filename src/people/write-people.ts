import { type SQL, sql } from "drizzle-orm";
import { alias, type SQLiteColumn } from "drizzle-orm/sqlite-core";
import { asInteger, assignments, insertFrom, names, query, type ValueOf } from "../db/query.ts";
import { analyticsEvents, distinctIds, idProperties } from "../db/schema.ts";
import type { Statement } from "../db/sql.ts";
import { jsonChunks } from "../lib/json.ts";
import type { TenantCtx } from "../runtime.ts";
import { dayOf, isCounted, recordBytes, storedBytes } from "./limits/count.ts";
import type { PeopleChange } from "./plan-people.ts";

/** Rows are sent as one JSON value, because D1 binds at most 100 values, and numbers as REAL. */
type Rows = { environmentId: number; rows: string };
type RowsAt = Rows & { nowMs: number };

const writeProperties = query((value: ValueOf<Rows>) => {
  const { environmentId, distinctId, properties, version } = idProperties;
  const row = {
    environmentId: asInteger(value("environmentId")),
    distinctId: sql`value ->> 0`,
    properties: sql`value ->> 1`,
    version: sql`value ->> 2`,
  };
  const changed = { properties: latest(properties), version: latest(version) };
  return sql`${insertFrom(idProperties, row, sql`FROM json_each(${value("rows")}) WHERE true`)}
    ON CONFLICT (${names(environmentId, distinctId)}) DO UPDATE SET ${assignments(idProperties, changed)}`;
});

/** The inserted value of a column, in an upsert. */
const latest = (column: SQLiteColumn) => sql`excluded.${names(column)}`;
const largest = (column: SQLiteColumn) => sql`max(${column}, ${latest(column)})`;

const d = distinctIds;
const known = alias(distinctIds, "known");
const ofRow = (value: ValueOf<Rows>) =>
  sql`${analyticsEvents.environmentId} = ${value("environmentId")} AND ${analyticsEvents.distinctId} = row.value ->> 0`;

/** FROM: each row with its id's last seq, whether its record is new, and the uncounted events' number and bytes. */
const freshRows = (value: ValueOf<Rows>) => {
  const { seq, properties } = analyticsEvents;
  const lastSeq = sql`(SELECT ${seq} FROM ${analyticsEvents} WHERE ${ofRow(value)} ORDER BY ${seq} DESC LIMIT 1)`;
  const weights = sql`(
    SELECT json_array(coalesce(sum(octet_length(${properties})), 0), coalesce(sum(${storedBytes()}), 0))
    FROM ${analyticsEvents} WHERE ${ofRow(value)} AND ${seq} > coalesce(${known.eventCount}, 0)
  )`;
  // Each id is counted once, however often the row uses it.
  return sql`(
    SELECT row.value, coalesce(${lastSeq}, ${known.eventCount}, 0) AS total, ${known.eventCount} IS NULL AS is_new, ${weights} AS weights
    FROM json_each(${value("rows")}) AS row LEFT JOIN ${distinctIds} AS ${known}
      ON ${known.environmentId} = ${value("environmentId")} AND ${known.distinctId} = row.value ->> 0
    LIMIT -1 OFFSET 0
  ) AS fresh`;
};

/**
 * Counts the new events of each id, so it comes after their insertion. It needs no guard, because these facts only grow. A repeated
 * batch counts nothing, or fails on the versions of its claims.
 */
const upsertIds = query((value: ValueOf<RowsAt & { isCounted: number; dayMs: number }>) => {
  const ifCounted = (counted: SQL, otherwise: SQL) => sql`iif(${value("isCounted")}, ${counted}, ${otherwise})`;
  const record = sql`iif(fresh.is_new, ${recordBytes(sql`(fresh.value ->> 0)`)}, 0)`;
  const row = {
    environmentId: asInteger(value("environmentId")),
    distinctId: sql`fresh.value ->> 0`,
    isDeviceForm: sql`fresh.value ->> 1`,
    isSender: sql`fresh.value ->> 2`,
    isIdentified: sql`fresh.value ->> 3`,
    firstSeenAtMs: asInteger(value("nowMs")),
    lastSeenAtMs: asInteger(value("nowMs")),
    eventCount: sql`fresh.total`,
    eventBytes: sql`fresh.weights ->> 0`,
    claimsMade: sql`fresh.value ->> 4`,
    isUser: sql`fresh.value ->> 5`,
    day: ifCounted(dayOf(value), sql`NULL`),
    dayEvents: ifCounted(sql`fresh.total`, sql`0`),
    dayBytes: ifCounted(sql`iif(fresh.total > 0, (fresh.weights ->> 1) + (fresh.value ->> 6) + ${record}, 0)`, sql`0`),
  };
  const hasMore = sql`${latest(d.eventCount)} > ${d.eventCount}`;
  const ofDay = (column: SQLiteColumn, more: SQL) =>
    sql`iif(${latest(d.day)} IS NULL, ${column}, iif(${d.day} = ${latest(d.day)}, ${column}, 0) + ${more})`;
  const changed = {
    isSender: largest(d.isSender),
    isIdentified: largest(d.isIdentified),
    isUser: largest(d.isUser),
    lastSeenAtMs: sql`max(${d.lastSeenAtMs}, iif(${hasMore}, ${latest(d.lastSeenAtMs)}, 0))`,
    eventCount: latest(d.eventCount),
    eventBytes: sql`${d.eventBytes} + ${latest(d.eventBytes)}`,
    day: sql`coalesce(${latest(d.day)}, ${d.day})`,
    dayEvents: ofDay(d.dayEvents, sql`${latest(d.eventCount)} - ${d.eventCount}`),
    dayBytes: ofDay(d.dayBytes, sql`iif(${hasMore}, ${latest(d.dayBytes)}, 0)`),
    claimsMade: sql`${d.claimsMade} + ${latest(d.claimsMade)}`,
  };
  const grows = (column: SQLiteColumn) => sql`${latest(column)} > ${column}`;
  return sql`${insertFrom(distinctIds, row, sql`FROM ${freshRows(value)} WHERE true`)}
    ON CONFLICT (${names(d.environmentId, d.distinctId)}) DO UPDATE SET ${assignments(distinctIds, changed)}
    WHERE ${hasMore} OR ${grows(d.isSender)} OR ${grows(d.isIdentified)} OR ${grows(d.isUser)}
      OR ${latest(d.claimsMade)} > 0`;
});

/**
 * A row is [id, version, claimer, via, isVerified]. Its record exists. This is an upsert, because an UPDATE that joins a list
 * may read the whole list for each record.
 */
const changeClaims = query((value: ValueOf<RowsAt>) => {
  const claim = {
    claimedBy: sql`value ->> 2`,
    claimedVia: sql`value ->> 3`,
    claimedAtMs: asInteger(value("nowMs")),
    claimIsVerified: sql`value ->> 4`,
    claimVersion: sql`value ->> 1`,
  };
  const row = {
    environmentId: asInteger(value("environmentId")),
    distinctId: sql`value ->> 0`,
    isDeviceForm: sql`0`,
    firstSeenAtMs: asInteger(value("nowMs")),
    lastSeenAtMs: asInteger(value("nowMs")),
    ...claim,
  };
  const changed = {
    claimedBy: latest(d.claimedBy),
    claimedVia: latest(d.claimedVia),
    claimedAtMs: latest(d.claimedAtMs),
    claimIsVerified: latest(d.claimIsVerified),
    claimVersion: latest(d.claimVersion),
  };
  return sql`${insertFrom(distinctIds, row, sql`FROM json_each(${value("rows")}) WHERE true`)}
    ON CONFLICT (${names(d.environmentId, d.distinctId)}) DO UPDATE SET ${assignments(distinctIds, changed)}`;
});

/** The statements that store the changes to people. They come after the statements of the events, in the same batch. */
export function peopleWrites(
  ctx: TenantCtx,
  change: PeopleChange,
  times: { readonly nowMs: number; readonly dayMs: number },
): Statement[] {
  const environmentId = ctx.environment.id;
  const properties = change.properties.map((row) => [row.distinctId, row.properties, row.version + 1]);
  const ids = change.ids.map((id) => [
    id.distinctId,
    Number(id.isDeviceForm),
    Number(id.isSender),
    Number(id.isIdentified),
    id.claimsMade,
    Number(id.isUser),
    id.addedPropertiesBytes,
  ]);
  const made = change.changes.map(({ distinctId, claim, version }) => [
    ...[distinctId, version + 1, claim.by, claim.via, Number(claim.isVerified)],
  ]);
  return [
    ...jsonChunks(properties).map((rows) => writeProperties({ environmentId, rows })),
    ...jsonChunks(ids).map((rows) => upsertIds({ environmentId, rows, ...times, isCounted: Number(isCounted(ctx)) })),
    ...jsonChunks(made).map((rows) => changeClaims({ environmentId, rows, nowMs: times.nowMs })),
  ];
}
