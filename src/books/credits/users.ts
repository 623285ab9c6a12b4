import { all, nowMsSql, statement } from "../../db/sql.ts";
import { invalidCursor } from "../../errors.ts";
import { decodeTextCursor, encodeTextCursor } from "../../lib/cursor.ts";
import type { TenantCtx } from "../../runtime.ts";
import { amountOfSteps, UNITS, type Unit } from "../amounts/amount.ts";
import { presentExpiry } from "../ledger/balance.ts";
import type { UsersOutput } from "./responses.ts";
import type { UsersInput } from "./schemas.ts";

/**
 * Who has balances that can pay now, by user id in the order of code points (C24). A page looks at `limit` users, and shows
 * those of them that do: so it may hold fewer, or none, while others follow. Throws `invalid_request` for a cursor of
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
      const units = rows.filter(isUnit);
      return units.length > 0 ? [presentUser(userId, units)] : [];
    }),
    nextCursor: last !== undefined && users.size === limit ? encodeTextCursor(last, scope) : null,
  };
}

/** A sum is kept in two parts, because SQLite's integers hold a thousand of the largest amounts. */
const APART = 1_000_000n;

/** What a user's balances in one unit come to. */
interface UnitRow<Of = Unit> {
  readonly unit: Of;
  readonly balances: number;
  readonly whole: number;
  readonly rest: number;
  readonly nextExpiresAtMs: number;
}

/** A user without balances that can pay has one row, without a unit. */
function isUnit<Row extends UnitRow<Unit | null>>(row: Row): row is Row & UnitRow {
  return row.unit !== null;
}

/** Users by id, each with its balances that can pay, which alone the partial index has: added up, however many they are. */
const selectUsers = statement<
  { environmentId: number; nowMs: number; afterUserId: string; limit: number },
  { userId: string } & UnitRow<Unit | null>
>`
  SELECT a.user_id AS userId, b.unit AS unit, count(*) AS balances, sum(b.remaining_steps / ${`${APART}`}) AS whole,
    sum(b.remaining_steps % ${`${APART}`}) AS rest, min(b.expires_at_ms) AS nextExpiresAtMs
  FROM (
    SELECT id, user_id FROM accounts WHERE environment_id = :environmentId AND user_id > :afterUserId
    ORDER BY user_id LIMIT :limit
  ) AS a
  LEFT JOIN credit_balances AS b INDEXED BY credit_balances_remaining
    ON b.account_id = a.id AND b.has_remaining = 1 AND b.expires_at_ms > ${nowMsSql}
  GROUP BY a.user_id, b.unit ORDER BY a.user_id`;

function presentUser(userId: string, units: readonly UnitRow[]): UsersOutput["users"][number] {
  const remaining: { [U in Unit]?: number } = {};
  for (const unit of UNITS) {
    const row = units.find((one) => one.unit === unit);
    if (row !== undefined) remaining[unit] = amountOfSteps(unit, BigInt(row.whole) * APART + BigInt(row.rest));
  }
  const balances = units.reduce((count, row) => count + row.balances, 0);
  const nextExpiresAtMs = Math.min(...units.map((row) => row.nextExpiresAtMs));
  return { userId, balances, remaining, nextExpiresAt: presentExpiry(nextExpiresAtMs) };
}
