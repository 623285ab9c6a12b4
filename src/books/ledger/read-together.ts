import { sql } from "drizzle-orm";
import { featuresOf, requireClock } from "../../db/features.ts";
import { computed, fields, hasRow, optional, query, read, type ValueOf } from "../../db/query.ts";
import { accounts, creditBalances, reservations } from "../../db/schema.ts";
import { batch, type Statement } from "../../db/sql.ts";
import { hashesOf, isBlocked } from "../../db/tombstones.ts";
import type { TenantCtx } from "../../runtime.ts";
import { byOf } from "./account.ts";
import { PAYING_FIELDS, type PayingRow } from "./balance.ts";
import { countersOf, readCounters } from "./counters.ts";
import { isDue } from "./hold.ts";
import { lastSeqOf } from "./insert-entries.ts";
import { NO_PERIODS } from "./plan-periods.ts";
import type { AccountAtRead } from "./send.ts";
import { isSpendable } from "./spendable-balances.ts";

/** A user as `readTogether` found it. */
export interface UserAtRead {
  readonly account: AccountAtRead;
  /** The balances that can pay. */
  readonly balances: PayingRow[];
}

/** The most balances that are read for several users. It bounds the memory of an isolate. */
const balancesMax = 5_000;

type NamedUsers = { environmentId: number; userIds: string; nowMs: number };

/** The accounts of the users of a list. */
const isNamed = (value: ValueOf<NamedUsers>) =>
  sql`${accounts.environmentId} = ${value("environmentId")} AND ${accounts.userId} = named.value`;

const selectAccounts = query((value: ValueOf<NamedUsers & { hashes: string }>) => {
  const hashes = sql`json_extract(${value("hashes")}, '$[' || named.key || ']')`;
  const ofUser = computed({
    features: featuresOf(value),
    userId: sql<string>`named.value`,
    lastSeq: lastSeqOf(sql`${accounts.id}`),
    counters: countersOf(value, featuresOf(value), accounts.id),
    isForOne: sql<
      0 | 1
    >`coalesce(${accounts.recurringDueAtMs} <= ${value("nowMs")}, 0) OR ${hasRow(reservations, isDue(value, accounts.id))} OR coalesce(${accounts.isErased}, 0)
      OR ${isBlocked(value, featuresOf(value), hashes)}`,
  });
  return read(
    { ...ofUser, ...optional(fields(accounts, { accountId: "id", recurringDueAtMs: "recurringDueAtMs" })) },
    (list) =>
      sql`SELECT ${list} FROM json_each(${value("userIds")}) AS named LEFT JOIN ${accounts} ON ${isNamed(value)}`,
  );
});

/** CROSS JOIN reads user by user, in the order of the list. */
const selectPayingOfAll = query((value: ValueOf<NamedUsers>) =>
  read(
    { ...computed({ userId: sql<string>`named.value` }), ...fields(creditBalances, ...PAYING_FIELDS) },
    (
      list,
    ) => sql`SELECT ${list} FROM json_each(${value("userIds")}) AS named CROSS JOIN ${accounts} ON ${isNamed(value)}
      CROSS JOIN ${creditBalances} ON ${isSpendable(value, sql`${accounts.id}`)} LIMIT ${balancesMax}`,
  ),
);

/**
 * Reads several users, and the rows of one more statement, in one batch. It leaves out users who have a due hold or period, are
 * erased, or whose balances did not fit; `writeForUser` reads these separately.
 */
export async function readTogether<Row>(
  ctx: TenantCtx,
  userIds: readonly string[],
  more: Statement<Row>,
): Promise<{ readonly users: ReadonlyMap<string, UserAtRead>; readonly rows: Row[] }> {
  const named = { environmentId: ctx.environment.id, userIds: JSON.stringify(userIds), nowMs: ctx.now() };
  const [accounts, paying, rows] = await batch(ctx.db, [
    selectAccounts({ ...named, hashes: JSON.stringify(await Promise.all(userIds.map((id) => hashesOf(ctx, id)))) }),
    selectPayingOfAll(named),
    more,
  ] as const);
  requireClock(ctx, accounts[0]?.features ?? null);
  const balances = Map.groupBy(paying, ({ userId }) => userId);
  // When the limit is reached, the last user's balances may be incomplete, and later users were not read.
  const complete = paying.length < balancesMax ? accounts.length : userIds.indexOf(paying.at(-1)?.userId ?? "");
  const users = new Map<string, UserAtRead>();
  for (const row of accounts.slice(0, complete)) {
    const { features, userId, accountId, recurringDueAtMs, lastSeq, isForOne, counters: stored } = row;
    if (isForOne === 1) continue;
    const { environmentId, nowMs } = named;
    const counters = readCounters(stored);
    const written = { environmentId, userId, accountId, nowMs, by: byOf(ctx) };
    const account = { ...written, lastSeq, features, due: [], periods: NO_PERIODS, recurringDueAtMs, counters };
    users.set(userId, { account, balances: balances.get(userId) ?? [] });
  }
  return { users, rows };
}
