import type { Unit } from "../amounts/amount.ts";
import type { reservations, Steps } from "../db/schema.ts";
import { fragment, type Statement, statement } from "../db/sql.ts";
import { aboutAccount, nowMsSql, type WriteContext, writingValues } from "./account.ts";
import { insertReturns } from "./insert-entries.ts";

/** What a reservation holds of one balance. */
export interface HoldLeg {
  readonly balanceId: string;
  readonly packId: string;
  readonly unit: Unit;
  readonly amountSteps: Steps;
  /** What the balance was left with when the hold was made. */
  readonly remainingSteps: Steps;
}

/** An open reservation, as far as balances are concerned. */
export interface Hold {
  readonly id: string;
  readonly legs: readonly HoldLeg[];
}

/** A reservation's row, without what never changes its meaning for the books. */
export type ReservationRow = Pick<
  typeof reservations.$inferSelect,
  "id" | "event" | "model" | "legs" | "state" | "expiresAtMs" | "settledEventId" | "requestHash"
>;
export type OpenReservation = ReservationRow & { readonly state: "open" };

/** How a hold ends: the state of its reservation, and the reason of its ledger entries. */
export interface Settlement {
  readonly state: "committed" | "released" | "expired";
  readonly eventId?: string;
}

/** Legs as they are stored: JSON that Purser wrote. */
export function readLegs(stored: string): readonly HoldLeg[] {
  return JSON.parse(stored) as HoldLeg[];
}

export function readHold(row: { readonly id: string; readonly legs: string }): Hold {
  return { id: row.id, legs: readLegs(row.legs) };
}

/** Whether a reservation of the account was to be settled by now. Names the partial index's condition, so that it serves. */
export const isDue = (account: string): string =>
  fragment`account_id = ${account} AND state = 'open' AND expires_at_ms <= ${nowMsSql}`;

/** The user's holds that nobody settled in time. One index range, empty as a rule. */
export const selectDueHolds = aboutAccount<{ nowMs: number }, { id: string; legs: string }>(
  (account) => statement`SELECT id, legs FROM reservations WHERE ${isDue(account)} ORDER BY expires_at_ms, id`,
);

/** What a hold's return does to its balances, for what is remembered. */
export function returnEntries({ legs }: Hold): { readonly balanceId: string; readonly deltaSteps: number }[] {
  return legs.map(({ balanceId, amountSteps }) => ({ balanceId, deltaSteps: amountSteps }));
}

/** However many are due, a statement's JSON stays far below the 2 MB that D1 takes. */
const HOLDS_A_STATEMENT_MAX = 200;

/**
 * Statements that settle open reservations of one user and bring their holds back, leg by leg. If one of them was settled
 * already, the batch aborts with `reservations_settled_once`.
 */
export function settleHolds(writing: WriteContext, holds: readonly Hold[], settlement: Settlement): Statement[] {
  const reason = settlement.state === "expired" ? "reservation_expired" : "reservation_released";
  const statements: Statement[] = [];
  for (let at = 0; at < holds.length; at += HOLDS_A_STATEMENT_MAX) {
    const some = holds.slice(at, at + HOLDS_A_STATEMENT_MAX);
    const returns = some.flatMap(({ id, legs }) =>
      legs.map(({ balanceId, amountSteps }) => ({ balanceId, amountSteps, reason, reservationId: id }) as const),
    );
    statements.push(
      settleSql({ ...writingValues(writing), ...settlementValues(some, settlement) }),
      ...insertReturns(writing, returns),
    );
  }
  return statements;
}

const settlementValues = (holds: readonly Hold[], { state, eventId }: Settlement) => ({
  state,
  eventId: eventId ?? null,
  ids: JSON.stringify(holds.map((hold) => hold.id)),
});

const settleSql = statement<WriteContext & ReturnType<typeof settlementValues>>`
  UPDATE reservations SET state = :state, settled_at_ms = ${nowMsSql}, settled_event_id = :eventId
  WHERE environment_id = :environmentId AND id IN (SELECT value FROM json_each(:ids))`;
