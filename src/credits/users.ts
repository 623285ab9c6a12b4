import { amountOfSteps, UNITS, type Unit } from "../amounts/amount.ts";
import type { Steps } from "../db/schema.ts";
import { all, nowMsSql, statement } from "../db/sql.ts";
import { NEVER_MS } from "../db/tables.ts";
import { invalidCursor } from "../errors.ts";
import { presentExpiry } from "../ledger/balance.ts";
import { decodeTextCursor, encodeTextCursor } from "../lib/cursor.ts";
import type { TenantCtx } from "../runtime.ts";
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
  const users = new Map<string, BalanceRow[]>();
  for (const { userId, ...row } of rows) {
    const balances = users.get(userId) ?? [];
    users.set(userId, balances);
    if (isBalance(row)) balances.push(row);
  }
  const last = rows.at(-1)?.userId;
  return {
    users: [...users].filter(([, balances]) => balances.length > 0).map(([userId, rows]) => presentUser(userId, rows)),
    nextCursor: last !== undefined && users.size === limit ? encodeTextCursor(last, scope) : null,
  };
}

interface BalanceRow {
  readonly unit: Unit;
  readonly remainingSteps: Steps;
  readonly expiresAtMs: number;
}
type NoBalance = { readonly [Column in keyof BalanceRow]: null };

function isBalance(row: BalanceRow | NoBalance): row is BalanceRow {
  return row.unit !== null;
}

/** Users by id, each with its balances that can pay, which alone the partial index has. */
const selectUsers = statement<
  { environmentId: number; nowMs: number; afterUserId: string; limit: number },
  { userId: string } & (BalanceRow | NoBalance)
>`
  SELECT a.user_id AS userId, b.unit AS unit, b.remaining_steps AS remainingSteps, b.expires_at_ms AS expiresAtMs
  FROM (
    SELECT id, user_id FROM accounts WHERE environment_id = :environmentId AND user_id > :afterUserId
    ORDER BY user_id LIMIT :limit
  ) AS a
  LEFT JOIN credit_balances AS b INDEXED BY credit_balances_remaining
    ON b.account_id = a.id AND b.has_remaining = 1 AND b.expires_at_ms > ${nowMsSql}
  ORDER BY a.user_id`;

function presentUser(userId: string, balances: readonly BalanceRow[]): UsersOutput["users"][number] {
  const remaining: { [U in Unit]?: number } = {};
  for (const unit of UNITS) {
    const ofUnit = balances.filter((row) => row.unit === unit);
    const sum = ofUnit.reduce((steps, row) => steps + BigInt(row.remainingSteps), 0n);
    if (ofUnit.length > 0) remaining[unit] = amountOfSteps(unit, sum);
  }
  const nextExpiresAtMs = balances.reduce((next, row) => Math.min(next, row.expiresAtMs), NEVER_MS);
  return { userId, balances: balances.length, remaining, nextExpiresAt: presentExpiry(nextExpiresAtMs) };
}
