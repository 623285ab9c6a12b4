import { sql } from "drizzle-orm";
import { alias, type SQLiteColumn } from "drizzle-orm/sqlite-core";
import { computed, fields, names, query, read, type ValueOf } from "../db/query.ts";
import { distinctIds, idProperties } from "../db/schema.ts";
import type { Statement } from "../db/sql.ts";
import { jsonChunks } from "../lib/json.ts";
import type { TenantCtx } from "../runtime.ts";
import { type ClaimRecord, needsStoredPeople, type PersonEvent } from "./claims.ts";
import { changesProperties, ID_PROPERTIES_BYTES_MAX } from "./id-properties.ts";
import { dayOf } from "./limits/daily-limits.ts";
import type { StoredPeople } from "./plan-people.ts";
import { isUserBy } from "./user-marks.ts";

type LinkedIds = { environmentId: number; ids: string };
type LinkedIdsOfDay = LinkedIds & { dayMs: number };

interface ClaimRow {
  readonly distinctId: string;
  readonly claimedBy: string | null;
  readonly isVerified: boolean;
  readonly version: number;
  /** Null for an id that is read only because it claims a linked id. */
  readonly isUser: boolean | null;
  readonly isVerifiedUser: boolean;
  readonly claimsMade: number;
  readonly claimsToday: number;
}
interface PropertiesRow {
  readonly distinctId: string;
  readonly isVerified: boolean;
  /** Null when the properties of the ids before it already fill a read. */
  readonly properties: string | null;
  readonly version: number;
}
export type PeopleRow = ClaimRow | PropertiesRow;

const toBoolean = (stored: unknown): boolean => stored === 1;

const claimFields = () =>
  computed({
    claimedBy: sql<string | null>`${distinctIds.claimedBy}`,
    isVerified: sql<boolean>`coalesce(${distinctIds.claimIsVerified}, 0)`.mapWith(toBoolean),
    version: sql<number>`coalesce(${distinctIds.claimVersion}, 0)`,
    claimsMade: sql<number>`coalesce(${distinctIds.claimsMade}, 0)`,
  });
const noMarks = () =>
  computed({ isUser: sql<null>`NULL`, isVerifiedUser: sql`0`.mapWith(toBoolean), claimsToday: sql<number>`0` });

/** The ids that events link, stored or not. */
const linkedIds = query((value: ValueOf<LinkedIdsOfDay>) => {
  const isVerifiedUser = isUserBy(value("environmentId"), sql`i.value`, distinctIds.isVerifiedUser).mapWith(toBoolean);
  const isUser = isUserBy(value("environmentId"), sql`i.value`, distinctIds.isUser).mapWith(toBoolean);
  const claimsToday = sql<number>`iif(${distinctIds.claimsDay} = ${dayOf(value)}, ${distinctIds.dayClaims}, 0)`;
  const marks = computed({ isUser, isVerifiedUser, claimsToday });
  return read(
    { ...computed({ distinctId: sql<string>`i.value` }), ...claimFields(), ...marks },
    (list) => sql`
      SELECT ${list} FROM json_each(${value("ids")}) AS i
      LEFT JOIN ${distinctIds} ON ${distinctIds.environmentId} = ${value("environmentId")} AND ${distinctIds.distinctId} = i.value`,
  );
});

/**
 * The ids that claim the linked ids by verified claims, directly or through other ids. They are read because a new claim
 * could close a cycle of any length.
 */
const idsAbove = query((value: ValueOf<LinkedIds>) => {
  const above = alias(distinctIds, "above");
  const isClaim = sql`${distinctIds.environmentId} = ${value("environmentId")} AND ${distinctIds.claimIsVerified} = 1`;
  return read(
    { ...fields(distinctIds, "distinctId"), ...claimFields(), ...noMarks() },
    (list) => sql`
      WITH RECURSIVE ${above} (${names(distinctIds.distinctId)}) AS (
        SELECT ${distinctIds.claimedBy} FROM json_each(${value("ids")}) AS i CROSS JOIN ${distinctIds}
        WHERE ${isClaim} AND ${distinctIds.distinctId} = i.value
        UNION
        SELECT ${distinctIds.claimedBy} FROM ${above} CROSS JOIN ${distinctIds} WHERE ${isClaim} AND ${distinctIds.distinctId} = ${above.distinctId}
      )
      SELECT ${list} FROM ${above} CROSS JOIN ${distinctIds}
      WHERE ${distinctIds.environmentId} = ${value("environmentId")} AND ${distinctIds.distinctId} = ${above.distinctId}`,
  );
});

type NeededProperties = { environmentId: number; ids: string };

/** SQL: whether a row has the properties of an element [id, whether secret keys set them] of the list. */
const isNeeded = (value: ValueOf<NeededProperties>, row: PropertiesColumns) =>
  sql`${row.environmentId} = ${value("environmentId")} AND ${row.distinctId} = i.value ->> 0 AND ${row.isVerified} = i.value ->> 1`;
type PropertiesColumns = Readonly<Record<"environmentId" | "distinctId" | "isVerified", SQLiteColumn>>;

const propertiesOfIds = query((value: ValueOf<NeededProperties>) =>
  read(
    fields(idProperties, "distinctId", "isVerified", "properties", "version"),
    (list) => sql`
      SELECT ${list} FROM json_each(${value("ids")}) AS i CROSS JOIN ${idProperties} WHERE ${isNeeded(value, idProperties)}`,
  ),
);

/** The most bytes of properties that are read at a time. */
const READ_PROPERTIES_BYTES_MAX = 2 * 1024 * 1024;
/** This many rows of properties always fit into a read. */
const READ_PROPERTIES_ROWS = READ_PROPERTIES_BYTES_MAX / ID_PROPERTIES_BYTES_MAX;

/** The properties of the first elements, up to `READ_PROPERTIES_BYTES_MAX`. */
const propertiesWithin = query((value: ValueOf<NeededProperties>) => {
  const [o, p] = [alias(idProperties, "own"), idProperties];
  const sizes = sql`
    SELECT i.value, sum(octet_length(${o.properties})) OVER (ORDER BY i.key) AS size
    FROM json_each(${value("ids")}) AS i CROSS JOIN ${idProperties} AS ${o} WHERE ${isNeeded(value, o)}`;
  return read(
    {
      ...fields(p, "distinctId", "isVerified", "version"),
      ...computed({
        properties: sql<string | null>`iif(i.size <= ${READ_PROPERTIES_BYTES_MAX}, ${p.properties}, NULL)`,
      }),
    },
    (list) => sql`SELECT ${list} FROM (${sizes}) AS i CROSS JOIN ${p} WHERE ${isNeeded(value, p)}`,
  );
});

/**
 * Returns the statements that read the input of `planPeople`. Their cost grows with the number of events and, with a secret key, of
 * the ids that claim the events' ids.
 */
export function peopleReads(ctx: TenantCtx, events: readonly PersonEvent[]): Statement<PeopleRow>[] {
  const environmentId = ctx.environment.id;
  const isVerified = ctx.caller.kind === "secret";
  const linked = new Set<string>();
  const changing = new Set<string>();
  const unsetting = new Set<string>();
  for (const event of events) {
    if (!needsStoredPeople(event)) continue;
    if (changesProperties(event)) changing.add(event.distinctId);
    // A secret key's `$unset` also removes what other keys set.
    if (isVerified && event.unset !== null) unsetting.add(event.distinctId);
    if (event.link !== null) linked.add(event.distinctId).add(event.link.otherId);
  }
  const dayMs = ctx.realNow();
  const claims = jsonChunks([...linked]).flatMap((ids) => [
    linkedIds({ environmentId, ids, dayMs }),
    ...(isVerified ? [idsAbove({ environmentId, ids })] : []),
  ]);
  const needed = [...changing].flatMap((id) => [[id, Number(isVerified)], ...(unsetting.has(id) ? [[id, 0]] : [])]);
  const properties = needed.length > READ_PROPERTIES_ROWS ? propertiesWithin : propertiesOfIds;
  return [...claims, ...jsonChunks(needed).map((ids) => properties({ environmentId, ids }))];
}

/** Returns the stored people from the rows of `peopleReads`, and the ids whose properties were not read. */
export function storedPeople(rows: readonly PeopleRow[]): StoredPeople & { readonly unread: ReadonlySet<string> } {
  const unread = new Set<string>();
  const claims = new Map<string, ClaimRecord>();
  const properties: StoredPeople["properties"][number][] = [];
  for (const row of rows) {
    if ("properties" in row) {
      if (row.properties === null) unread.add(row.distinctId);
      else properties.push({ ...row, properties: row.properties });
    }
    // A linked id may have a second row, as the claimer of another id. The row with `isUser` has more.
    else if (row.isUser !== null || !claims.has(row.distinctId)) claims.set(row.distinctId, claimRecord(row));
  }
  return { claims: [...claims.values()], properties, unread };
}

function claimRecord({ claimedBy, isVerified, isUser, ...row }: ClaimRow): ClaimRecord {
  const claim = claimedBy === null ? null : { by: claimedBy, isVerified };
  return { ...row, claim, isUser: isUser === true };
}
