import type { Unit } from "../amounts/amount.ts";
import type { reservations, Steps } from "../db/schema.ts";
import { fragment, nowMsSql, type Statement, statement } from "../db/sql.ts";
import { type WriteContext, writingValues } from "./account.ts";
import { insertReturns } from "./insert-entries.ts";

/** What a reservation holds of one balance. */
export interface HoldLeg {
  readonly balanceId: string;
  readonly packId: string;
  readonly unit: Unit;
  readonly amountSteps: Steps;
  /** The balance after the hold was made. */
  readonly remainingSteps: Steps;
}

/** The holds of an open reservation. */
export interface Hold {
  readonly id: string;
  readonly legs: readonly HoldLeg[];
}

/** A reservation's row, with the columns that the ledger needs. */
export type ReservationRow = Pick<
  typeof reservations.$inferSelect,
  "id" | "event" | "model" | "legs" | "state" | "createdAtMs" | "expiresAtMs" | "settledEventId" | "requestHash"
>;
export type OpenReservation = ReservationRow & { readonly state: "open" };

/** How a hold ends: the state of its reservation, and the reason of its ledger entries. */
export interface Settlement {
  readonly state: "committed" | "released" | "expired";
  readonly eventId?: string;
}

/** Reads stored legs: JSON that Purser wrote. */
export function readLegs(stored: string): readonly HoldLeg[] {
  return JSON.parse(stored) as HoldLeg[];
}

export function readHold(row: { readonly id: string; readonly legs: string }): Hold {
  return { id: row.id, legs: readLegs(row.legs) };
}

/** SQL: whether a reservation is due. It repeats the condition of the partial index, so that SQLite uses the index. */
export const isDue = (account: string): string =>
  fragment`account_id = ${account} AND state = 'open' AND expires_at_ms <= ${nowMsSql}`;

/** SQL: an account's due holds as JSON, for `readDueHolds`: those of open reservations that have expired. Usually none. */
export const dueHoldsSql = (account: string): string => fragment`(
  SELECT json_group_array(json_object('id', id, 'legs', json(legs)) ORDER BY expires_at_ms, id)
  FROM reservations WHERE ${isDue(account)}
)`;

/** Reads what `dueHoldsSql` wrote. */
export function readDueHolds(stored: string): readonly Hold[] {
  return JSON.parse(stored) as Hold[];
}

/** The entries of a hold's return, for the isolate's memory. */
export function returnEntries({ legs }: Hold): { readonly balanceId: string; readonly deltaSteps: number }[] {
  return legs.map(({ balanceId, amountSteps }) => ({ balanceId, deltaSteps: amountSteps }));
}

/** Keeps a statement's JSON far below the 2 MB that D1 takes. */
const HOLDS_A_STATEMENT_MAX = 200;

/**
 * Statements that settle open reservations of one user and return their holds, leg by leg. If one of them is already
 * settled, the batch aborts with `reservations_settled_once`; if one is to expire and is not due, with `reservations_state`.
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

// One that was extended meanwhile is not due any more: the CHECK `reservations_state` aborts the batch.
const settleSql = statement<WriteContext & ReturnType<typeof settlementValues>>`
  UPDATE reservations SET state = iif(:state = 'expired' AND expires_at_ms > ${nowMsSql}, 'not due', :state),
    settled_at_ms = ${nowMsSql}, settled_event_id = :eventId
  WHERE environment_id = :environmentId AND id IN (SELECT value FROM json_each(:ids))`;
