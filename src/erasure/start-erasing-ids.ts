import { and, eq, type SQL, sql } from "drizzle-orm";
import { asInteger, drizzle, hasRow, insertFrom, query, type ValueOf } from "../db/query.ts";
import {
  accounts,
  consentLog,
  environments,
  erasureIds,
  erasures,
  exportAudit,
  members,
  tombstones,
} from "../db/schema.ts";
import { changeFeature } from "../db/settings-snapshot.ts";
import type { Statement } from "../db/sql.ts";
import { type ErasureSecret, hashForTombstones, hashName, tombstoneSecretsIn } from "../db/tombstones.ts";
import { jsonChunks } from "../lib/json.ts";
import type { TenantCtx } from "../runtime.ts";
import { selectCountsOf } from "./counts.ts";
import { type ErasureKey, id, isIdOf } from "./page-rows.ts";
import { isErasure } from "./receipt.ts";

type IdRows = ErasureKey & { rows: string };

/** A row is [id, hash, pseudonym, blocks]. If another batch took the ids first, this one aborts with `erasure_ids_kept`. */
const insertRows = (when: (value: ValueOf<IdRows>, distinctId: SQL) => SQL) =>
  query((value: ValueOf<IdRows>) => {
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
      sql`FROM (SELECT coalesce((${last}), -1) + 1 AS upto) AS begun CROSS JOIN json_each(${value("rows")}) AS item
      WHERE ${when(value, distinctId)}`,
    );
  });
const insertIds = insertRows(() => sql`1`);

/**
 * Adds the hash with another configured secret as an id, when an earlier, lifted erasure moved rows to it. They are then deleted, or
 * moved to the id's hash. This runs after the tombstones are inserted, so that such an id is neither counted nor has its own.
 */
const insertOtherHashes = insertRows((value, distinctId) => {
  const hasMoved = (table: typeof consentLog | typeof exportAudit) =>
    hasRow(table, and(eq(table.environmentId, value("environmentId")), eq(table.distinctId, distinctId)));
  return sql`(${hasMoved(consentLog)} OR ${hasMoved(exportAudit)})`;
});

const idsOfErasure = sql`${erasureIds} AS ${id}`;
/** SQL: whether an id of the erasure is new, so that it has no tombstone yet. */
const isNewId = (value: ValueOf<ErasureKey>) =>
  sql`${id.environmentId} = ${value("environmentId")} AND ${id.erasureId} = ${value("erasureId")} AND NOT EXISTS (
    SELECT 1 FROM ${tombstones} WHERE ${tombstones.environmentId} = ${id.environmentId} AND ${tombstones.hash} = ${id.hash}
  )`;

const addErasedCounts = query((value: ValueOf<ErasureKey>) => {
  const counts = selectCountsOf(sql`(SELECT * FROM ${idsOfErasure} WHERE ${isNewId(value)})`);
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
    .where(and(eq(accounts.id, id.accountId), isNewId(value))),
);

/** Gives each row of an erased member a pseudonym of its own, so that the usage with one payer is not joined with that of another (ME6). */
const renameMembers = query((value: ValueOf<ErasureKey>) =>
  drizzle
    .update(members)
    .set({ memberId: sql`'erased_' || lower(hex(randomblob(16)))`, isErased: 1 })
    .where(
      and(
        sql`(${members.environmentId}, ${members.memberId}) IN (
          SELECT ${id.environmentId}, ${id.distinctId} FROM ${idsOfErasure} WHERE ${isNewId(value)}
        )`,
        eq(members.isErased, 0),
      ),
    ),
);

const insertTombstones = query((value: ValueOf<ErasureKey>) => {
  const { environmentId, hash, erasureId, blocks } = id;
  return insertFrom(
    tombstones,
    { environmentId, hash, erasureId, blocks },
    sql`FROM ${idsOfErasure} WHERE ${isNewId(value)}`,
  );
});

/** Deletes the non-blocking tombstones of an earlier erasure, because the ids are erased again. */
const deleteNonBlockingAgain = query((value: ValueOf<{ environmentId: number; hashes: string }>) =>
  drizzle
    .delete(tombstones)
    .where(
      and(
        eq(tombstones.blocks, 0),
        eq(tombstones.environmentId, value("environmentId")),
        sql`${tombstones.hash} IN (SELECT value FROM json_each(${value("hashes")}))`,
      ),
    ),
);

/**
 * Increases the number of lifts, as a lift does. Ids whose tombstones do not block can be used again, so isolates must forget what
 * they remember about them.
 */
const countLift = query((value: ValueOf<{ environmentId: number }>) => {
  const { settingsSnapshot } = environments;
  const lifts = sql`coalesce(${settingsSnapshot} ->> '$.lifts', 0) + 1`;
  return drizzle
    .update(environments)
    .set({ settingsSnapshot: sql`json_set(coalesce(${settingsSnapshot}, '{}'), '$.lifts', ${lifts})` })
    .where(eq(environments.id, value("environmentId")));
});

/** An id that an erasure starts with, and whether its tombstone blocks (E4). */
export interface IdToErase {
  readonly distinctId: string;
  readonly blocks: boolean;
}

/**
 * Returns the statements that start erasing ids. They count the ids' data, remove the user ids from their accounts, and add the
 * tombstones, which reject writes. `check` runs after the ids are inserted.
 */
export async function startErasingIds(
  ctx: TenantCtx,
  secret: ErasureSecret,
  erasureId: string,
  ids: readonly IdToErase[],
  check: readonly Statement[] = [],
): Promise<Statement[]> {
  const key = { environmentId: ctx.environment.id, erasureId };
  const rows: (string | number)[][] = [];
  const otherHashes: (string | number)[][] = [];
  const hashes: string[] = [];
  for (const { distinctId, blocks } of ids) {
    const hash = await hashName(secret, ctx.environment, "id", distinctId);
    rows.push([distinctId, hash, ctx.newId("erased_"), Number(blocks)]);
    for (const other of await hashForTombstones(ctx, distinctId)) {
      hashes.push(other);
      if (other !== hash) otherHashes.push([other, hash, ctx.newId("erased_"), Number(blocks)]);
    }
  }
  const chunks = jsonChunks(rows);
  return [
    ...jsonChunks(hashes).map((chunk) => deleteNonBlockingAgain({ environmentId: key.environmentId, hashes: chunk })),
    ...chunks.map((chunk) => insertIds({ ...key, rows: chunk })),
    ...check,
    addErasedCounts(key),
    renameAccounts(key),
    renameMembers(key),
    insertTombstones(key),
    ...jsonChunks(otherHashes).map((chunk) => insertOtherHashes({ ...key, rows: chunk })),
    ...(ids.every(({ blocks }) => blocks) ? [] : [countLift(key)]),
  ];
}

/**
 * Returns the statement by which writes of the environment need a secret that hashes its tombstones from now on. None if they need it
 * already. Send it with a guard of the settings snapshot.
 */
export function requireTombstoneSecret(
  { environment }: Pick<TenantCtx, "environment">,
  settingsSnapshot: string | null,
  { fingerprint }: ErasureSecret,
): Statement[] {
  const fingerprints = tombstoneSecretsIn(settingsSnapshot);
  if (fingerprints.includes(fingerprint)) return [];
  return [changeFeature(environment.id, "tombstones", [...fingerprints, fingerprint])];
}
