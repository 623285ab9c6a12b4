import { and, count, desc, eq, gt, gte, isNotNull, lt, sql } from "drizzle-orm";
import {
  asInteger,
  boundLimit,
  computed,
  drizzle,
  fields,
  optional,
  query,
  type RowOf,
  scalar,
  type ValueOf,
} from "../../db/query.ts";
import { accounts, creditBalances, creditLedger } from "../../db/schema.ts";
import { all, type StatementRow } from "../../db/sql.ts";
import { invalidCursor } from "../../errors.ts";
import { cutPage, decodeTextCursor, encodeTextCursor } from "../../lib/cursor.ts";
import { iso } from "../../lib/time.ts";
import type { TenantCtx } from "../../runtime.ts";
import { exactAmount, UNITS, type Unit, type UnitAmounts } from "../amounts/amount.ts";
import { minorOfSum, sumOfMinor } from "../amounts/amount-sql.ts";
import { presentExpiry } from "../ledger/balance.ts";
import { isSpendable } from "../ledger/spendable-balances.ts";

export interface UsersOutput {
  readonly users: {
    readonly userId: string;
    readonly balances: number;
    readonly remaining: UnitAmounts;
    readonly nextExpiresAt: string | null;
  }[];
  readonly nextCursor: string | null;
}

export interface UsersInput {
  readonly limit: number;
  readonly cursor?: string | undefined;
}

/**
 * Returns the users with balances that can pay now, by user id in code point order. A page examines `limit` users and returns
 * those with such balances, so it may be short or empty although other pages follow. Throws `invalid_request` for a cursor of another
 * list.
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
      const units = rows.filter(isUnitRow);
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

/** Returns whether the user has an account, because credits or usage were written for the user. */
export async function isKnownUser({ db, environment }: TenantCtx, userId: string): Promise<boolean> {
  return (await all(db, selectListedAccount({ environmentId: environment.id, userId }))).length > 0;
}

/** Selects users by id with the sums of their balances that can pay. The partial index has only such balances. */
const selectUsers = query(
  (value: ValueOf<{ environmentId: number; nowMs: number; afterUserId: string; limit: number }>) => {
    const { environmentId, id, userId } = accounts;
    const { accountId, unit, remainingMinor, hasRemaining, expiresAtMs } = creditBalances;
    const page = sql`SELECT ${id}, ${userId} FROM ${accounts}
      WHERE ${environmentId} = ${value("environmentId")} AND ${userId} > ${value("afterUserId")}
      ORDER BY ${userId} LIMIT ${asInteger(value("limit"))}`;
    return drizzle
      .select({
        ...fields(accounts, "userId"),
        ...optional(fields(creditBalances, "unit")),
        ...computed({ balances: count(), nextExpiresAtMs: sql<number>`min(${expiresAtMs})` }),
        ...sumOfMinor(remainingMinor),
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
type UserBalanceRow = StatementRow<typeof selectUsers>;
/** A user's sum of balances in one unit. */
type UnitRow = UserBalanceRow & { readonly unit: Unit };

/** Returns whether a row has a unit. A user without balances that can pay has one row, without a unit. */
function isUnitRow(row: UserBalanceRow): row is UnitRow {
  return row.unit !== null;
}

function presentUser(userId: string, units: readonly UnitRow[]): UsersOutput["users"][number] {
  const remaining: { [U in Unit]?: number } = {};
  for (const unit of UNITS) {
    const row = units.find((unitRow) => unitRow.unit === unit);
    if (row !== undefined) remaining[unit] = exactAmount(unit, minorOfSum(row));
  }
  const balances = units.reduce((count, row) => count + row.balances, 0);
  const nextExpiresAtMs = Math.min(...units.map((row) => row.nextExpiresAtMs));
  return { userId, balances, remaining, nextExpiresAt: presentExpiry(nextExpiresAtMs) };
}

/** The most balances of each user that are added up. */
const SUMMED_USERS_MAX = 100;
/** A character that sorts after every other character. */
const LAST = "\u{10ffff}";

/** Returns the range of an index that has all texts with this prefix. */
export const rangeOf = (beginning: string) => ({ from: beginning, to: `${beginning}${LAST}` });

type UserPage = { environmentId: number; nowMs: number; limit: number };

const userFields = (value: ValueOf<UserPage>) => {
  const { unit, remainingMinor } = creditBalances;
  const spendable = sql`SELECT ${unit}, ${remainingMinor} FROM ${creditBalances} INDEXED BY credit_balances_remaining
    WHERE ${isSpendable(value, sql`${accounts.id}`)} LIMIT ${SUMMED_USERS_MAX + 1}`;
  const lastEntry = drizzle
    .select(fields(creditLedger, "occurredAtMs"))
    .from(creditLedger)
    .where(eq(creditLedger.accountId, accounts.id))
    .orderBy(desc(creditLedger.seq))
    .limit(1);
  return {
    ...fields(accounts, { userId: "userId", accountId: "id", lastActiveDay: "lastActiveDay" }),
    ...computed({
      balances: sql`(
        SELECT json_group_array(json_array(${unit}, ${remainingMinor})) FROM (${spendable}) AS ${creditBalances}
      )`.mapWith((pairs: string) => JSON.parse(pairs) as readonly (readonly [Unit, number])[]),
      lastEntryAtMs: scalar(lastEntry),
    }),
  };
};
type FoundUserRow = RowOf<ReturnType<typeof userFields>>;

const selectUsersByPrefix = query((value: ValueOf<UserPage & { after: string; from: string; to: string }>) =>
  drizzle
    .select(userFields(value))
    .from(accounts)
    .where(
      and(
        eq(accounts.environmentId, value("environmentId")),
        gt(accounts.userId, value("after")),
        gte(accounts.userId, value("from")),
        lt(accounts.userId, value("to")),
      ),
    )
    .orderBy(accounts.userId)
    .limit(boundLimit(value("limit"))),
);

/** Returns a user of a list. */
function presentFoundUser({ userId, balances: rows, lastEntryAtMs }: FoundUserRow) {
  const remaining = UNITS.flatMap((unit) => {
    const ofUnit = rows.slice(0, SUMMED_USERS_MAX).filter((row) => row[0] === unit);
    if (ofUnit.length === 0) return [];
    const remainingMinor = ofUnit.reduce((sum, [, minor]) => sum + BigInt(minor), 0n);
    return [{ unit, amount: exactAmount(unit, remainingMinor), remainingMinor }];
  });
  return {
    userId,
    balances: Math.min(rows.length, SUMMED_USERS_MAX),
    remaining,
    /** Whether the user has more balances than were added up. */
    isPartial: rows.length > SUMMED_USERS_MAX,
    lastEntryAt: lastEntryAtMs === null ? null : iso(lastEntryAtMs),
  };
}
export type FoundUser = ReturnType<typeof presentFoundUser>;

/**
 * Returns users whose ids begin with a text, by id, with or without credits. Throws `invalid_request` for another list's cursor.
 */
export async function findUsers(
  ctx: TenantCtx,
  { beginning, limit, cursor }: { beginning: string; limit: number; cursor?: string | undefined },
): Promise<{ users: readonly FoundUser[]; nextCursor: string | null }> {
  const environmentId = ctx.environment.id;
  const scope = ["found users", environmentId, beginning];
  const after = cursor === undefined ? "" : decodeTextCursor(cursor, scope);
  if (after === null) throw invalidCursor();
  const values = { environmentId, nowMs: ctx.now(), after, ...rangeOf(beginning), limit: limit + 1 };
  const rows = await all(ctx.db, selectUsersByPrefix(values));
  const { page, last } = cutPage(rows, limit);
  return {
    users: page.map(presentFoundUser),
    nextCursor: last === undefined ? null : encodeTextCursor(last.userId, scope),
  };
}

const selectRecentUsers = query((value: ValueOf<UserPage & { beforeDay: number; beforeId: number }>) =>
  drizzle
    .select(userFields(value))
    .from(sql`${accounts} INDEXED BY accounts_active`)
    .where(
      and(
        eq(accounts.environmentId, value("environmentId")),
        isNotNull(accounts.lastActiveDay),
        sql`(${accounts.lastActiveDay}, ${accounts.id}) < (${value("beforeDay")}, ${value("beforeId")})`,
      ),
    )
    .orderBy(desc(accounts.lastActiveDay), desc(accounts.id))
    .limit(boundLimit(value("limit"))),
);

/**
 * Returns users by the day of their latest entry, the latest first, if an isolate has reported it (db/count-activity.ts).
 * Throws `invalid_request` for another list's cursor.
 */
export async function recentUsers(
  ctx: TenantCtx,
  { limit, cursor }: { limit: number; cursor?: string | undefined },
): Promise<{ users: readonly FoundUser[]; nextCursor: string | null }> {
  const environmentId = ctx.environment.id;
  const scope = ["recent users", environmentId];
  const text = cursor === undefined ? `${Number.MAX_SAFE_INTEGER} 0` : decodeTextCursor(cursor, scope);
  if (text === null) throw invalidCursor();
  const [beforeDay = 0, beforeId = 0] = text.split(" ").map(Number);
  const values = { environmentId, nowMs: ctx.now(), beforeDay, beforeId, limit: limit + 1 };
  const rows = await all(ctx.db, selectRecentUsers(values));
  const { page, last } = cutPage(rows, limit);
  return {
    users: page.map(presentFoundUser),
    nextCursor: last === undefined ? null : encodeTextCursor(`${last.lastActiveDay} ${last.accountId}`, scope),
  };
}

const selectNamed = query((value: ValueOf<UserPage & { userIds: string }>) =>
  drizzle
    .select(userFields(value))
    .from(accounts)
    .where(
      and(
        eq(accounts.environmentId, value("environmentId")),
        sql`${accounts.userId} IN (SELECT value FROM json_each(${value("userIds")}))`,
      ),
    )
    .limit(boundLimit(value("limit"))),
);

/** Returns the users with these ids, in any order. */
export async function namedUsers(ctx: TenantCtx, userIds: readonly string[]): Promise<readonly FoundUser[]> {
  const values = { userIds: JSON.stringify(userIds), limit: userIds.length };
  const rows = await all(ctx.db, selectNamed({ environmentId: ctx.environment.id, nowMs: ctx.now(), ...values }));
  return rows.map(presentFoundUser);
}
