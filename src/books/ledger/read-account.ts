import { and, eq, type SQL, sql } from "drizzle-orm";
import { alias, type SQLiteColumn } from "drizzle-orm/sqlite-core";
import { computed, drizzle, fields, hasRow, optional, query, type ValueOf } from "../../db/query.ts";
import { accounts, creditBalances, environments, reservations } from "../../db/schema.ts";
import { requireClock, settingsSnapshotOf } from "../../db/settings-snapshot.ts";
import { batch, type RowsOf, type Statement } from "../../db/sql.ts";
import { hashForTombstones, isBlocked, personErased, requireSecrets, tombstoneSecretsIn } from "../../db/tombstones.ts";
import type { TenantCtx } from "../../runtime.ts";
import { accountQuery, readActor, type User, type WriteContext } from "./account.ts";
import { PAYING_FIELDS, type PayingRow, type SpendableBalance, spendableBalances } from "./balance.ts";
import { type Counters, countersOf, countersOfMembers, readCounters } from "./counters.ts";
import { countDueHolds, DUE_HOLDS_MAX, dueFields, isDueNow, readDueHolds } from "./due-holds.ts";
import { dueRecurring, readDueJson } from "./due-periods.ts";
import { type DueHold, isDue } from "./hold.ts";
import { lastSeqOf } from "./insert-entries.ts";
import { type Members, membersOf, membersOfValue, membersValue, namedMembers, readMembers } from "./payer-members.ts";
import { balancesOfPeriods, NO_PERIODS, type PeriodPlan } from "./plan-periods.ts";
import { apply, changesOfHolds, type SettledHold, settle } from "./settle.ts";
import { isSpendable, selectBalancesOfCharges } from "./spendable-balances.ts";

/** A user's account as an attempt read it. */
export interface ReadAccount extends WriteContext {
  /** The last seq of the ledger; 0 when it is empty. */
  readonly lastSeq: number;
  /** The environment's settings snapshot, as text (db/settings-snapshot.ts). The write aborts when it has changed. */
  readonly settingsSnapshot: string | null;
  /** The due holds that the next batch settles. */
  readonly due: readonly DueHold[];
  /** Whether there may be further due holds, which were not read. */
  readonly hasMoreDue: boolean;
  /** The due periods that the next batch grants (R3). */
  readonly periods: PeriodPlan;
  /** The balances that the charges of due holds and the verb's own plan may need. */
  readonly rows: readonly PayingRow[];
  /** When the next period begins. From then on, the remembered account is not used. Null when there is no next period. */
  readonly recurringDueAtMs: number | null;
  /** The user's usage against the environment's limits. Null if it was not read; then only the database enforces the limits. */
  readonly counters: Counters | null;
  /** The members that the verb names. Null if they were not read, because the isolate remembers them. */
  readonly members: Members | null;
}

/** An account on which verbs decide: everything due is settled. The batch of each decision writes that before the verb's own changes. */
export interface AccountAtRead extends ReadAccount {
  readonly settled: readonly SettledHold[];
  /** The balances of `rows` and of due periods after the settlement. */
  readonly balances: readonly PayingRow[];
}

/** Returns an account with everything due settled. Pure. */
export function settleAccount(account: ReadAccount): AccountAtRead {
  const rows = [...account.rows, ...balancesOfPeriods(account.periods)];
  const settled = settle(rows, account.due);
  return { ...account, settled, balances: apply(rows, changesOfHolds(settled)) };
}

/** Returns the balances that can pay for a write, in spending order (C13). */
export const spendableOf = ({ balances, nowMs }: AccountAtRead): SpendableBalance[] =>
  spendableBalances(balances, nowMs);

/** SQL: the members of a list, as `membersValue` makes it, and their counters. */
const memberFields = (value: ValueOf<{ environmentId: number }>, list: SQL, settingsSnapshot: SQL | SQLiteColumn) => {
  const named = namedMembers(value, list, accounts.id);
  return {
    members: membersOf(value, named, settingsSnapshot),
    countersOfMembers: countersOfMembers(value, named, settingsSnapshot),
  };
};

const firstDue = alias(reservations, "first_due");
const firstDueHold = (value: ValueOf<{ nowMs: number }>) =>
  sql`(SELECT ${firstDue.reservationNumber} FROM ${reservations} AS ${firstDue} WHERE ${isDue(value, accounts.id, firstDue)}
    ORDER BY ${firstDue.expiresAtMs}, ${firstDue.reservationNumber} LIMIT 1)`;

/** Selects the environment's settings snapshot and the account with its due periods, in a row for each due hold. One query is faster than several. */
const selectAccount = accountQuery(
  (value: ValueOf<{ environmentId: number; nowMs: number; hashes: string; members: string | null }>, account) =>
    drizzle
      .select({
        ...fields(environments, "settingsSnapshot"),
        ...optional(fields(accounts, { accountId: "id", userId: "userId", recurringDueAtMs: "recurringDueAtMs" })),
        ...computed({
          isErased: sql<0 | 1>`coalesce(${accounts.isErased}, 0)
          OR ${isBlocked(value, environments.settingsSnapshot, sql`${value("hashes")}`)}`,
          lastSeq: lastSeqOf(sql`${accounts.id}`),
          // Only the first of the due holds has them.
          periods: sql<
            string | null
          >`iif(${accounts.recurringDueAtMs} <= ${value("nowMs")} AND ${reservations.reservationNumber} IS ${firstDueHold(value)},
            ${dueRecurring(value, accounts.id)}, NULL)`,
          counters: countersOf(value, environments.settingsSnapshot, accounts.id),
          ...memberFields(value, sql`${value("members")}`, environments.settingsSnapshot),
          dueCount: countDueHolds(value, account),
        }),
        ...optional(dueFields()),
      })
      .from(environments)
      .leftJoin(accounts, eq(accounts.id, account))
      .leftJoin(reservations, isDueNow(value, account))
      .where(eq(environments.id, value("environmentId")))
      .orderBy(reservations.expiresAtMs, reservations.reservationNumber),
);

/** The user whose account is read, and the verb's reads, which are sent in the same batch. */
export interface AccountRead<Reads extends readonly Statement[]> {
  readonly user: User;
  /** The members that the verb names (ME1). */
  readonly members?: readonly string[] | undefined;
  readonly read: (nowMs: number) => Reads;
  /** Selects the balances on which the verb plans, and those that charges may need. Default: only the latter. */
  readonly balances?: (nowMs: number) => Statement<PayingRow>;
}

export interface ReadResult<Reads extends readonly Statement[]> {
  /** Null if no user owns the given reservation, recurring grant or balance. */
  readonly account: AccountAtRead | null;
  /** The rows of the verb's reads. */
  readonly found: RowsOf<Reads>;
}

export async function readAccount<const Reads extends readonly Statement[]>(
  ctx: TenantCtx,
  { user, members = [], read, balances }: AccountRead<Reads>,
): Promise<ReadResult<Reads>> {
  const atMs = ctx.now();
  const hashes = JSON.stringify("userId" in user ? await hashForTombstones(ctx, user.userId) : []);
  const first = selectAccount(ctx, user, { nowMs: atMs, hashes, members: await membersValue(ctx, members) });
  const paying = balances?.(atMs) ?? selectBalancesOfCharges(ctx, user, { nowMs: atMs });
  const [rows, payingRows, ...rest] = await batch(ctx.db, [first, paying, ...read(atMs)] as const);
  const [stored] = rows;
  requireClock(ctx, stored?.settingsSnapshot ?? null);
  await requireSecrets(ctx, tombstoneSecretsIn(stored?.settingsSnapshot ?? null));
  const isErased = stored?.isErased === 1;
  const dueCount = stored?.dueCount ?? 0;
  // Old ids of reservations and recurring grants do not find an erased account (E4). Payments still find it by its integer.
  const isUnknown = isErased && ("reservationId" in user || "recurringId" in user);
  if (isErased && ("userId" in user || "balanceId" in user)) throw personErased();
  const userId = isUnknown ? null : (stored?.userId ?? ("userId" in user ? user.userId : null));
  const account: AccountAtRead | null =
    userId === null
      ? null
      : settleAccount({
          environmentId: ctx.environment.id,
          userId,
          accountId: stored?.accountId ?? null,
          nowMs: atMs,
          by: readActor(ctx),
          lastSeq: stored?.lastSeq ?? 0,
          settingsSnapshot: stored?.settingsSnapshot ?? null,
          ...(isErased ? NOTHING_DUE : dueInBatch(readDueHolds(rows), readDueJson(ctx, stored?.periods ?? null, atMs))),
          hasMoreDue: !isErased && (dueCount > rows.length || dueCount === DUE_HOLDS_MAX),
          rows: payingRows,
          recurringDueAtMs: stored?.recurringDueAtMs ?? null,
          counters: readCounters(stored?.counters ?? null, stored?.countersOfMembers ?? null),
          members: readMembers(stored?.members ?? null),
        });
  // The rows of the verb's statements follow.
  return { account, found: rest as RowsOf<Reads> };
}

export const NOTHING_DUE = { due: [], hasMoreDue: false, periods: NO_PERIODS };

/** Returns what the next batch settles. If a period is left for a later batch, holds that end after its beginning are left too. */
function dueInBatch(holds: readonly DueHold[], periods: PeriodPlan): Pick<AccountAtRead, "due" | "periods"> {
  const { nextMs } = periods;
  return { periods, due: nextMs === null ? holds : holds.filter(({ endsAtMs }) => endsAtMs < nextMs) };
}

/** The most balances that are read for several users together. It bounds the memory of an isolate. */
const READ_BALANCES_MAX = 5_000;

type NamedUsers = { environmentId: number; userIds: string; nowMs: number; members: string | null };

/** Returns a condition: an account belongs to a user of the list `named`. */
const isNamed = (value: ValueOf<NamedUsers>) =>
  and(eq(accounts.environmentId, value("environmentId")), sql`${accounts.userId} = named.value`);

const selectAccounts = query((value: ValueOf<NamedUsers & { hashes: string }>) => {
  const hashes = sql`json_extract(${value("hashes")}, '$[' || named.key || ']')`;
  const ofUser = computed({
    settingsSnapshot: settingsSnapshotOf(value),
    userId: sql<string>`named.value`,
    lastSeq: lastSeqOf(sql`${accounts.id}`),
    counters: countersOf(value, settingsSnapshotOf(value), accounts.id),
    ...memberFields(
      value,
      sql`json_extract(${value("members")}, '$[' || named.key || ']')`,
      sql`${settingsSnapshotOf(value)}`,
    ),
    mustReadAlone: sql<
      0 | 1
    >`coalesce(${accounts.recurringDueAtMs} <= ${value("nowMs")}, 0) OR ${hasRow(reservations, isDue(value, accounts.id))} OR coalesce(${accounts.isErased}, 0)
      OR ${isBlocked(value, settingsSnapshotOf(value), hashes)}`,
  });
  return drizzle
    .select({ ...ofUser, ...optional(fields(accounts, { accountId: "id", recurringDueAtMs: "recurringDueAtMs" })) })
    .from(sql`json_each(${value("userIds")}) AS named`)
    .leftJoin(accounts, isNamed(value));
});

/** Selects the users' balances that can pay. Because of CROSS JOIN, SQLite reads user by user, in the order of the list. */
const selectPayingOfAll = query((value: ValueOf<NamedUsers>) =>
  drizzle
    .select({ ...computed({ userId: sql<string>`named.value` }), ...fields(creditBalances, ...PAYING_FIELDS) })
    .from(sql`json_each(${value("userIds")}) AS named`)
    .crossJoin(accounts)
    .crossJoin(creditBalances)
    .where(and(isNamed(value), isSpendable(value, sql`${accounts.id}`)))
    .limit(READ_BALANCES_MAX),
);

/**
 * Reads several users, and the rows of further statements, in one batch. Leaves out users who have a due hold or a due period, are
 * erased, or whose balances did not fit: `writeForUser` reads them separately.
 */
export async function readTogether<const More extends readonly Statement[]>(
  ctx: TenantCtx,
  /** Each user's id, with the members that the write names. */
  users: readonly { readonly userId: string; readonly memberIds: readonly string[] }[],
  more: More,
): Promise<{ readonly accounts: ReadonlyMap<string, AccountAtRead>; readonly found: RowsOf<More> }> {
  const userIds = users.map(({ userId }) => userId);
  const membersOfUsers = await Promise.all(users.map(({ memberIds }) => membersOfValue(ctx, memberIds)));
  const named = {
    environmentId: ctx.environment.id,
    userIds: JSON.stringify(userIds),
    nowMs: ctx.now(),
    members: membersOfUsers.every((list) => list.length === 0) ? null : JSON.stringify(membersOfUsers),
  };
  const [found, paying, ...rest] = await batch(ctx.db, [
    selectAccounts({
      ...named,
      hashes: JSON.stringify(await Promise.all(userIds.map((id) => hashForTombstones(ctx, id)))),
    }),
    selectPayingOfAll(named),
    ...more,
  ] as const);
  requireClock(ctx, found[0]?.settingsSnapshot ?? null);
  const balances = Map.groupBy(paying, ({ userId }) => userId);
  // When the limit is reached, the last user's balances may be incomplete, and later users were not read.
  const complete = paying.length < READ_BALANCES_MAX ? found.length : userIds.indexOf(paying.at(-1)?.userId ?? "");
  const accounts = new Map<string, AccountAtRead>();
  for (const row of found.slice(0, complete)) {
    const { settingsSnapshot, userId, accountId, recurringDueAtMs, lastSeq, mustReadAlone, counters: stored } = row;
    const members = readMembers(row.members);
    if (mustReadAlone === 1) continue;
    const { environmentId, nowMs } = named;
    const counters = readCounters(stored, row.countersOfMembers);
    const context = { environmentId, userId, accountId, nowMs, by: readActor(ctx) };
    const due = { ...NOTHING_DUE, rows: balances.get(userId) ?? [] };
    accounts.set(
      userId,
      settleAccount({ ...context, ...due, lastSeq, settingsSnapshot, recurringDueAtMs, counters, members }),
    );
  }
  // The rows of the further statements follow.
  return { accounts, found: rest as RowsOf<More> };
}
