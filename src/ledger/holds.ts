import { and, eq, inArray, lte, type SQL, sql } from "drizzle-orm";
import type { Unit } from "../amounts/amount.ts";
import { constraintOf } from "../db/constraint.ts";
import { prepared, selecting } from "../db/prepared.ts";
import { creditBalances, reservations } from "../db/schema.ts";
import { batchAll, type Statement } from "../db/statement.ts";
import { temporarilyUnavailable } from "../errors.ts";
import type { Ctx } from "../runtime.ts";
import { asSpendable, type PayingRow, payingColumns, type SpendableBalance } from "./balance.ts";
import { spendingOrder } from "./burn-down.ts";
import { broughtBack } from "./entries.ts";
import { isLiveOf } from "./select-balances.ts";
import { aboutUser, type User } from "./user.ts";

/**
 * Open reservations, as far as balances are concerned: what they hold, and how it comes back.
 *
 * Every write for a user returns the holds that are due (U8), also one that ends in a refusal. A verb of credits reads
 * `dueHolds` in its first trip and lands its batch by `landAfterDue`, or calls `settleDue` where it lands nothing of its
 * own. A verb of usage, which plans on what comes back, puts `returnedDue` first and plans anew when somebody was faster.
 * Whatever raises a balance (adjust) must leave room for `stepsOnHold`, or the return would break the balance's bounds.
 */
export interface HeldLeg {
  readonly balanceId: string;
  readonly packId: string;
  readonly unit: Unit;
  readonly amountSteps: number;
  /** What the balance was left with when the hold was made. */
  readonly remainingSteps: number;
}

export interface Hold {
  readonly id: string;
  readonly legs: readonly HeldLeg[];
}

/** How a hold ends: the state of its reservation, and the reason of its ledger rows. */
export interface Settlement {
  readonly state: "committed" | "released" | "expired";
  readonly eventId?: string;
}

/** Legs as they are stored: JSON that Purser wrote. */
export function readLegs(stored: string): readonly HeldLeg[] {
  return JSON.parse(stored) as HeldLeg[];
}

const environmentId = sql.placeholder("environmentId");

const isDue = (user: SQL) =>
  and(
    eq(reservations.environmentId, environmentId),
    eq(reservations.userId, user),
    // Written out, so that the planner sees the partial index's own condition.
    sql`${reservations.state} = 'open'`,
    lte(reservations.expiresAtMs, sql.placeholder("nowMs")),
  );

const selectDue = aboutUser((user) =>
  selecting({ id: reservations.id, legs: reservations.legs }, reservations, isDue(user)),
);

/** The user's holds that nobody settled in time. One index range, empty as a rule. */
export function dueHolds(ctx: Ctx, user: User) {
  return selectDue(ctx, user, { nowMs: ctx.now() });
}

/** Whether a balance is named by the legs of some reservations of its user. */
const isHeld = (user: SQL, which: SQL | undefined) => {
  const named = sql`(SELECT leg.value ->> 'balanceId' FROM ${reservations}, json_each(${reservations.legs}) AS leg WHERE ${which})`;
  return and(
    eq(creditBalances.environmentId, environmentId),
    eq(creditBalances.userId, user),
    inArray(creditBalances.id, named),
  );
};

const isNamed = and(
  eq(reservations.environmentId, environmentId),
  eq(reservations.id, sql.placeholder("reservationId")),
);
const selectAble = aboutUser((user) =>
  selecting(payingColumns, creditBalances, isLiveOf(user), isHeld(user, isDue(user))),
);
const selectAbleToCommit = aboutUser((user) =>
  selecting(payingColumns, creditBalances, isLiveOf(user), isHeld(user, isDue(user)), isHeld(user, isNamed)),
);

/** The balances that can pay now, and those that due holds will return to, live or not; some come twice. */
export function ableBalances(ctx: Ctx, userId: string) {
  return selectAble(ctx, userId, { nowMs: ctx.now() });
}

/** The same for the owner of a reservation, and those that it holds of. */
export function balancesAbleToCommit(ctx: Ctx, reservationId: string) {
  return selectAbleToCommit(ctx, { ofReservation: reservationId }, { nowMs: ctx.now(), reservationId });
}

export function readHold(row: { id: string; legs: string }): Hold {
  return { id: row.id, legs: readLegs(row.legs) };
}

/** Balances, each once, as they stand when `holds` have come back: what is revoked stays at nothing (U9). */
export function afterReturn<Row extends Pick<PayingRow, "id" | "remainingSteps" | "revokedAtMs">>(
  rows: readonly Row[],
  holds: readonly Hold[],
): Row[] {
  const returning = new Map<string, number>();
  for (const leg of holds.flatMap((hold) => hold.legs)) {
    returning.set(leg.balanceId, (returning.get(leg.balanceId) ?? 0) + leg.amountSteps);
  }
  const unique = new Map(rows.map((row) => [row.id, row]));
  return [...unique.values()].map((row) => {
    const back = returning.get(row.id);
    if (back === undefined || row.revokedAtMs !== null) return row;
    return { ...row, remainingSteps: row.remainingSteps + back };
  });
}

/** Of some balances, those that can pay at this moment, in spending order (C13). */
export function spendable(rows: readonly PayingRow[], nowMs: number): SpendableBalance[] {
  return rows
    .filter((row) => row.revokedAtMs === null && row.expiresAtMs > nowMs && row.remainingSteps > 0)
    .map(asSpendable)
    .sort(spendingOrder);
}

/** However many are due, a statement's JSON stays far below the 2 MB that D1 takes. */
const HOLDS_A_STATEMENT_MAX = 200;

/**
 * Statements that settle open reservations of one user and bring their holds back, leg by leg. If one of them was
 * settled already, the batch aborts with `reservations_settled_once`.
 */
export function returned(ctx: Ctx, userId: string, holds: readonly Hold[], settlement: Settlement): Statement[] {
  const reason = settlement.state === "expired" ? "reservation_expired" : "reservation_released";
  const statements: Statement[] = [];
  for (let at = 0; at < holds.length; at += HOLDS_A_STATEMENT_MAX) {
    const some = holds.slice(at, at + HOLDS_A_STATEMENT_MAX);
    const returns = some.flatMap((hold) =>
      hold.legs.map(
        ({ balanceId, amountSteps }) => ({ balanceId, amountSteps, reason, reservationId: hold.id }) as const,
      ),
    );
    statements.push(settled(ctx, some, settlement));
    if (returns.length > 0) statements.push(broughtBack(ctx, userId, returns));
  }
  return statements;
}

const settle = prepared(sql`
  UPDATE reservations
  SET state = ${sql.placeholder("state")}, settled_at_ms = CAST(${sql.placeholder("nowMs")} AS INTEGER),
    settled_event_id = ${sql.placeholder("eventId")}
  WHERE environment_id = ${environmentId} AND id IN (SELECT value FROM json_each(${sql.placeholder("ids")}))`);

function settled(ctx: Ctx, holds: readonly Hold[], { state, eventId }: Settlement): Statement {
  const ids = JSON.stringify(holds.map((hold) => hold.id));
  return settle(ctx.db, { environmentId: ctx.environment.id, nowMs: ctx.now(), state, eventId: eventId ?? null, ids });
}

/** The statements that return due holds, to stand first in a batch. */
export function returnedDue(ctx: Ctx, userId: string, due: readonly Hold[]): Statement[] {
  return returned(ctx, userId, due, { state: "expired" });
}

const ATTEMPTS_MAX = 20;

/**
 * Lands a batch that begins with the return of due holds. When somebody else returned one first, or the batch landed
 * and its answer was lost, it is sent again with what is due by then.
 */
export async function landAfterDue<T>(
  ctx: Ctx,
  userId: string,
  due: readonly Hold[],
  land: (returns: readonly Statement[]) => Promise<T>,
): Promise<T> {
  let holds = due;
  for (let attempt = 1; ; attempt++) {
    try {
      return await land(returnedDue(ctx, userId, holds));
    } catch (error) {
      if (constraintOf(error) !== "reservations_settled_once") throw error;
      if (attempt === ATTEMPTS_MAX) throw temporarilyUnavailable("Too many writes for one user at once; try again.");
      holds = (await dueHolds(ctx, userId)).map(readHold);
    }
  }
}

/** Returns due holds by themselves, for a write that lands nothing else. Costs nothing when none are due. */
export async function settleDue(ctx: Ctx, userId: string, due: readonly Hold[]): Promise<void> {
  await landAfterDue(ctx, userId, due, (returns) => batchAll(ctx.db, returns));
}

/**
 * What open reservations hold of a balance, in steps, as an SQL expression: 0 when nothing. A balance's remaining and
 * this together must never exceed `amountStepsMax`.
 */
export function stepsOnHold(ctx: Ctx, userId: string, balanceId: string): SQL<number> {
  return sql<number>`coalesce((
    SELECT sum(leg.value ->> 'amountSteps') FROM reservations AS r, json_each(r.legs) AS leg
    WHERE r.environment_id = ${ctx.environment.id} AND r.user_id = ${userId} AND r.state = 'open'
      AND leg.value ->> 'balanceId' = ${balanceId}
  ), 0)`;
}
