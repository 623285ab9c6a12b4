import { type SQL, sql } from "drizzle-orm";
import type { SQLiteColumn } from "drizzle-orm/sqlite-core";
import { PACK_BYTES_MAX, type Pack } from "../../catalog/pack.ts";
import { computed, fields, names, query, read, type ValueOf } from "../../db/query.ts";
import { creditPackItems, creditPacks, environments, recurringGrants } from "../../db/schema.ts";
import type { StatementRow } from "../../db/sql.ts";
import { accountQuery } from "./account.ts";
import { quotaOf, type Reader } from "./new-balances.ts";
import { NO_PERIODS, type PeriodPlan, planPeriods, type Recurring } from "./plan-periods.ts";

/** Returns a condition: the next period of a recurring grant of the account has begun. It repeats the condition of the partial index. */
export const hasBegun = (value: ValueOf<{ nowMs: number }>, account: SQL | SQLiteColumn): SQL =>
  sql`${recurringGrants.accountId} = ${account} AND ${recurringGrants.nextAtMs} IS NOT NULL
    AND ${recurringGrants.nextAtMs} <= ${value("nowMs")}`;

/** The pack of a row of `recurringGrants` with its items, as JSON. The rules are not text within it, whose quotes would double its size. */
export const packJson = () => sql<string | null>`(
  SELECT json_object('id', ${creditPacks.id}, 'packNumber', ${creditPacks.packNumber}, 'name', ${creditPacks.name}, 'defaultExpiryDays', ${creditPacks.defaultExpiryDays},
    'unit', ${creditPacks.unit}, 'matches', json(${creditPacks.matches}), 'priority', ${creditPacks.priority},
    'archivedAtMs', ${creditPacks.archivedAtMs}, 'items', (
      SELECT json_group_array(json_object('id', ${creditPackItems.id}, 'itemNumber', ${creditPackItems.itemNumber}, 'amountMinor', ${creditPackItems.amountMinor},
        'unit', ${creditPackItems.unit}, 'matches', json(${creditPackItems.matches}), 'priority', ${creditPackItems.priority}
      ) ORDER BY ${creditPackItems.position})
      FROM ${creditPackItems}
      WHERE ${creditPackItems.appId} = ${creditPacks.appId} AND ${creditPackItems.packId} = ${creditPacks.id}
    ))
  FROM ${environments} CROSS JOIN ${creditPacks}
  WHERE ${environments.id} = ${recurringGrants.environmentId}
    AND ${creditPacks.appId} = ${environments.appId} AND ${creditPacks.id} = ${recurringGrants.packId}
)`;

type WithRules<Row> = Omit<Row, "matches"> & { readonly matches: readonly unknown[] };
type PackJson = WithRules<Pack> & { readonly items: readonly WithRules<Pack["items"][number]>[] };

/** Reads the JSON of `packJson`. Null when there is no pack. */
export function readPackJson(stored: PackJson | string | null): Pack | null {
  const pack = typeof stored === "string" ? (JSON.parse(stored) as PackJson) : stored;
  if (pack === null) return null;
  // Rules are stored as JSON.stringify writes them.
  const withText = <Row extends { readonly matches: readonly unknown[] }>(row: Row) => ({
    ...row,
    matches: JSON.stringify(row.matches),
  });
  return { ...withText(pack), items: pack.items.map(withText) };
}

/** The fields of a recurring grant that the plan of its periods needs. */
const RECURRING_FIELDS = [
  ...(["ordinal", "id", "packId", "quantity", "every", "anchorMs", "endsAtMs", "rolloverPeriods"] as const),
  ...(["timeZone", "anchorLocalMs", "utcOffsetMs"] as const),
  ...(["idSeed", "state", "lastN", "countedBalances"] as const),
] as const;

const dueOfAccount = (value: ValueOf<{ nowMs: number }>, account: SQL | SQLiteColumn) =>
  sql`${recurringGrants} INDEXED BY recurring_grants_due WHERE ${hasBegun(value, account)}`;

/** The environment's test balances, for a row of `recurringGrants`. */
const usedOfQuota = () =>
  sql<number>`(SELECT ${environments.testBalanceCount} FROM ${environments} WHERE ${environments.id} = ${recurringGrants.environmentId})`;

/** The most bytes of packs in one value of a read. D1 takes 2 MB, and one pack, or what else is read of 100 grants, adds less than half. */
const PACK_BYTES_A_READ_MAX = 700_000;

/**
 * Returns SQL for an account's recurring grants with a due period, as JSON for `readDueJson`. Null when there are none. Has the packs
 * of the first grants to become due: at least one, and as many as fit into a value. The other grants are left for the next batch.
 */
export const dueRecurring = (value: ValueOf<{ nowMs: number }>, account: SQL | SQLiteColumn) => {
  const columns = RECURRING_FIELDS.map((name) => sql`${name}, due.${names(recurringGrants[name])}`);
  const { nextAtMs, ordinal } = recurringGrants;
  return sql<string | null>`(
    SELECT iif(count(*) = 0, NULL, json_object('used', max(due.used), 'rows', json_group_array(json_object(
      ${sql.join(columns, sql`, `)}, 'isLeft', due.total > ${PACK_BYTES_A_READ_MAX} AND due.place > 1,
      'pack', json(iif(due.total > ${PACK_BYTES_A_READ_MAX} AND due.place > 1, NULL, due.pack))
    ))))
    FROM (
      SELECT *, sum(octet_length(pack)) OVER (ORDER BY ${names(nextAtMs)}, ${names(ordinal)}) AS total,
        row_number() OVER (ORDER BY ${names(nextAtMs)}, ${names(ordinal)}) AS place
      FROM (SELECT ${recurringGrants}.*, ${usedOfQuota()} AS used, ${packJson()} AS pack FROM ${dueOfAccount(value, account)})
    ) AS due
  )`;
};

type DueJson = {
  readonly used: number;
  readonly rows: readonly (Recurring & { readonly isLeft: 0 | 1; readonly pack: PackJson | null })[];
};

/** Returns the plan of one batch for the JSON of `dueRecurring`. */
export function readDueJson(ctx: Reader, stored: string | null, nowMs: number): PeriodPlan {
  if (stored === null) return NO_PERIODS;
  const { used, rows } = JSON.parse(stored) as DueJson;
  const recurring = rows.map((row) => ({ ...row, isLeft: row.isLeft === 1, pack: readPackJson(row.pack) }));
  return planPeriods(ctx.environment, recurring, { nowMs, quota: quotaOf(ctx, used) });
}

/** Selects a user's due periods, for reads that show them as granted: a row for each recurring grant. */
export const selectDuePeriods = accountQuery((value: ValueOf<{ nowMs: number }>, account) =>
  read(
    { ...fields(recurringGrants, ...RECURRING_FIELDS), ...computed({ used: usedOfQuota(), pack: packJson() }) },
    (list) => sql`SELECT ${list} FROM ${dueOfAccount(value, account)}`,
  ),
);

/** Returns the plan of all due periods for the rows of `selectDuePeriods`. */
export function readDuePeriods(
  ctx: Reader,
  rows: readonly StatementRow<typeof selectDuePeriods>[],
  nowMs: number,
): PeriodPlan {
  const recurring = rows.map((row) => ({ ...row, pack: readPackJson(row.pack) }));
  return planPeriods(ctx.environment, recurring, { nowMs, quota: quotaOf(ctx, rows[0]?.used ?? 0), isWhole: true });
}

type DueOfMany = { accountIds: string; nowMs: number };
const dueOfMany = (value: ValueOf<DueOfMany>) => sql`json_each(${value("accountIds")}) AS due
  CROSS JOIN ${dueOfAccount(value, sql`due.value`)}`;

/** Selects the recurring grants with a due period of several accounts, without their packs. */
export const selectDueOfMany = query((value: ValueOf<DueOfMany>) =>
  read(
    fields(recurringGrants, "accountId", ...RECURRING_FIELDS),
    (list) => sql`SELECT ${list} FROM ${dueOfMany(value)}`,
  ),
);

const PACKS_OF_MANY_MAX = 100;
/** Selects packs of these grants: not the very large ones of earlier versions, and a bounded number. */
export const selectPacksOfMany = query((value: ValueOf<DueOfMany>) => {
  const { environmentId, packId } = recurringGrants;
  return read(
    computed({ packId: sql<string>`pack.ref`, pack: sql<string>`pack.json` }),
    (list) => sql`SELECT ${list} FROM (
      SELECT ${packId} AS ref, ${packJson()} AS json FROM (
        SELECT DISTINCT ${environmentId}, ${packId} FROM ${dueOfMany(value)} LIMIT ${PACKS_OF_MANY_MAX}
      ) AS ${recurringGrants}
    ) AS pack WHERE octet_length(pack.json) <= ${2 * PACK_BYTES_MAX}`,
  );
});
