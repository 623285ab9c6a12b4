import { requireClock } from "../../db/clock.ts";
import { featuresSql } from "../../db/features.ts";
import { batch, fragment, type Statement, select, statement } from "../../db/sql.ts";
import { erasedSql, hashesOf } from "../../db/tombstones/check.ts";
import type { TenantCtx } from "../../runtime.ts";
import { type PayingRow, payingColumns } from "./balance.ts";
import { isDue } from "./hold.ts";
import { canPay } from "./select-balances.ts";
import type { AccountAtRead } from "./send.ts";

/** A user as `readTogether` found it. */
export interface UserAtRead {
  readonly account: AccountAtRead;
  /** The balances that can pay. */
  readonly balances: PayingRow[];
}

/** Of several users, how many balances are read at the most. It bounds what an isolate has in memory. */
const balancesMax = 5_000;

type Named = { environmentId: number; userIds: string; nowMs: number };

const selectAccounts = statement<
  Named & { hashes: string },
  { features: string | null; userId: string; accountId: number | null; lastSeq: number; isForOne: 0 | 1 }
>`
  SELECT ${featuresSql} AS features, named.value AS userId, owner.id AS accountId, coalesce((
    SELECT seq FROM credit_ledger WHERE account_id = owner.id ORDER BY seq DESC LIMIT 1
  ), 0) AS lastSeq, EXISTS (SELECT 1 FROM reservations WHERE ${isDue("owner.id")})
    OR coalesce(owner.is_erased, 0) OR ${erasedSql(featuresSql, fragment`json_extract(:hashes, '$[' || named.key || ']')`)} AS isForOne
  FROM json_each(:userIds) AS named
  LEFT JOIN accounts AS owner ON owner.environment_id = :environmentId AND owner.user_id = named.value`;

/** CROSS JOIN reads user by user, in the order of the list. */
const selectPayingOfAll = statement<Named, PayingRow & { userId: string }>`
  SELECT named.value AS userId, ${select(payingColumns, "b")} FROM json_each(:userIds) AS named
  CROSS JOIN accounts AS owner ON owner.environment_id = :environmentId AND owner.user_id = named.value
  CROSS JOIN credit_balances AS b ON ${canPay("owner.id")}
  LIMIT ${`${balancesMax}`}`;

/**
 * Reads several users in one trip, and the rows of one statement more. A user is missing who has a due hold, is erased, or
 * whose balances did not fit: `writeForUser` reads each of these by itself.
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
  // Whoever was being read when the limit was reached is not complete, and nobody after that was read.
  const complete = paying.length < balancesMax ? accounts.length : userIds.indexOf(paying.at(-1)?.userId ?? "");
  const users = new Map<string, UserAtRead>();
  for (const { features, userId, accountId, lastSeq, isForOne } of accounts.slice(0, complete)) {
    if (isForOne === 1) continue;
    const { environmentId, nowMs } = named;
    const account = { environmentId, userId, accountId, nowMs, lastSeq, features, due: [] };
    users.set(userId, { account, balances: balances.get(userId) ?? [] });
  }
  return { users, rows };
}
