import { and, count, eq, gt, type SQL, sql } from "drizzle-orm";
import type { SQLiteColumn } from "drizzle-orm/sqlite-core";
import { boundLimit, computed, drizzle, fields, query, type ValueOf } from "../../db/query.ts";
import { accounts, environments, recurringGrants } from "../../db/schema.ts";
import { all } from "../../db/sql.ts";
import { PurserError } from "../../errors.ts";
import { iso } from "../../lib/time.ts";
import type { TenantCtx } from "../../runtime.ts";
import { accountQuery } from "../ledger/account.ts";
import { type Every, lastPeriod, periodAt, periodStart } from "../ledger/calendar.ts";
import { packJson, readPackJson } from "../ledger/due-periods.ts";
import { quotaOf } from "../ledger/new-balances.ts";
import { afterPeriod, duePeriods, planPeriods, type RecurringChange } from "../ledger/plan-periods.ts";

export interface RecurringOutput {
  readonly recurringId: string;
  readonly userId: string;
  readonly packId: string;
  readonly packName: string;
  readonly quantity: number | null;
  readonly every: Every;
  readonly startsAt: string;
  readonly endsAt: string | null;
  readonly rolloverPeriods: number | null;
  readonly timeZone: string;
  readonly status: "active" | "ended" | "suspended";
  readonly reason: string | null;
  readonly period: { readonly n: number; readonly from: string; readonly to: string } | null;
  readonly nextAt: string | null;
  readonly createdAt: string;
}

export interface RecurringListOutput {
  readonly recurring: RecurringOutput[];
}

export type StoredRecurring = typeof recurringGrants.$inferSelect;

/** Selects a recurring grant with its pack. */
const selectById = query((value: ValueOf<{ environmentId: number; recurringId: string }>) => {
  const { environmentId, id } = recurringGrants;
  return drizzle
    .select({ ...fields(recurringGrants), ...computed({ pack: packJson() }) })
    .from(recurringGrants)
    .where(and(eq(environmentId, value("environmentId")), eq(id, value("recurringId"))));
});

/** Selects the recurring grant with an id: at most one row. */
export const selectRecurring = (ctx: TenantCtx, recurringId: string) =>
  selectById({ environmentId: ctx.environment.id, recurringId });

export const recurringNotFound = () =>
  new PurserError(
    "not_found",
    "The application has no such recurring grant in this mode. Ids are compared exactly, and begin with `rec_`.",
    { param: "recurringId" },
  );

/** The most recurring grants of a user that have not ended (R5). */
const RECURRING_MAX = 100;

export function tooManyRecurring(): PurserError {
  const message = `A user has at most ${RECURRING_MAX} recurring grants that have not ended. Cancel one, or create one of a larger pack.`;
  return new PurserError("invalid_request", message, { param: "userId", details: { limit: RECURRING_MAX } });
}

const selectOfUser = accountQuery((value: ValueOf<{ nowMs: number }>, account) => {
  const hasBegun = sql`${recurringGrants.nextAtMs} <= ${value("nowMs")}`;
  const { testBalanceCount, id } = environments;
  const used = sql`(SELECT ${testBalanceCount} FROM ${environments} WHERE ${id} = ${recurringGrants.environmentId})`;
  return drizzle
    .select({
      ...fields(recurringGrants),
      ...computed({
        duePack: sql<string | null>`iif(${hasBegun}, ${packJson()}, NULL)`,
        used: sql<number | null>`iif(${hasBegun}, ${used}, NULL)`,
      }),
    })
    .from(recurringGrants)
    .where(eq(recurringGrants.accountId, account))
    .orderBy(recurringGrants.ordinal);
});

/** Returns a user's recurring grants, including ended ones, as if due periods were granted now (R4). An unknown user has none. */
export async function listRecurring(ctx: TenantCtx, { userId }: { userId: string }): Promise<RecurringListOutput> {
  const nowMs = ctx.now();
  const rows = await all(ctx.db, selectOfUser(ctx, { userId }, { nowMs }));
  const due = rows.flatMap(({ duePack, used, ...row }) =>
    used === null ? [] : [{ ...row, pack: readPackJson(duePack) }],
  );
  const quota = quotaOf(ctx, rows.find(({ used }) => used !== null)?.used ?? 0);
  const { changes } = planPeriods(ctx.environment, due, { nowMs, quota, isWhole: true });
  return { recurring: rows.map((row) => presentRecurring(userId, withChange(row, changes), nowMs)) };
}

/** The most recurring grants of a pack that are counted. */
export const COUNTED_RECURRING_MAX = 1_000;

const selectCount = query((value: ValueOf<{ environmentId: number; packId: string }>) => {
  const { environmentId, packId, state } = recurringGrants;
  const activeRows = drizzle
    .select(computed({ isActive: sql<1>`1` }))
    .from(recurringGrants)
    .where(and(eq(environmentId, value("environmentId")), eq(packId, value("packId")), sql`${state} = 'active'`))
    .limit(COUNTED_RECURRING_MAX + 1);
  return drizzle.select(computed({ count: count() })).from(sql`${activeRows}`);
});

/** Returns the number of a pack's active recurring grants in one mode, at most one more than `COUNTED_RECURRING_MAX`. */
export async function countRecurring({ db, environment }: TenantCtx, packId: string): Promise<number> {
  const [row] = await all(db, selectCount({ environmentId: environment.id, packId }));
  return row?.count ?? 0;
}

type SuspendedPage = { environmentId: number; after: string; limit: number };
const buildSuspendedPage = (value: ValueOf<SuspendedPage>) => {
  const { environmentId, id, accountId, state } = recurringGrants;
  return drizzle
    .select({ ...fields(accounts, "userId"), ...fields(recurringGrants) })
    .from(sql`${recurringGrants} INDEXED BY recurring_grants_suspended`)
    .crossJoin(accounts)
    .where(
      and(
        eq(environmentId, value("environmentId")),
        eq(state, "suspended"),
        gt(id, value("after")),
        eq(accounts.id, accountId),
        eq(accounts.isErased, 0),
      ),
    )
    .orderBy(id)
    .limit(boundLimit(value("limit")));
};
const selectSuspended = query(buildSuspendedPage);
const countSuspendedRows = query((value: ValueOf<SuspendedPage>) =>
  drizzle.select(computed({ count: count() })).from(sql`${buildSuspendedPage(value)}`),
);

/** The most suspended recurring grants that are counted. */
export const COUNTED_SUSPENDED_MAX = 100;

/** Returns how many recurring grants are suspended, at most one more than `COUNTED_SUSPENDED_MAX`. */
export async function countSuspended({ db, environment }: TenantCtx): Promise<number> {
  const limit = COUNTED_SUSPENDED_MAX + 1;
  const [row] = await all(db, countSuspendedRows({ environmentId: environment.id, after: "", limit }));
  return row?.count ?? 0;
}

/** Returns the suspended recurring grants of all users, by id. A grant is suspended only when its due period is to be granted. */
export async function listSuspended(
  ctx: TenantCtx,
  page: { after: string; limit: number },
): Promise<RecurringOutput[]> {
  const rows = await all(ctx.db, selectSuspended({ environmentId: ctx.environment.id, ...page }));
  return rows.map(({ userId, ...row }) => presentRecurring(userId, row, ctx.now()));
}

/** The fields of a recurring grant that the API shows. */
const SHOWN_FIELDS = [
  ...(["id", "packId", "packName", "quantity", "every", "anchorMs", "endsAtMs", "rolloverPeriods"] as const),
  ...(["timeZone", "anchorLocalMs", "utcOffsetMs"] as const),
  ...(["state", "reason", "nextAtMs", "finalN", "createdAtMs"] as const),
] as const;
type ShownRecurring = Pick<StoredRecurring, (typeof SHOWN_FIELDS)[number]>;

/** The most bytes of the recurring grants of an account in one value. D1 takes 2 MB for a row, and a person's row has properties too. */
const JSON_BYTES_MAX = 1_500_000;
/** More than the names and the numbers of one in JSON. */
const ROW_BYTES = 440;

/** Returns SQL: at least the bytes of `recurringJson` of a row of `accounts`. JSON at most doubles a name. */
export const recurringBytes = () => {
  const { id, packId, packName, timeZone, accountId } = recurringGrants;
  const bytesOf = (name: SQL | SQLiteColumn) => sql`2 * octet_length(${name})`;
  return sql<number>`coalesce((
    SELECT sum(${ROW_BYTES} + ${bytesOf(id)} + ${bytesOf(packId)} + ${bytesOf(packName)} + ${bytesOf(timeZone)} + ${bytesOf(accounts.userId)})
    FROM ${recurringGrants} WHERE ${accountId} = ${accounts.id}
  ), 0)`;
};

/** Returns SQL: whether the recurring grants of a row of `accounts` are too many for `recurringJson`. */
export const hasTooManyRecurring = () => sql<0 | 1>`(${recurringBytes()} > ${JSON_BYTES_MAX})`;

/**
 * Returns SQL for the recurring grants of a row of `accounts`, as JSON for `presentRecurringJson`. Null when there are none, or too
 * many.
 */
export const recurringJson = () => {
  const columns = SHOWN_FIELDS.map((name) => sql`${name}, ${recurringGrants[name]}`);
  const row = sql`json_object('userId', ${accounts.userId}, ${sql.join(columns, sql`, `)})`;
  // Without an account, the query reads no row.
  return sql<string | null>`iif(${accounts.id} IS NULL OR ${hasTooManyRecurring()}, NULL, (
    SELECT iif(count(*) = 0, NULL, json_group_array(${row} ORDER BY ${recurringGrants.ordinal}))
    FROM ${recurringGrants} WHERE ${recurringGrants.accountId} = ${accounts.id}
  ))`;
};

/** Returns the recurring grants of several `recurringJson` lists, joined by commas, as the API returns them. Ignores due periods. */
export function presentRecurringJson(stored: string, nowMs: number): RecurringOutput[] {
  const lists = JSON.parse(`[${stored}]`) as readonly (readonly (ShownRecurring & { readonly userId: string })[])[];
  return lists.flat().map((row) => presentRecurring(row.userId, row, nowMs));
}

/** Returns a recurring grant after its planned change, if it has one. */
export function withChange<Row extends StoredRecurring>(row: Row, changes: readonly RecurringChange[]): Row {
  const change = changes.find(({ ordinal }) => ordinal === row.ordinal);
  if (change === undefined) return row;
  const { lastN, state, reason, nextAtMs, utcOffsetMs, countedBalances } = change;
  return { ...row, lastN, state, reason, nextAtMs, utcOffsetMs, countedBalances };
}

/** Returns a recurring grant as it was at its creation. */
export function asCreated(row: StoredRecurring): StoredRecurring {
  const { lastN } = duePeriods({ ...row, lastN: 0 }, row.createdAtMs);
  return { ...row, lastN, ...afterPeriod(row, lastN), reason: null, finalN: null };
}

/** Returns a recurring grant in the form of the API (R1). */
export function presentRecurring(userId: string, row: ShownRecurring, nowMs: number): RecurringOutput {
  return {
    recurringId: row.id,
    userId,
    packId: row.packId,
    packName: row.packName,
    // JSON that Purser wrote.
    quantity: row.quantity === null ? null : (JSON.parse(row.quantity) as number),
    every: row.every,
    startsAt: iso(row.anchorMs),
    endsAt: row.endsAtMs === null ? null : iso(row.endsAtMs),
    rolloverPeriods: row.rolloverPeriods,
    timeZone: row.timeZone,
    status: row.state,
    reason: row.reason,
    period: currentPeriod(row, nowMs),
    nextAt: row.nextAtMs === null ? null : iso(row.nextAtMs),
    createdAt: iso(row.createdAtMs),
  };
}

function currentPeriod(row: ShownRecurring, nowMs: number) {
  const { state, endsAtMs, finalN } = row;
  const n = periodAt(row, nowMs);
  const last = finalN ?? lastPeriod(row, endsAtMs);
  if (state === "suspended" || n < 1 || n > last) return null;
  return { n, from: iso(periodStart(row, n)), to: iso(periodStart(row, n + 1)) };
}
