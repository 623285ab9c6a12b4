import { type SQL, sql } from "drizzle-orm";
import { alias, type SQLiteColumn } from "drizzle-orm/sqlite-core";
import { asInteger, assignments, insertFrom, names, query, type ValueOf } from "../db/query.ts";
import { analyticsEvents, distinctIds, firstSeenOfKnownId, idProperties } from "../db/schema.ts";
import type { Statement } from "../db/sql.ts";
import { chunkJson, jsonChunks, writeJsonList } from "../lib/json.ts";
import type { TenantCtx } from "../runtime.ts";
import { dayOf, isCounted } from "./limits/daily-limits.ts";
import { recordBytes, storedBytes } from "./limits/stored-bytes.ts";
import type { PeopleChange } from "./plan-people.ts";

/** Rows are sent as one JSON value, because D1 binds at most 100 values, and numbers as REAL. */
type PeopleRows = { environmentId: number; rows: string };
type RowsAt = PeopleRows & { nowMs: number };

/**
 * Writes properties, if the version that was read is still stored. A server's `$unset` also removes what others set, whatever they
 * change meanwhile (P9): otherwise whoever holds the public key could delay it.
 */
const writeProperties = query((value: ValueOf<PeopleRows & { isServer: number }>) => {
  const { environmentId, distinctId, isVerified, properties, version } = idProperties;
  const stored = alias(idProperties, "stored");
  const next = sql`1 + coalesce((
    SELECT ${stored.version} FROM ${idProperties} AS ${stored} WHERE ${stored.environmentId} = ${value("environmentId")}
      AND ${stored.distinctId} = value ->> 0 AND ${stored.isVerified} = 0
  ), 0)`;
  const row = {
    environmentId: asInteger(value("environmentId")),
    distinctId: sql`value ->> 0`,
    isVerified: sql`value ->> 1`,
    properties: sql`value -> 3`,
    version: sql`iif(${value("isServer")} AND value ->> 1 = 0, ${next}, value ->> 2)`,
  };
  const changed = { properties: inserted(properties), version: inserted(version) };
  return sql`${insertFrom(idProperties, row, sql`FROM json_each(${value("rows")}) WHERE true`)}
    ON CONFLICT (${names(environmentId, distinctId, isVerified)}) DO UPDATE SET ${assignments(idProperties, changed)}`;
});

/** The inserted value of a column, in an upsert. */
const inserted = (column: SQLiteColumn) => sql`excluded.${names(column)}`;
const largest = (column: SQLiteColumn) => sql`max(${column}, ${inserted(column)})`;

const knownIds = alias(distinctIds, "known");
const isEventOfRow = (value: ValueOf<PeopleRows>) =>
  sql`${analyticsEvents.environmentId} = ${value("environmentId")} AND ${analyticsEvents.distinctId} = row.value ->> 0`;

/**
 * FROM: each row, with the last seq of its id, whether its record is new, and the bytes of the events that are not counted
 * yet.
 */
const freshRows = (value: ValueOf<PeopleRows>) => {
  const { seq, properties } = analyticsEvents;
  const lastSeq = sql`(SELECT ${seq} FROM ${analyticsEvents} WHERE ${isEventOfRow(value)} ORDER BY ${seq} DESC LIMIT 1)`;
  const weights = sql`(
    SELECT json_array(coalesce(sum(octet_length(${properties})), 0), coalesce(sum(${storedBytes()}), 0))
    FROM ${analyticsEvents} WHERE ${isEventOfRow(value)} AND ${seq} > coalesce(${knownIds.eventCount}, 0)
  )`;
  // The LIMIT stops SQLite from computing the counts of an id again for each use of them.
  return sql`(
    SELECT row.value, coalesce(${lastSeq}, ${knownIds.eventCount}, 0) AS total, ${knownIds.eventCount} IS NULL AS is_new, ${weights} AS weights
    FROM json_each(${value("rows")}) AS row LEFT JOIN ${distinctIds} AS ${knownIds}
      ON ${knownIds.environmentId} = ${value("environmentId")} AND ${knownIds.distinctId} = row.value ->> 0
    LIMIT -1 OFFSET 0
  ) AS fresh`;
};

/**
 * Counts the new events of each id. Send it after the statements that insert the events. It needs no guard, because these
 * values only grow. A repeated batch counts nothing, or fails because the versions of its claims differ.
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
    firstSeenAtMs: sql`iif(fresh.is_new, ${asInteger(value("nowMs"))}, ${firstSeenOfKnownId})`,
    lastSeenAtMs: asInteger(value("nowMs")),
    eventCount: sql`fresh.total`,
    eventBytes: sql`fresh.weights ->> 0`,
    claimsMade: sql`fresh.value ->> 4`,
    claimsDay: sql`iif(fresh.value ->> 4 > 0, ${dayOf(value)}, NULL)`,
    dayClaims: sql`fresh.value ->> 4`,
    claimsOverLimit: sql`fresh.value ->> 7`,
    isUser: sql`fresh.value ->> 5`,
    isVerifiedUser: sql`iif(${value("isCounted")}, 0, fresh.value ->> 5)`,
    day: ifCounted(dayOf(value), sql`NULL`),
    dayEvents: ifCounted(sql`fresh.total`, sql`0`),
    dayBytes: ifCounted(sql`iif(fresh.total > 0, (fresh.weights ->> 1) + (fresh.value ->> 6) + ${record}, 0)`, sql`0`),
  };
  const hasNewEvents = sql`${inserted(distinctIds.eventCount)} > ${distinctIds.eventCount}`;
  const ofDay = (column: SQLiteColumn, more: SQL) =>
    sql`iif(${inserted(distinctIds.day)} IS NULL, ${column}, iif(${distinctIds.day} = ${inserted(distinctIds.day)}, ${column}, 0) + ${more})`;
  const changed = {
    isSender: largest(distinctIds.isSender),
    isIdentified: largest(distinctIds.isIdentified),
    isUser: largest(distinctIds.isUser),
    isVerifiedUser: largest(distinctIds.isVerifiedUser),
    lastSeenAtMs: sql`max(${distinctIds.lastSeenAtMs}, iif(${hasNewEvents}, ${inserted(distinctIds.lastSeenAtMs)}, 0))`,
    eventCount: inserted(distinctIds.eventCount),
    eventBytes: sql`${distinctIds.eventBytes} + ${inserted(distinctIds.eventBytes)}`,
    day: sql`coalesce(${inserted(distinctIds.day)}, ${distinctIds.day})`,
    dayEvents: ofDay(distinctIds.dayEvents, sql`${inserted(distinctIds.eventCount)} - ${distinctIds.eventCount}`),
    dayBytes: ofDay(distinctIds.dayBytes, sql`iif(${hasNewEvents}, ${inserted(distinctIds.dayBytes)}, 0)`),
    claimsMade: sql`${distinctIds.claimsMade} + ${inserted(distinctIds.claimsMade)}`,
    claimsDay: sql`coalesce(${inserted(distinctIds.claimsDay)}, ${distinctIds.claimsDay})`,
    dayClaims: sql`iif(${inserted(distinctIds.claimsDay)} IS NULL OR ${distinctIds.claimsDay} = ${inserted(distinctIds.claimsDay)}, ${distinctIds.dayClaims}, 0)
      + ${inserted(distinctIds.dayClaims)}`,
    claimsOverLimit: sql`${distinctIds.claimsOverLimit} + ${inserted(distinctIds.claimsOverLimit)}`,
  };
  const grows = (column: SQLiteColumn) => sql`${inserted(column)} > ${column}`;
  return sql`${insertFrom(distinctIds, row, sql`FROM ${freshRows(value)} WHERE true`)}
    ON CONFLICT (${names(distinctIds.environmentId, distinctIds.distinctId)}) DO UPDATE SET ${assignments(distinctIds, changed)}
    WHERE ${hasNewEvents} OR ${grows(distinctIds.isSender)} OR ${grows(distinctIds.isIdentified)} OR ${grows(distinctIds.isUser)}
      OR ${grows(distinctIds.isVerifiedUser)} OR ${inserted(distinctIds.claimsMade)} > 0 OR ${inserted(distinctIds.claimsOverLimit)} > 0`;
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
    firstSeenAtMs: firstSeenOfKnownId,
    lastSeenAtMs: asInteger(value("nowMs")),
    ...claim,
  };
  const changed = {
    claimedBy: inserted(distinctIds.claimedBy),
    claimedVia: inserted(distinctIds.claimedVia),
    claimedAtMs: inserted(distinctIds.claimedAtMs),
    claimIsVerified: inserted(distinctIds.claimIsVerified),
    claimVersion: inserted(distinctIds.claimVersion),
  };
  return sql`${insertFrom(distinctIds, row, sql`FROM json_each(${value("rows")}) WHERE true`)}
    ON CONFLICT (${names(distinctIds.environmentId, distinctIds.distinctId)}) DO UPDATE SET ${assignments(distinctIds, changed)}`;
});

/** Returns the statements that store the changes to people. Send them after the statements of the events, in the same batch. */
export function peopleWrites(
  ctx: TenantCtx,
  change: PeopleChange,
  times: { readonly nowMs: number; readonly dayMs: number },
): Statement[] {
  const environmentId = ctx.environment.id;
  const properties = change.properties.map((row) =>
    writeJsonList([row.distinctId, Number(row.isVerified), row.version + 1], row.properties),
  );
  const ids = change.ids.map((id) => [
    id.distinctId,
    Number(id.isDeviceForm),
    Number(id.isSender),
    Number(id.isIdentified),
    id.claimsMade,
    Number(id.isUser),
    id.writtenPropertiesBytes,
    id.claimsOverLimit,
  ]);
  const claims = change.changes.map(({ distinctId, claim, version }) => [
    ...[distinctId, version + 1, claim.by, claim.via, Number(claim.isVerified)],
  ]);
  return [
    ...chunkJson(properties).map((rows) =>
      writeProperties({ environmentId, rows, isServer: Number(ctx.caller.kind === "secret") }),
    ),
    ...jsonChunks(ids).map((rows) => upsertIds({ environmentId, rows, ...times, isCounted: Number(isCounted(ctx)) })),
    ...jsonChunks(claims).map((rows) => changeClaims({ environmentId, rows, nowMs: times.nowMs })),
  ];
}
