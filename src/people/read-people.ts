import { type Placeholder, type SQL, sql } from "drizzle-orm";
import { alias, type SQLiteColumn } from "drizzle-orm/sqlite-core";
import { computed, fields, names, query, read, type ValueOf } from "../db/query.ts";
import { accounts, consentLog, distinctIds, idProperties } from "../db/schema.ts";
import type { Statement } from "../db/sql.ts";
import { jsonChunks } from "../lib/json.ts";
import type { TenantCtx } from "../runtime.ts";
import { type ClaimRecord, needsStoredPeople, type PersonEvent } from "./claims.ts";
import { changesProperties, ID_PROPERTIES_BYTES_MAX } from "./id-properties.ts";
import type { StoredPeople } from "./plan-people.ts";

type SqlPart = SQL | SQLiteColumn | Placeholder;

/**
 * SQL: whether an id is a user (P2): its record says so (`isMarked`), or it has an account or an own consent. This costs two more
 * index look-ups.
 */
export const isUserBy = (environmentId: SqlPart, distinctId: SqlPart, isMarked: SqlPart): SQL<boolean> =>
  sql<boolean>`(coalesce(${isMarked}, 0) = 1 OR ${hasAccount(environmentId, distinctId)}
    OR ${hasOwnConsent(environmentId, distinctId)})`;

/** SQL: whether an id has an account: it has credits, usage or refusals, or is known to Stripe. */
export const hasAccount = (environmentId: SqlPart, distinctId: SqlPart): SQL =>
  sql`EXISTS (
    SELECT 1 FROM ${accounts} WHERE ${accounts.environmentId} = ${environmentId} AND ${accounts.userId} = ${distinctId}
  )`;

/** SQL: whether an id has a consent that does not belong to an anonymous device. */
export const hasOwnConsent = (environmentId: SqlPart, distinctId: SqlPart): SQL =>
  sql`EXISTS (
    SELECT 1 FROM ${consentLog} INDEXED BY consent_log_of_user
    WHERE ${consentLog.environmentId} = ${environmentId} AND ${consentLog.distinctId} = ${distinctId}
      AND ${consentLog.isDevice} = 0
  )`;

type LinkedIds = { environmentId: number; ids: string };

interface ClaimRow {
  readonly distinctId: string;
  readonly claimedBy: string | null;
  readonly isVerified: boolean;
  readonly version: number;
  /** Null for an id that is read only because it claims a linked id. */
  readonly isUser: boolean | null;
  readonly claimsMade: number;
}
interface PropertiesRow {
  readonly distinctId: string;
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

/** The ids that events link, stored or not. */
const linkedIds = query((value: ValueOf<LinkedIds>) => {
  const isUser = isUserBy(value("environmentId"), sql`i.value`, distinctIds.isUser).mapWith(toBoolean);
  return read(
    { ...computed({ distinctId: sql<string>`i.value` }), ...claimFields(), ...computed({ isUser }) },
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
    { ...fields(distinctIds, "distinctId"), ...claimFields(), ...computed({ isUser: sql<null>`NULL` }) },
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

const propertiesOfIds = query((value: ValueOf<LinkedIds>) =>
  read(
    fields(idProperties, "distinctId", "properties", "version"),
    (list) => sql`
      SELECT ${list} FROM json_each(${value("ids")}) AS i CROSS JOIN ${idProperties}
      WHERE ${idProperties.environmentId} = ${value("environmentId")} AND ${idProperties.distinctId} = i.value`,
  ),
);

/** The most bytes of properties that are read at a time. */
const READ_PROPERTIES_BYTES_MAX = 2 * 1024 * 1024;
/** The properties of this many ids always fit into a read. */
const READ_PROPERTIES_IDS = READ_PROPERTIES_BYTES_MAX / ID_PROPERTIES_BYTES_MAX;

/** The properties of the first ids, up to `READ_PROPERTIES_BYTES_MAX`. */
const propertiesWithin = query((value: ValueOf<LinkedIds>) => {
  const [o, p] = [alias(idProperties, "own"), idProperties];
  const sizes = sql`
    SELECT i.value AS owner, sum(octet_length(${o.properties})) OVER (ORDER BY i.key) AS size
    FROM json_each(${value("ids")}) AS i CROSS JOIN ${idProperties} AS ${o}
    WHERE ${o.environmentId} = ${value("environmentId")} AND ${o.distinctId} = i.value`;
  return read(
    {
      ...fields(p, "distinctId", "version"),
      ...computed({
        properties: sql<string | null>`iif(s.size <= ${READ_PROPERTIES_BYTES_MAX}, ${p.properties}, NULL)`,
      }),
    },
    (list) => sql`
      SELECT ${list} FROM (${sizes}) AS s CROSS JOIN ${p}
      WHERE ${p.environmentId} = ${value("environmentId")} AND ${p.distinctId} = s.owner`,
  );
});

/**
 * Returns the statements that read the input of `planPeople`. Their cost grows with the number of events and, with a secret key, of
 * the ids that claim the events' ids.
 */
export function peopleReads(ctx: TenantCtx, events: readonly PersonEvent[]): Statement<PeopleRow>[] {
  const environmentId = ctx.environment.id;
  const linked = new Set<string>();
  const changing = new Set<string>();
  for (const event of events) {
    if (!needsStoredPeople(event)) continue;
    if (changesProperties(event)) changing.add(event.distinctId);
    if (event.link !== null) linked.add(event.distinctId).add(event.link.otherId);
  }
  const claims = jsonChunks([...linked]).flatMap((ids) => [
    linkedIds({ environmentId, ids }),
    ...(ctx.caller.kind === "secret" ? [idsAbove({ environmentId, ids })] : []),
  ]);
  const properties = changing.size > READ_PROPERTIES_IDS ? propertiesWithin : propertiesOfIds;
  return [...claims, ...jsonChunks([...changing]).map((ids) => properties({ environmentId, ids }))];
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

function claimRecord({ distinctId, claimedBy, isVerified, version, isUser, claimsMade }: ClaimRow): ClaimRecord {
  const claim = claimedBy === null ? null : { by: claimedBy, isVerified };
  return { distinctId, claim, version, isUser: isUser === true, claimsMade };
}
