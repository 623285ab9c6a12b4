import type { reservations, Steps } from "../../db/schema.ts";
import { fragment, nowMsSql, type Statement, statement } from "../../db/sql.ts";
import { assert } from "../../lib/assert.ts";
import { fromSteps, type Quantities, toSteps, UNITS, type Unit } from "../amounts/amount.ts";
import { type WriteContext, writingValues } from "./account.ts";
import { type Owed, owedOfReservationSql, readOwed } from "./owed.ts";

/** What a reservation holds of one balance. */
export interface HoldLeg {
  readonly balanceId: string;
  readonly packId: string;
  readonly unit: Unit;
  readonly amountSteps: Steps;
  /** The balance after the hold was made. */
  readonly remainingSteps: Steps;
}

/** A hold as the API returns it, without the remaining amount. */
export function presentLeg({ balanceId, packId, unit, amountSteps }: HoldLeg) {
  return { balanceId, packId, unit, amount: fromSteps(unit, amountSteps) };
}

/** The holds of an open reservation. */
export interface Hold {
  readonly id: string;
  readonly legs: readonly HoldLeg[];
}

/** The usage that a reservation is charged with, if nobody settles it in time (U15). */
export interface Charge {
  readonly event: string;
  readonly model: string | null;
  readonly quantities: Quantities;
  /** The reservation's end. */
  readonly occurredAtMs: number;
}

/** The holds of an open reservation that has expired. */
export interface DueHold extends Hold {
  readonly event: string;
  /** Null if the holds return. */
  readonly charge: Charge | null;
  /** What its balances owe, and pay of what they get back (C21). */
  readonly owed: readonly Owed[];
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

/** SQL: whether a reservation is due. It repeats the condition of the partial index, so that SQLite uses the index. */
export const isDue = (account: string): string =>
  fragment`account_id = ${account} AND state = 'open' AND expires_at_ms <= ${nowMsSql}`;

/** SQL: whether an expired reservation is charged. It is not if there is an event of its id already (U15). */
export const isToCharge = fragment`(
  reservations.on_expiry = 'charge' AND NOT EXISTS (
    SELECT 1 FROM usage_events AS taken
    WHERE taken.environment_id = reservations.environment_id AND taken.event_id = reservations.id
  )
)`;

/** SQL: the columns of a `DueRow`. */
export const dueColumns = fragment`id, legs, event, model, quantities, expires_at_ms AS occurredAtMs,
  ${isToCharge} AS isToCharge, ${owedOfReservationSql} AS owed`;

export interface DueRow {
  readonly id: string;
  readonly legs: string;
  readonly event: string;
  readonly model: string | null;
  readonly quantities: string;
  readonly occurredAtMs: number;
  readonly isToCharge: 0 | 1;
  readonly owed: string;
}

/** Of one account, how many due holds are read and settled at a time. They are one value, and a value of D1 has 2 MB. */
export const DUE_HOLDS_MAX = 500;

/** SQL: an account's first due holds as JSON, for `readDueHolds`: those of open reservations that have expired. Usually none. */
export const dueHoldsSql = (account: string): string => fragment`(
  SELECT json_group_array(json_object('id', id, 'legs', legs, 'event', event, 'model', model, 'quantities', quantities,
    'occurredAtMs', occurredAtMs, 'isToCharge', isToCharge, 'owed', owed) ORDER BY occurredAtMs, id)
  FROM (SELECT ${dueColumns} FROM reservations WHERE ${isDue(account)} ORDER BY expires_at_ms LIMIT ${`${DUE_HOLDS_MAX}`})
) || ''`;

/** Reads what `dueHoldsSql` wrote. */
export function readDueHolds(stored: string): readonly DueHold[] {
  return (JSON.parse(stored) as DueRow[]).map(readDueHold);
}

export function readDueHold({
  id,
  legs,
  event,
  model,
  quantities,
  occurredAtMs,
  isToCharge: is,
  owed,
}: DueRow): DueHold {
  const charge = is === 1 ? { event, model, quantities: readQuantities(quantities), occurredAtMs } : null;
  return { id, event, legs: readLegs(legs), charge, owed: readOwed(owed) };
}

/** Reads stored quantities: JSON that Purser wrote, in units. */
function readQuantities(stored: string): Quantities {
  const amounts = JSON.parse(stored) as { readonly [U in Unit]?: number };
  const quantities: { [U in Unit]?: Steps } = {};
  for (const unit of UNITS) {
    const steps = toSteps(unit, amounts[unit] ?? 0);
    assert(steps !== null, "a stored quantity is a whole number of steps");
    if (amounts[unit] !== undefined) quantities[unit] = steps;
  }
  return quantities;
}

/** The entries of a hold's return, for the isolate's memory. */
export function returnEntries({ legs }: Hold): { readonly balanceId: string; readonly deltaSteps: number }[] {
  return legs.map(({ balanceId, amountSteps }) => ({ balanceId, deltaSteps: amountSteps }));
}

/** Keeps a statement's JSON far below the 2 MB that D1 takes. */
export const HOLDS_A_STATEMENT_MAX = 200;

/** A reservation that is settled. */
export interface SettlementRow extends Settlement {
  readonly id: string;
  /** What its charge debits (U15). Absent if it is not charged. */
  readonly charges?: readonly { readonly balanceId: string; readonly deltaSteps: number }[];
}

/**
 * Settles open reservations of one user one after another. The database returns their holds with it, leg by leg. If one of them
 * is already settled, the batch aborts with `reservations_settled_once`; if one is to expire and is not due, with
 * `reservations_state`.
 */
export function insertSettlements(writing: WriteContext, settlements: readonly SettlementRow[]): Statement {
  return insertSettlementsSql({ ...writingValues(writing), settlements: JSON.stringify(settlements) });
}

/** Settles open reservations of one user, all alike. */
export function settleHolds(writing: WriteContext, holds: readonly Hold[], settlement: Settlement): Statement[] {
  const statements: Statement[] = [];
  for (let at = 0; at < holds.length; at += HOLDS_A_STATEMENT_MAX) {
    const some = holds.slice(at, at + HOLDS_A_STATEMENT_MAX);
    statements.push(
      insertSettlements(
        writing,
        some.map(({ id }) => ({ id, ...settlement })),
      ),
    );
  }
  return statements;
}

const insertSettlementsSql = statement<WriteContext & { settlements: string }>`
  INSERT INTO settlements (environment_id, id, state, at_ms, event_id, charges)
  SELECT CAST(:environmentId AS INTEGER), value ->> 'id', value ->> 'state', ${nowMsSql}, value ->> 'eventId',
    value -> 'charges'
  FROM json_each(:settlements) ORDER BY key`;
