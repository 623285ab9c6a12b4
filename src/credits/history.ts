import { type SQL, sql } from "drizzle-orm";
import { prepared } from "../db/prepared.ts";
import { invalid } from "../errors.ts";
import { type LedgerRow, presentEntry } from "../ledger/entries.ts";
import { openCursor, sealCursor } from "../lib/cursor.ts";
import type { Ctx } from "../runtime.ts";
import type { HistoryOutput } from "./answers.ts";
import { balanceNotFound } from "./revoke.ts";
import type { HistoryInput } from "./schemas.ts";

/**
 * A page of the user's ledger, newest first, of one balance when `balanceId` is given. The cursor holds the seq of the
 * last entry shown, so pages stay put while rows are written. Throws `credit_balance_not_found` (C16, C17).
 */
export async function history(ctx: Ctx, input: HistoryInput): Promise<HistoryOutput> {
  const { rows: entries, nextCursor } = await ledgerPage(ctx, input);
  return { entries: entries.map(presentEntry), nextCursor };
}

export interface LedgerPage {
  readonly rows: readonly LedgerRow[];
  readonly nextCursor: string | null;
}

const scopeOf = (ctx: Ctx, input: HistoryInput) => [ctx.environment.id, input.userId, input.balanceId ?? ""];

/** What `history` presents: the rows themselves, which also say what each motion left. */
export async function ledgerPage(ctx: Ctx, input: HistoryInput): Promise<LedgerPage> {
  const scope = scopeOf(ctx, input);
  const before = input.cursor === undefined ? null : await openCursor(input.cursor, scope);
  if (input.cursor !== undefined && before === null) {
    throw invalid("cursor", "is not a cursor that this list gave out");
  }
  const entries = await select(ctx, input, before);
  const last = entries.at(-1);
  // Every balance has the row of its grant, and a cursor is given out only where older rows follow.
  if (last === undefined && input.balanceId !== undefined) throw balanceNotFound();
  const isMore = last !== undefined && (input.balanceId === undefined ? last.seq > 1 : last.previousSeq !== null);
  return { rows: entries, nextCursor: isMore ? await sealCursor(last.seq, scope) : null };
}

/** As many motions are looked at for one page of those of one reason: no index tells which they are. */
export const lookedAtMax = 1_000;

/**
 * As `ledgerPage`, of the motions of one reason: those among the next `lookedAtMax`, so that a page may hold fewer than
 * `limit`, or none, and others follow all the same.
 */
export async function ledgerPageOfReason(
  ctx: Ctx,
  input: HistoryInput,
  reason: LedgerRow["reason"],
): Promise<LedgerPage> {
  const lookedAt = await ledgerPage(ctx, { ...input, limit: lookedAtMax });
  const found = lookedAt.rows.filter((row) => row.reason === reason);
  const last = found[input.limit - 1];
  if (last === undefined || found.length === input.limit) return { rows: found, nextCursor: lookedAt.nextCursor };
  return { rows: found.slice(0, input.limit), nextCursor: await sealCursor(last.seq, scopeOf(ctx, input)) };
}

const columns = sql.raw(`seq, balance_id AS balanceId, pack_id AS packId, unit, delta_steps AS deltaSteps,
  balance_after_steps AS balanceAfterSteps, previous_seq AS previousSeq, reason, event_id AS eventId,
  reservation_id AS reservationId, note, occurred_at_ms AS occurredAtMs`);

const ofUser = sql`environment_id = ${sql.placeholder("environmentId")} AND user_id = ${sql.placeholder("userId")}`;
const before = sql.placeholder("before");
const balanceId = sql.placeholder("balanceId");
const limit = sql.placeholder("limit");

/** Seqs are gapless from 1, so the last row of a page tells by itself whether another follows. */
const selectPage = prepared<LedgerRow>(
  sql`SELECT ${columns} FROM credit_ledger WHERE ${ofUser} AND seq < ${before} ORDER BY seq DESC LIMIT ${limit}`,
);

/** Follows `previous_seq` from the motion that `start` is the seq of: no index, no scan. */
const followingChain = (start: SQL) =>
  prepared<LedgerRow>(sql`
    WITH RECURSIVE motion AS (
      SELECT * FROM credit_ledger WHERE ${ofUser} AND seq = (${start})
      UNION ALL
      SELECT older.* FROM motion CROSS JOIN credit_ledger AS older
      WHERE older.environment_id = motion.environment_id AND older.user_id = motion.user_id
        AND older.seq = motion.previous_seq
      LIMIT ${limit}
    )
    SELECT ${columns} FROM motion`);

const selectNewestOfBalance = followingChain(
  sql`SELECT last_seq FROM credit_balances WHERE ${ofUser} AND id = ${balanceId}`,
);
const selectOlderOfBalance = followingChain(
  sql`SELECT previous_seq FROM credit_ledger WHERE ${ofUser} AND seq = ${before} AND balance_id = ${balanceId}`,
);

function select(ctx: Ctx, { userId, balanceId, limit }: HistoryInput, before: number | null) {
  const values = { environmentId: ctx.environment.id, userId, limit };
  if (balanceId === undefined) return selectPage(ctx.db, { ...values, before: before ?? Number.MAX_SAFE_INTEGER });
  if (before === null) return selectNewestOfBalance(ctx.db, { ...values, balanceId });
  return selectOlderOfBalance(ctx.db, { ...values, balanceId, before });
}
