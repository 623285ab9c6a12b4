import { and, count, eq, gt, sql } from "drizzle-orm";
import { computed, drizzle, fields, optional, query, type ValueOf } from "../../db/query.ts";
import { accounts, creditBalances } from "../../db/schema.ts";
import { all, type RowsOf } from "../../db/sql.ts";
import { invalidCursor } from "../../errors.ts";
import { decodeTextCursor, encodeTextCursor } from "../../lib/cursor.ts";
import type { TenantCtx } from "../../runtime.ts";
import { amountOfSteps, UNITS, type Unit } from "../amounts/amount.ts";
import { presentExpiry } from "../ledger/balance.ts";
import type { UsersOutput } from "./responses.ts";
import type { UsersInput } from "./schemas.ts";
import { stepsOfSum, sumOfSteps } from "./user-totals.ts";

/**
 * Returns the users with balances that can pay now, by user id in code point order (C24). A page examines `limit` users and
 * returns those with such balances. It may be short or empty although others follow. Throws `invalid_request` for a cursor of
 * another list.
 */
export async function listUsers(ctx: TenantCtx, { limit, cursor }: UsersInput): Promise<UsersOutput> {
  const scope = ["credit users", ctx.environment.id];
  const afterUserId = cursor === undefined ? "" : decodeTextCursor(cursor, scope);
  if (afterUserId === null) throw invalidCursor();
  const rows = await all(
    ctx.db,
    selectUsers({ environmentId: ctx.environment.id, nowMs: ctx.now(), afterUserId, limit }),
  );
  const users = Map.groupBy(rows, ({ userId }) => userId);
  const last = rows.at(-1)?.userId;
  return {
    users: [...users].flatMap(([userId, rows]) => {
      const units = rows.filter(isUnitColumn);
      return units.length > 0 ? [presentUser(userId, units)] : [];
    }),
    nextCursor: last !== undefined && users.size === limit ? encodeTextCursor(last, scope) : null,
  };
}

const selectListedAccount = query((value: ValueOf<{ environmentId: number; userId: string }>) =>
  drizzle
    .select(fields(accounts, "id"))
    .from(accounts)
    .where(and(eq(accounts.environmentId, value("environmentId")), eq(accounts.userId, value("userId")))),
);

/** Whether anything was ever written for the user's credits or usage. */
export async function isKnownUser({ db, environment }: TenantCtx, userId: string): Promise<boolean> {
  return (await all(db, selectListedAccount({ environmentId: environment.id, userId }))).length > 0;
}

/** Selects users by id with the sums of all their balances that can pay, which are the only ones in the partial index. */
const selectUsers = query(
  (value: ValueOf<{ environmentId: number; nowMs: number; afterUserId: string; limit: number }>) => {
    const { environmentId, id, userId } = accounts;
    const { accountId, unit, remainingSteps, hasRemaining, expiresAtMs } = creditBalances;
    const page = sql`SELECT ${id}, ${userId} FROM ${accounts}
      WHERE ${environmentId} = ${value("environmentId")} AND ${userId} > ${value("afterUserId")}
      ORDER BY ${userId} LIMIT ${value("limit")}`;
    return drizzle
      .select({
        ...fields(accounts, "userId"),
        ...optional(fields(creditBalances, "unit")),
        ...computed({ balances: count(), nextExpiresAtMs: sql<number>`min(${expiresAtMs})` }),
        ...sumOfSteps(remainingSteps),
      })
      .from(sql`(${page}) AS ${accounts}`)
      .leftJoin(
        sql`${creditBalances} INDEXED BY credit_balances_remaining`,
        and(eq(accountId, id), sql`${hasRemaining} = 1`, gt(expiresAtMs, value("nowMs"))),
      )
      .groupBy(userId, unit)
      .orderBy(userId);
  },
);
type UserBalanceRow = RowsOf<[ReturnType<typeof selectUsers>]>[0][number];
/** A user's sum of balances in one unit. */
type UnitRow = UserBalanceRow & { readonly unit: Unit };

/** Returns whether a row has a unit. A user without balances that can pay has one row, without a unit. */
function isUnitColumn(row: UserBalanceRow): row is UnitRow {
  return row.unit !== null;
}

function presentUser(userId: string, units: readonly UnitRow[]): UsersOutput["users"][number] {
  const remaining: { [U in Unit]?: number } = {};
  for (const unit of UNITS) {
    const row = units.find((one) => one.unit === unit);
    if (row !== undefined) remaining[unit] = amountOfSteps(unit, stepsOfSum(row));
  }
  const balances = units.reduce((count, row) => count + row.balances, 0);
  const nextExpiresAtMs = Math.min(...units.map((row) => row.nextExpiresAtMs));
  return { userId, balances, remaining, nextExpiresAt: presentExpiry(nextExpiresAtMs) };
}
