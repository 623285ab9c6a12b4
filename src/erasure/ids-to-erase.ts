import { and, eq, type SQL, sql } from "drizzle-orm";
import { alias, type SQLiteColumn } from "drizzle-orm/sqlite-core";
import { computed, drizzle, fields, insertFrom, names, query, read, type ValueOf } from "../db/query.ts";
import { distinctIds, erasureIds } from "../db/schema.ts";
import type { StatementRow } from "../db/sql.ts";
import { guards } from "../db/views.ts";
import { claimCounts, isVerified, type PersonKey, personTable, withPerson } from "../people/person-walk.ts";
import { selectCountsOf } from "./counts.ts";
import { type ErasureKey, isIdOf } from "./page-rows.ts";

/** The most ids in a response's list and in a request. */
export const LISTED_IDS_MAX = 10_000;

/** The most ids of a person. An export has the same limit. */
const ERASED_IDS_MAX = 1_000_000;
/** How many of a larger person's ids are found at a time. */
const IDS_OF_PAGE_MAX = 5_000;

const other = alias(erasureIds, "other");
/** SQL: whether no running erasure has an id. */
const isNotBeingErased = ({
  environmentId,
  distinctId,
}: Readonly<Record<"environmentId" | "distinctId", SQLiteColumn>>) =>
  sql`NOT EXISTS (
    SELECT 1 FROM ${erasureIds} AS ${other}
    WHERE ${other.environmentId} = ${environmentId} AND ${other.distinctId} = ${distinctId}
  )`;

/** The table that `withIds` defines, and its column that `person` has too. */
const idsTable = alias(distinctIds, "ids");
const isVerifiedId = sql`ids.verified`;

/** WITH: the person's ids, without ids that another erasure erases. */
const withIds = (value: ValueOf<PersonKey>, idsMax: number): SQL =>
  sql`${withPerson(value, { idsMax })}, ${idsTable} AS (SELECT * FROM ${personTable} WHERE ${isNotBeingErased(personTable)})`;

/** An id of the person. `isVerified`: whether only verified claims lead to it. */
const foundId = () => ({
  ...fields(idsTable, "distinctId"),
  ...computed({ isVerified: isVerifiedId.mapWith(Boolean) }),
});
export type FoundId = StatementRow<typeof selectIds>;

/** The person's ids, nearest first: at most one more than a response lists. */
export const selectIds = query((value: ValueOf<PersonKey>) =>
  read(foundId(), (list) => sql`${withIds(value, LISTED_IDS_MAX + 1)} SELECT ${list} FROM ${idsTable}`),
);

/** The ids of the value `ids` that belong to the person. */
export const selectIdsAmong = query((value: ValueOf<PersonKey & { ids: string }>) =>
  read(
    foundId(),
    (list) => sql`${withIds(value, ERASED_IDS_MAX)}
      SELECT ${list} FROM ${idsTable} WHERE ${idsTable.distinctId} IN (SELECT value FROM json_each(${value("ids")}))`,
  ),
);

/**
 * The number of the person's ids, and the counts of their data as JSON. With `expectedIds`, a JSON list, it leaves out ids that are
 * not in the list and that only unverified claims reach.
 */
export const selectCounts = query((value: ValueOf<PersonKey & { expectedIds: string | null }>) => {
  const isExpected = sql`(
    ${value("expectedIds")} IS NULL OR ${idsTable.distinctId} IN (SELECT value FROM json_each(${value("expectedIds")}))
  )`;
  return read(
    computed({
      ids: sql<number>`(SELECT count(*) FROM erased)`,
      counts: sql<string>`(${selectCountsOf(sql`erased`)})`,
    }),
    (list) => sql`${withIds(value, ERASED_IDS_MAX)},
      erased AS (SELECT * FROM ${idsTable} WHERE ${isVerifiedId} = 1 OR ${isExpected}) SELECT ${list}`,
  );
});

/** Further ids of the person: the ids of an erasure claim them by claims that count. */
export const selectMoreIds = query((value: ValueOf<ErasureKey>) =>
  drizzle
    .select(fields(distinctIds, { distinctId: "distinctId", isVerified: "claimIsVerified" }))
    .from(sql`${erasureIds} CROSS JOIN ${distinctIds} INDEXED BY distinct_ids_claimed_by`)
    .where(
      and(
        isIdOf(value),
        eq(distinctIds.environmentId, erasureIds.environmentId),
        eq(distinctIds.claimedBy, erasureIds.distinctId),
        sql`${distinctIds.claimedBy} IS NOT NULL AND ${claimCounts(distinctIds)} AND ${isNotBeingErased(distinctIds)}`,
      ),
    )
    .limit(IDS_OF_PAGE_MAX),
);

/**
 * Aborts the batch with `guard_people` when the person's ids have changed since they were read. Further ids are allowed if only
 * unverified claims reach them: otherwise whoever holds the public key could delay the erasure.
 */
export const guardIds = query((value: ValueOf<PersonKey & ErasureKey>) => {
  const erased = alias(erasureIds, "own");
  const isOther = and(
    sql`${isVerified} = 1`,
    sql`${personTable.distinctId} NOT IN (SELECT ${erased.distinctId} FROM ${erased})`,
    isNotBeingErased(personTable),
  );
  const holds = sql`(${withPerson(value, { idsMax: LISTED_IDS_MAX + 1 })},
    ${erased} (${names(erased.distinctId)}) AS (SELECT ${erasureIds.distinctId} FROM ${erasureIds} WHERE ${isIdOf(value)})
    SELECT NOT EXISTS (SELECT 1 FROM ${personTable} WHERE ${isOther}) AND NOT EXISTS (
      SELECT 1 FROM ${erased} WHERE ${erased.distinctId} NOT IN (SELECT ${personTable.distinctId} FROM ${personTable})
    )
  )`;
  return insertFrom(guards, { name: sql`'people'`, holds }, sql``);
});
