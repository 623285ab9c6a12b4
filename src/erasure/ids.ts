import { and, eq, type SQL, sql } from "drizzle-orm";
import { alias, type SQLiteColumn } from "drizzle-orm/sqlite-core";
import { asInteger, computed, drizzle, fields, insertFrom, names, query, read, type ValueOf } from "../db/query.ts";
import { accounts, distinctIds, environments, erasureIds, erasures, tombstones } from "../db/schema.ts";
import type { RowsOf, Statement } from "../db/sql.ts";
import { type ErasureSecret, hashName } from "../db/tombstones/secret.ts";
import { guards } from "../db/views.ts";
import { jsonChunks } from "../lib/json.ts";
import type { PersonKey } from "../people/person-walk.ts";
import { claimCounts, isVerified, person, withPerson } from "../people/person-walk.ts";
import type { TenantCtx } from "../runtime.ts";
import { selectCountsOf } from "./counts.ts";
import { type ErasureKey, id, isIdOf } from "./ids-of-page.ts";
import { isErasure } from "./receipt.ts";
import { idsListedMax } from "./schemas.ts";

/** The most ids of a person. An export has the same limit. */
const IDS_MAX = 1_000_000;
/** How many of a larger person's ids are found at a time. */
const IDS_OF_PAGE_MAX = 5_000;

const other = alias(erasureIds, "other");
/** Whether no erasure has begun with an id. */
const isFree = ({ environmentId, distinctId }: Readonly<Record<"environmentId" | "distinctId", SQLiteColumn>>) =>
  sql`NOT EXISTS (
    SELECT 1 FROM ${erasureIds} AS ${other}
    WHERE ${other.environmentId} = ${environmentId} AND ${other.distinctId} = ${distinctId}
  )`;

/** The table that `withIds` makes, and its column as that of `person`. */
const ids = alias(distinctIds, "ids");
const isVerifiedId = sql`ids.verified`;

/** WITH: the person's ids, without those that another erasure has begun with. */
const withIds = (value: ValueOf<PersonKey>, idsMax: number): SQL =>
  sql`${withPerson(value, { idsMax })}, ${ids} AS (SELECT * FROM ${person} WHERE ${isFree(person)})`;

/** An id of the person. `isVerified`: whether verified claims alone reach it. */
const foundId = () => ({ ...fields(ids, "distinctId"), ...computed({ isVerified: isVerifiedId.mapWith(Boolean) }) });
export type FoundId = RowsOf<[ReturnType<typeof selectIds>]>[0][number];

/** The person's ids, nearest first: at most one more than are listed. */
export const selectIds = query((value: ValueOf<PersonKey>) =>
  read(foundId(), (list) => sql`${withIds(value, idsListedMax + 1)} SELECT ${list} FROM ${ids}`),
);

/** Those of some ids that are the person's. */
export const selectIdsAmong = query((value: ValueOf<PersonKey & { ids: string }>) =>
  read(
    foundId(),
    (list) => sql`${withIds(value, IDS_MAX)}
      SELECT ${list} FROM ${ids} WHERE ${ids.distinctId} IN (SELECT value FROM json_each(${value("ids")}))`,
  ),
);

/**
 * How many they are, and what is held about them, as JSON. With `given`, a JSON list, ids that it does not name and that verified
 * claims alone do not reach are left out.
 */
export const selectCounts = query((value: ValueOf<PersonKey & { given: string | null }>) => {
  const isGiven = sql`(
    ${value("given")} IS NULL OR ${ids.distinctId} IN (SELECT value FROM json_each(${value("given")}))
  )`;
  return read(
    computed({
      ids: sql<number>`(SELECT count(*) FROM erased)`,
      counts: sql<string>`(${selectCountsOf(sql`erased`)})`,
    }),
    (list) => sql`${withIds(value, IDS_MAX)},
      erased AS (SELECT * FROM ${ids} WHERE ${isVerifiedId} = 1 OR ${isGiven}) SELECT ${list}`,
  );
});

/** Ids that those of an erasure claim, by claims that count, and that it does not have yet. */
export const selectMoreIds = query((value: ValueOf<ErasureKey>) =>
  drizzle
    .select(fields(distinctIds, { distinctId: "distinctId", isVerified: "claimIsVerified" }))
    .from(sql`${erasureIds} CROSS JOIN ${distinctIds} INDEXED BY distinct_ids_claimed_by`)
    .where(
      and(
        isIdOf(value),
        eq(distinctIds.environmentId, erasureIds.environmentId),
        eq(distinctIds.claimedBy, erasureIds.distinctId),
        sql`${distinctIds.claimedBy} IS NOT NULL AND ${claimCounts(distinctIds)} AND ${isFree(distinctIds)}`,
      ),
    )
    .limit(IDS_OF_PAGE_MAX),
);

type Rows = ErasureKey & { rows: string };

/** A row is [id, hash, pseudonym, blocks]. Whoever found the ids first has them: the others abort with `erasure_ids_kept`. */
const insertIds = query((value: ValueOf<Rows>) => {
  const distinctId = sql`item.value ->> 0`;
  const account = and(
    eq(accounts.environmentId, value("environmentId")),
    eq(accounts.userId, distinctId),
    eq(accounts.isErased, 0),
  );
  const last = sql`SELECT max(${erasureIds.position}) FROM ${erasureIds} WHERE ${isIdOf(value)}`;
  return insertFrom(
    erasureIds,
    {
      environmentId: asInteger(value("environmentId")),
      erasureId: value("erasureId"),
      position: sql`begun.upto + item.key`,
      distinctId,
      hash: sql`item.value ->> 1`,
      pseudonym: sql`item.value ->> 2`,
      blocks: sql`item.value ->> 3`,
      accountId: sql`(SELECT ${accounts.id} FROM ${accounts} WHERE ${account})`,
    },
    sql`FROM (SELECT coalesce((${last}), -1) + 1 AS upto) AS begun CROSS JOIN json_each(${value("rows")}) AS item`,
  );
});

/** FROM: the ids that have just been found: those without a tombstone. */
const idsOfErasure = sql`${erasureIds} AS ${id}`;
const isNew = (value: ValueOf<ErasureKey>) =>
  sql`${id.environmentId} = ${value("environmentId")} AND ${id.erasureId} = ${value("erasureId")} AND NOT EXISTS (
    SELECT 1 FROM ${tombstones} WHERE ${tombstones.environmentId} = ${id.environmentId} AND ${tombstones.hash} = ${id.hash}
  )`;

const addCounts = query((value: ValueOf<ErasureKey>) => {
  const counts = selectCountsOf(sql`(SELECT * FROM ${idsOfErasure} WHERE ${isNew(value)})`);
  return drizzle
    .update(erasures)
    .set({
      counts: sql`json_insert(${erasures.counts}, '$[#]', json((${counts})))`,
      idCount: sql`(SELECT count(*) FROM ${erasureIds} WHERE ${isIdOf(value)})`,
    })
    .where(isErasure(value));
});

const renameAccounts = query((value: ValueOf<ErasureKey>) =>
  drizzle
    .update(accounts)
    .set({ userId: sql`${id.pseudonym}`, isErased: 1 })
    .from(id)
    .where(and(eq(accounts.id, id.accountId), isNew(value))),
);

const insertTombstones = query((value: ValueOf<ErasureKey>) => {
  const { environmentId, hash, erasureId, blocks } = id;
  return insertFrom(
    tombstones,
    { environmentId, hash, erasureId, blocks },
    sql`FROM ${idsOfErasure} WHERE ${isNew(value)}`,
  );
});

/** Ends the tombstones of an earlier erasure that only cut: the ids are erased again. */
const endCuts = query((value: ValueOf<Rows>) =>
  drizzle
    .delete(tombstones)
    .where(
      and(
        eq(tombstones.blocks, 0),
        eq(tombstones.environmentId, value("environmentId")),
        sql`${tombstones.hash} IN (SELECT item.value ->> 1 FROM json_each(${value("rows")}) AS item)`,
      ),
    ),
);

/**
 * Counts as a lift does: ids that only cut may begin anew, and an isolate would go on with what it remembers of them from before.
 */
const countLift = query((value: ValueOf<{ environmentId: number }>) => {
  const { features } = environments;
  const lifts = sql`coalesce(${features} ->> '$.lifts', 0) + 1`;
  return drizzle
    .update(environments)
    .set({ features: sql`json_set(coalesce(${features}, '{}'), '$.lifts', ${lifts})` })
    .where(eq(environments.id, value("environmentId")));
});

/** An id with which an erasure begins, and whether its tombstone blocks (E4). */
export interface BegunId {
  readonly distinctId: string;
  readonly blocks: boolean;
}

/**
 * The statements that begin with ids: what is held about them is counted, their accounts lose their names, and their tombstones
 * stand. From then on nothing is written for them. `check` follows when the ids are there.
 */
export async function beginIds(
  ctx: TenantCtx,
  secret: ErasureSecret,
  erasureId: string,
  ids: readonly BegunId[],
  check: readonly Statement[] = [],
): Promise<Statement[]> {
  const key = { environmentId: ctx.environment.id, erasureId };
  const rows: (string | number)[][] = [];
  for (const { distinctId, blocks } of ids) {
    const hash = await hashName(secret, ctx.environment, "id", distinctId);
    rows.push([distinctId, hash, ctx.newId("erased_"), Number(blocks)]);
  }
  const chunks = jsonChunks(rows);
  return [
    ...chunks.map((chunk) => endCuts({ ...key, rows: chunk })),
    ...chunks.map((chunk) => insertIds({ ...key, rows: chunk })),
    ...check,
    addCounts(key),
    renameAccounts(key),
    insertTombstones(key),
    ...(ids.every(({ blocks }) => blocks) ? [] : [countLift(key)]),
  ];
}

/**
 * Aborts the batch with `guard_people` where the person's ids are no longer those that the erasure begins with. With `leavesOut` others
 * may be there that verified claims alone do not reach.
 */
export const guardIds = query((value: ValueOf<PersonKey & ErasureKey & { leavesOut: number }>) => {
  const own = alias(erasureIds, "own");
  const isOther = and(
    sql`(${isVerified} = 1 OR ${value("leavesOut")} = 0)`,
    sql`${person.distinctId} NOT IN (SELECT ${own.distinctId} FROM ${own})`,
    isFree(person),
  );
  const holds = sql`(${withPerson(value, { idsMax: idsListedMax + 1 })},
    ${own} (${names(own.distinctId)}) AS (SELECT ${erasureIds.distinctId} FROM ${erasureIds} WHERE ${isIdOf(value)})
    SELECT NOT EXISTS (SELECT 1 FROM ${person} WHERE ${isOther}) AND NOT EXISTS (
      SELECT 1 FROM ${own} WHERE ${own.distinctId} NOT IN (SELECT ${person.distinctId} FROM ${person})
    )
  )`;
  return insertFrom(guards, { name: sql`'people'`, holds }, sql``);
});
