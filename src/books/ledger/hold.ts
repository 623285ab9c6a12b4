import { and, eq, type SQL, sql } from "drizzle-orm";
import { alias, type SQLiteColumn } from "drizzle-orm/sqlite-core";
import {
  asInteger,
  type ColumnsOf,
  computed,
  fields,
  hasRow,
  insertFrom,
  query,
  type RowOf,
  type ValueOf,
} from "../../db/query.ts";
import { creditBalances, refundOwed, reservations, type Steps, usageEvents } from "../../db/schema.ts";
import type { Statement } from "../../db/sql.ts";
import { settlements } from "../../db/views.ts";
import { assert } from "../../errors.ts";
import { fromSteps, type Quantities, toSteps, UNITS, type Unit } from "../amounts/amount.ts";
import { type WriteContext, writingValues } from "./account.ts";
import { type Counted, readCounted } from "./counters.ts";

/** The amount that a reservation holds of one balance. */
export interface HoldLeg {
  readonly balanceId: string;
  readonly packId: string;
  readonly unit: Unit;
  readonly amountSteps: Steps;
  /** The balance after the hold was made. */
  readonly remainingSteps: Steps;
}

/** Returns a hold as the API returns it, without the remaining amount. */
export function presentLeg({ balanceId, packId, unit, amountSteps }: HoldLeg) {
  return { balanceId, packId, unit, amount: fromSteps(unit, amountSteps) };
}

/** The holds of an open reservation. */
export interface Hold {
  readonly id: string;
  readonly legs: readonly HoldLeg[];
}

/** The usage that an expired reservation is charged (U15). */
export interface Charge {
  readonly event: string;
  readonly model: string | null;
  readonly quantities: Quantities;
  /** The reservation's end. */
  readonly occurredAtMs: number;
}

/**
 * An amount that a balance owes to a refund or a payment, because open reservations held it when it was to be taken (C21, S4). When
 * such a reservation is settled, triggers of `owed_settlements` and `owed_payments` make its balances pay.
 */
export interface Owed {
  readonly balanceId: string;
  /** The seq of the entry that took too little. The oldest debt is paid first. */
  readonly seq: number;
  readonly steps: number;
}

/** The holds of an open reservation that has expired. */
export interface DueHold extends Hold {
  readonly endsAtMs: number;
  readonly event: string;
  /** Null if the holds are only returned. */
  readonly charge: Charge | null;
  /** The amounts that its balances owe. They pay them from the returned holds (C21). */
  readonly owed: readonly Owed[];
  /** The amounts that it counts towards usage limits. */
  readonly counted: readonly Counted[];
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

type DueAt = { nowMs: number };

/** Returns a condition: a reservation is open. It repeats the condition of the partial index, so that SQLite uses the index. */
export const isOpen = (reservation: Pick<ColumnsOf<typeof reservations>, "state"> = reservations): SQL =>
  sql`${reservation.state} = 'open'`;

/** Returns a condition: a reservation of the account is due. */
export const isDue = (
  value: ValueOf<DueAt>,
  account: SQL | SQLiteColumn,
  reservation: Pick<ColumnsOf<typeof reservations>, "accountId" | "state" | "expiresAtMs"> = reservations,
): SQL =>
  sql`${reservation.accountId} = ${account} AND ${isOpen(reservation)} AND ${reservation.expiresAtMs} <= ${value("nowMs")}`;

/** The steps that open reservations hold of a row of `creditBalances`. */
export const heldStepsOfBalance = () => sql<Steps>`coalesce((
  SELECT sum(leg.value ->> 'amountSteps') FROM ${reservations}, json_each(${reservations.legs}) AS leg
  WHERE ${reservations.accountId} = ${creditBalances.accountId} AND ${isOpen()}
    AND leg.value ->> 'balanceId' = ${creditBalances.id}
), 0)`;

const chargeEvent = alias(usageEvents, "charge_event");
/** Returns a condition: an expired reservation will be charged. It is not charged if an event with its id exists (U15). */
export const willBeCharged = () =>
  sql<0 | 1>`(${reservations.onExpiry} = 'charge' AND NOT ${hasRow(
    chargeEvent,
    and(eq(chargeEvent.environmentId, reservations.environmentId), eq(chargeEvent.eventId, reservations.id)),
  )})`;

/** Returns SQL for the owed amounts that a reservation's settlement may pay, oldest first. */
const owedOfReservation = () =>
  sql`(
  SELECT json_group_array(json_object(
    'balanceId', ${refundOwed.balanceId}, 'seq', ${refundOwed.seq}, 'steps', ${refundOwed.owedSteps}
  ) ORDER BY ${refundOwed.seq})
  FROM json_each(${reservations.legs}) AS leg CROSS JOIN ${refundOwed}
    ON ${refundOwed.accountId} = ${reservations.accountId} AND ${refundOwed.balanceId} = leg.value ->> 'balanceId'
    AND ${refundOwed.seq} > ${reservations.madeSeq}
)`;
const readOwed = (stored: string) => JSON.parse(stored) as readonly Owed[];

const emptyUnless = (condition: SQL, list: SQL | SQLiteColumn) => sql`iif(${condition}, ${list}, '[]')`;

/** The fields of a `DueRow`. The long ones are empty lists unless `isFirst`, a condition that is true once for each hold. */
export const dueFields = (isFirst: SQL = sql`1`) => ({
  ...fields(reservations, {
    holdId: "id",
    event: "event",
    model: "model",
    quantities: "quantities",
    counted: "counted",
    occurredAtMs: "expiresAtMs",
  }),
  ...computed({
    legs: sql<string>`${emptyUnless(isFirst, reservations.legs)}`,
    isToCharge: willBeCharged(),
    owed: emptyUnless(isFirst, owedOfReservation()).mapWith(readOwed),
  }),
});

export type DueRow = RowOf<ReturnType<typeof dueFields>>;

/** The most due holds of an account that are read and settled at a time. */
export const DUE_HOLDS_MAX = 500;

/** Returns the due holds in the rows of a left join, in order of their ends. */
export function readDueHolds(
  rows: readonly { readonly [Name in keyof DueRow]: DueRow[Name] | null }[],
): readonly DueHold[] {
  // The join finds either all fields of a hold or none.
  const due = rows.filter((row): row is DueRow => row.holdId !== null);
  return due.toSorted(inOrderOfEnds).map(readDueHold);
}

/** The order in which due holds are settled. */
export const inOrderOfEnds = (a: DueRow, b: DueRow): number =>
  a.occurredAtMs - b.occurredAtMs || (a.holdId < b.holdId ? -1 : 1);

export function readDueHold(row: DueRow): DueHold {
  const { holdId: id, event, model, occurredAtMs, owed } = row;
  const legs = readLegs(row.legs);
  const charge =
    row.isToCharge === 1 ? { event, model, quantities: readQuantities(row.quantities, legs), occurredAtMs } : null;
  return {
    id,
    event,
    legs,
    charge,
    owed,
    counted: readCounted(row.counted),
    endsAtMs: occurredAtMs,
  };
}

/** Reads a reservation's quantities: JSON that Purser wrote, in units. Only a free usage (U1) is reserved without a hold. */
function readQuantities(stored: string, legs: readonly HoldLeg[]): Quantities {
  const amounts = JSON.parse(stored) as { readonly [U in Unit]?: number };
  const quantities: { [U in Unit]?: Steps } = {};
  for (const unit of UNITS) {
    const steps = toSteps(unit, amounts[unit] ?? 0);
    assert(steps !== null, "a stored quantity is a whole number of steps");
    if (amounts[unit] !== undefined) quantities[unit] = steps;
  }
  return legs.length === 0 ? { ...quantities, isFree: true } : quantities;
}

/** Keeps a statement's JSON far below the 2 MB that D1 takes. */
export const HOLDS_A_STATEMENT_MAX = 200;

/** A reservation to settle. */
export interface SettlementRow extends Settlement {
  readonly id: string;
  /** The debits of its charge (U15). Absent if it is not charged. */
  readonly charges?: readonly { readonly balanceId: string; readonly deltaSteps: number }[];
}

/**
 * Settles open reservations of one user, in order. Triggers return their holds, balance by balance. The batch aborts with
 * `reservations_settled_once` if a reservation is already settled, and with `reservations_state` if an expiry is not due yet.
 */
export function insertSettlements(writing: WriteContext, settlements: readonly SettlementRow[]): Statement {
  return insertSettlementsSql({ ...writingValues(writing), settlements: JSON.stringify(settlements) });
}

/** Settles open reservations of one user, all in the same way. */
export function settleHolds(
  writing: WriteContext,
  holds: readonly Pick<Hold, "id">[],
  settlement: Settlement,
): Statement[] {
  const statements: Statement[] = [];
  for (let at = 0; at < holds.length; at += HOLDS_A_STATEMENT_MAX) {
    const settlements = holds.slice(at, at + HOLDS_A_STATEMENT_MAX).map(({ id }) => ({ id, ...settlement }));
    statements.push(insertSettlements(writing, settlements));
  }
  return statements;
}

const insertSettlementsSql = query((value: ValueOf<WriteContext & { settlements: string }>) =>
  insertFrom(
    settlements,
    {
      environmentId: asInteger(value("environmentId")),
      id: sql`settled.value ->> 'id'`,
      state: sql`settled.value ->> 'state'`,
      atMs: asInteger(value("nowMs")),
      eventId: sql`settled.value ->> 'eventId'`,
      by: value("by"),
      charges: sql`settled.value -> 'charges'`,
    },
    sql`FROM json_each(${value("settlements")}) AS settled ORDER BY settled.key`,
  ),
);
