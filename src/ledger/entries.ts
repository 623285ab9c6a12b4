import { type SQL, sql } from "drizzle-orm";
import { fromSteps } from "../amounts/amount.ts";
import { prepared, type Values } from "../db/prepared.ts";
import type { creditLedger } from "../db/schema.ts";
import { iso } from "../lib/time.ts";
import type { Ctx } from "../runtime.ts";

/**
 * The only writer of amounts. Two ways: a balance is born (`bearing`, its ledger row written by a trigger), or a
 * motion is appended (`appended`, which triggers apply to the balance). Nothing else writes `remaining_steps`.
 */
export type LedgerRow = Omit<typeof creditLedger.$inferSelect, "environmentId" | "userId">;

const environmentId = sql.placeholder("environmentId");
const userId = sql.placeholder("userId");
const nowMs = sql`CAST(${sql.placeholder("nowMs")} AS INTEGER)`;

/** The user's next ledger seq, less one: read inside the statement that writes, so it cannot be stale. */
const lastSeq = sql`coalesce((
  SELECT seq FROM credit_ledger WHERE environment_id = ${environmentId} AND user_id = ${userId} ORDER BY seq DESC LIMIT 1
), 0)`;

/** The values of every statement here. */
const common = (ctx: Ctx, user: string): Values => ({
  environmentId: ctx.environment.id,
  userId: user,
  nowMs: ctx.now(),
});

/** What a grant decides of one balance. Amounts in steps, times in milliseconds. */
export interface Birth {
  readonly id: string;
  readonly packItemId: string;
  readonly unit: string;
  /** JSON list of match rules. */
  readonly matches: string;
  readonly priority: number;
  readonly amountSteps: number;
}

export interface Issue {
  readonly userId: string;
  readonly packId: string;
  readonly packName: string;
  readonly source: string;
  readonly externalRef: string | null;
  readonly notes: string | null;
  readonly grantedAtMs: number;
  readonly expiresAtMs: number;
  readonly births: readonly Birth[];
}

/**
 * One statement that brings all of an issue's balances to life, or none: `unless` is the condition under which they are
 * there already, its placeholders to be given as `values`. JSON carries what is issued, since D1 binds numbers as REAL.
 */
export function bearing(unless: SQL) {
  const statement = prepared(sql`
    INSERT INTO credit_balances (
      environment_id, user_id, id, pack_id, pack_name, pack_item_id, unit, matches, priority, initial_steps,
      remaining_steps, is_live, source, external_ref, notes, granted_at_ms, expires_at_ms, grant_seq, last_seq
    )
    SELECT CAST(${environmentId} AS INTEGER), ${userId}, birth.value ->> 'id', issue.value ->> 'packId',
      issue.value ->> 'packName', birth.value ->> 'packItemId', birth.value ->> 'unit', birth.value ->> 'matches',
      birth.value ->> 'priority', birth.value ->> 'amountSteps', birth.value ->> 'amountSteps', 1,
      issue.value ->> 'source', issue.value ->> 'externalRef', issue.value ->> 'notes', issue.value ->> 'grantedAtMs',
      issue.value ->> 'expiresAtMs', last.seq + 1 + birth.key, last.seq + 1 + birth.key
    FROM json_each(${sql.placeholder("issue")}) AS issue, json_each(${sql.placeholder("births")}) AS birth,
      (SELECT ${lastSeq} AS seq) AS last
    WHERE NOT (${unless})
    ORDER BY birth.key`);
  return (ctx: Ctx, { births, ...issue }: Issue, values: Values) =>
    statement(ctx.db, {
      ...common(ctx, issue.userId),
      ...values,
      issue: JSON.stringify([issue]),
      births: JSON.stringify(births),
    });
}

/** One motion of one balance. */
export interface Motion {
  readonly balanceId: string;
  /** In steps; negative when credits are consumed. */
  readonly deltaSteps: number;
  readonly reason: Exclude<LedgerRow["reason"], "grant">;
  readonly eventId?: string;
  readonly reservationId?: string;
  readonly note?: string;
}

/**
 * One statement that appends motions to a user's ledger, in their order; no balance may appear twice in one statement,
 * since each row goes on from where its balance stood before it. Each delta is final: a CHECK aborts the whole batch
 * when one would go below zero. `provided` holds the motions back unless it is true, its placeholders given as `values`.
 */
export function appending(provided: SQL) {
  const statement = prepared(sql`
    INSERT INTO credit_ledger (
      environment_id, user_id, seq, balance_id, pack_id, unit, delta_steps, balance_after_steps, previous_seq, reason,
      event_id, reservation_id, note, occurred_at_ms
    )
    SELECT b.environment_id, b.user_id, last.seq + 1 + motion.key, b.id, b.pack_id, b.unit,
      motion.value ->> 'deltaSteps', b.remaining_steps + (motion.value ->> 'deltaSteps'), b.last_seq,
      motion.value ->> 'reason', motion.value ->> 'eventId', motion.value ->> 'reservationId',
      motion.value ->> 'note', ${nowMs}
    FROM (SELECT ${lastSeq} AS seq) AS last, json_each(${sql.placeholder("motions")}) AS motion
    CROSS JOIN credit_balances AS b
    WHERE b.environment_id = ${environmentId} AND b.user_id = ${userId} AND b.id = motion.value ->> 'balanceId'
      AND (${provided})
    ORDER BY motion.key`);
  return (ctx: Ctx, user: string, motions: readonly Motion[], values: Values = {}) =>
    statement(ctx.db, { ...common(ctx, user), ...values, motions: JSON.stringify(motions) });
}

/** Appends whatever comes. */
export const appended = appending(sql`1`);

/** What comes back to one balance from one reservation. */
export interface Return {
  readonly balanceId: string;
  readonly amountSteps: number;
  readonly reason: "reservation_released" | "reservation_expired";
  readonly reservationId: string;
}

// Triggers on the ledger make SQLite settle the whole SELECT before the first row goes in, so `b` stands still here.
const bringBack = prepared(sql`
  INSERT INTO credit_ledger (
    environment_id, user_id, seq, balance_id, pack_id, unit, delta_steps, balance_after_steps, previous_seq, reason,
    reservation_id, occurred_at_ms
  )
  SELECT environment_id, user_id, seq, id, pack_id, unit, delta_steps,
    remaining_steps + sum(delta_steps) OVER one_balance, lag(seq, 1, last_seq) OVER one_balance, reason,
    reservation_id, ${nowMs}
  FROM (
    SELECT b.*, last.seq + row_number() OVER (ORDER BY back.key, way.reverses) AS seq,
      iif(way.reverses, -1, 1) * (back.value ->> 'amountSteps') AS delta_steps,
      iif(way.reverses, 'admin_adjust', back.value ->> 'reason') AS reason,
      back.value ->> 'reservationId' AS reservation_id
    FROM (SELECT ${lastSeq} AS seq) AS last, json_each(${sql.placeholder("returns")}) AS back
    CROSS JOIN credit_balances AS b
    CROSS JOIN (SELECT 0 AS reverses UNION ALL SELECT 1) AS way
    WHERE b.environment_id = ${environmentId} AND b.user_id = ${userId} AND b.id = back.value ->> 'balanceId'
      AND (way.reverses = 0 OR b.revoked_at_ms IS NOT NULL)
  )
  WINDOW one_balance AS (PARTITION BY id ORDER BY seq)
  ORDER BY seq`);

/**
 * One statement that brings held amounts back, in their order; a balance may get several. What comes back to a balance
 * that is revoked by then is reversed by the very next row (U9).
 */
export function broughtBack(ctx: Ctx, user: string, returns: readonly Return[]) {
  return bringBack(ctx.db, { ...common(ctx, user), returns: JSON.stringify(returns) });
}

const reverse = prepared(sql`
  INSERT INTO credit_ledger (
    environment_id, user_id, seq, balance_id, pack_id, unit, delta_steps, balance_after_steps, previous_seq, reason,
    note, occurred_at_ms
  )
  SELECT b.environment_id, b.user_id, 1 + (
      SELECT seq FROM credit_ledger
      WHERE environment_id = b.environment_id AND user_id = b.user_id ORDER BY seq DESC LIMIT 1
    ), b.id, b.pack_id, b.unit, -b.remaining_steps, 0, b.last_seq, 'admin_adjust', ${sql.placeholder("note")}, ${nowMs}
  FROM credit_balances AS b
  WHERE b.id = ${sql.placeholder("balanceId")} AND b.environment_id = ${environmentId} AND b.revoked_at_ms IS NULL`);

/** The one motion of a revoke: whatever remains is taken back, unless the balance is revoked already. */
export function reversed(ctx: Ctx, user: string, balanceId: string, note: string | null) {
  return reverse(ctx.db, { ...common(ctx, user), balanceId, note });
}

/** A ledger row with the fields of interface.md, and `note` and `unit` (C16). Its id follows from what is unique. */
export function presentEntry(row: LedgerRow) {
  return {
    id: `led_${row.balanceId.replace(/^crb_/, "")}_${row.seq}`,
    balanceId: row.balanceId,
    packId: row.packId,
    delta: fromSteps(row.unit, row.deltaSteps),
    unit: row.unit,
    reason: row.reason,
    eventId: row.eventId,
    reservationId: row.reservationId,
    occurredAt: iso(row.occurredAtMs),
    note: row.note,
  };
}
