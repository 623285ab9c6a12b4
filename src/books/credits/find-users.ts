import { all, fragment, statement } from "../../db/sql.ts";
import { invalidCursor } from "../../errors.ts";
import { decodeTextCursor, encodeTextCursor } from "../../lib/cursor.ts";
import { iso } from "../../lib/time.ts";
import type { TenantCtx } from "../../runtime.ts";
import { amountOfSteps, UNITS, type Unit } from "../amounts/amount.ts";
import { canPay } from "../ledger/select-balances.ts";

/** Of each user at most this many balances are added up. */
const SUMMED_MAX = 100;
/** Sorts after whatever may follow a beginning. */
const LAST = "\u{10ffff}";

/** The texts that begin so, as bounds of an index. */
export const rangeOf = (beginning: string) => ({ from: beginning, to: `${beginning}${LAST}` });

type UserRow = {
  userId: string;
  accountId: number;
  lastActiveDay: number | null;
  balances: string;
  lastEntryAtMs: number | null;
};

const userSql = fragment`
  SELECT a.user_id AS userId, a.id AS accountId, a.last_active_day AS lastActiveDay, (
    SELECT json_group_array(json_array(unit, remaining_steps)) FROM (
      SELECT unit, remaining_steps FROM credit_balances INDEXED BY credit_balances_remaining
      WHERE ${canPay("a.id")} LIMIT ${`${SUMMED_MAX + 1}`}
    )
  ) AS balances, (
    SELECT occurred_at_ms FROM credit_ledger WHERE account_id = a.id ORDER BY seq DESC LIMIT 1
  ) AS lastEntryAtMs`;

const selectUsers = statement<
  { environmentId: number; nowMs: number; after: string; from: string; to: string; limit: number },
  UserRow
>`
  ${userSql} FROM accounts AS a
  WHERE a.environment_id = :environmentId AND a.user_id > :after AND a.user_id >= :from AND a.user_id < :to
  ORDER BY a.user_id LIMIT :limit`;

/** A user of a list. */
function presentUser({ userId, balances, lastEntryAtMs }: UserRow) {
  // Made by the statement above.
  const rows = JSON.parse(balances) as readonly (readonly [Unit, number])[];
  const remaining = UNITS.flatMap((unit) => {
    const ofUnit = rows.slice(0, SUMMED_MAX).filter((row) => row[0] === unit);
    if (ofUnit.length === 0) return [];
    return [
      {
        unit,
        amount: amountOfSteps(
          unit,
          ofUnit.reduce((sum, [, steps]) => sum + BigInt(steps), 0n),
        ),
      },
    ];
  });
  return {
    userId,
    balances: Math.min(rows.length, SUMMED_MAX),
    remaining,
    /** Whether the user has more balances than were added up. */
    isPartial: rows.length > SUMMED_MAX,
    lastEntryAt: lastEntryAtMs === null ? null : iso(lastEntryAtMs),
  };
}
export type FoundUser = ReturnType<typeof presentUser>;

/** Users whose ids begin with a text, by id, with or without credits. Throws `invalid_request` for another list's cursor. */
export async function findUsers(
  ctx: TenantCtx,
  { beginning, limit, cursor }: { beginning: string; limit: number; cursor?: string | undefined },
): Promise<{ users: readonly FoundUser[]; nextCursor: string | null }> {
  const environmentId = ctx.environment.id;
  const scope = ["found users", environmentId, beginning];
  const after = cursor === undefined ? "" : decodeTextCursor(cursor, scope);
  if (after === null) throw invalidCursor();
  const values = { environmentId, nowMs: ctx.now(), after, ...rangeOf(beginning), limit: limit + 1 };
  const rows = await all(ctx.db, selectUsers(values));
  const shown = rows.slice(0, limit);
  const last = shown.at(-1);
  const isMore = rows.length > limit && last !== undefined;
  return { users: shown.map(presentUser), nextCursor: isMore ? encodeTextCursor(last.userId, scope) : null };
}

const selectRecent = statement<
  { environmentId: number; nowMs: number; beforeDay: number; beforeId: number; limit: number },
  UserRow
>`
  ${userSql} FROM accounts AS a INDEXED BY accounts_active
  WHERE a.environment_id = :environmentId AND a.last_active_day IS NOT NULL
    AND (a.last_active_day, a.id) < (:beforeDay, :beforeId)
  ORDER BY a.last_active_day DESC, a.id DESC LIMIT :limit`;

/**
 * Users by the day on which something was last written for them, the latest first, as far as isolates told it
 * (db/activity/last-seen.ts). Throws `invalid_request` for another list's cursor.
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
  const rows = await all(ctx.db, selectRecent(values));
  const shown = rows.slice(0, limit);
  const last = shown.at(-1);
  const isMore = rows.length > limit && last !== undefined;
  return {
    users: shown.map(presentUser),
    nextCursor: isMore ? encodeTextCursor(`${last.lastActiveDay} ${last.accountId}`, scope) : null,
  };
}
