/** The due holds of an account, as they are read with it. */

import { type SQL, sql } from "drizzle-orm";
import { computed, fields, type RowOf, type ValueOf } from "../../db/query.ts";
import { accounts, type Minor, refundOwed, reservations } from "../../db/schema.ts";
import { assert } from "../../errors.ts";
import { type Quantities, toMinor, UNITS, type Unit } from "../amounts/amount.ts";
import { readCounted } from "./counters.ts";
import {
  type DueAt,
  type DueHold,
  emptyUnless,
  type HoldLeg,
  isDue,
  readLegs,
  settlementFields,
  willBeCharged,
} from "./hold.ts";
import { memberOfMessage } from "./payer-members.ts";
import { SHOWN_LEG_BYTES_MAX, shownLegs } from "./stored-legs.ts";

/** The fields of a `DueRow`. The long ones are empty lists unless `isFirst`, a condition that is true once for each hold. */
export const dueFields = (isFirst: SQL = sql`1`) => ({
  ...fields(reservations, {
    holdId: "id",
    reservationNumber: "reservationNumber",
    event: "event",
    model: "model",
    quantities: "quantities",
    meters: "meters",
    priceVersion: "priceVersion",
    costMinor: "costMinor",
    counted: "counted",
    memberNumber: "memberNumber",
    occurredAtMs: "expiresAtMs",
  }),
  ...computed({
    legs: sql<string>`${emptyUnless(isFirst, shownLegs())}`,
    isToCharge: willBeCharged(),
    memberId: memberOfMessage(),
  }),
  ...settlementFields(isFirst),
});

export type DueRow = RowOf<ReturnType<typeof dueFields>>;

/** The most due holds of an account that are read and settled at a time. */
export const DUE_HOLDS_MAX = 500;
/** If the due holds before one have this size, it is read later. It bounds the memory of an isolate. */
const DUE_BYTES_MAX = 4 * 1024 * 1024;
/** An owed amount as JSON is not longer. */
const OWED_BYTES_MAX = 36;

/**
 * Returns a condition for a join with `accounts`: a reservation of the account is due, and is read now. `account` finds the same
 * account without the join's row. With that row, SQLite would look for the last one again for each due reservation.
 */
export const isDueNow = (value: ValueOf<DueAt>, account: SQL) => {
  const { expiresAtMs, reservationNumber, legs, legCount } = reservations;
  const owedBytes = sql`${OWED_BYTES_MAX} * (SELECT count(*) FROM ${refundOwed} WHERE ${refundOwed.accountId} = ${account})`;
  const first = sql`SELECT ${expiresAtMs} AS ends, ${reservationNumber} AS number, octet_length(${legs}) + ${SHOWN_LEG_BYTES_MAX} * ${legCount} + ${owedBytes} AS weight
    FROM ${reservations} WHERE ${isDue(value, account)} ORDER BY 1, 2 LIMIT ${DUE_HOLDS_MAX}`;
  const summed = sql`SELECT *, sum(weight) OVER (ORDER BY ends, number) - weight AS earlier FROM (${first})`;
  const last = sql`SELECT ends, number FROM (${summed}) WHERE earlier < ${DUE_BYTES_MAX} ORDER BY 1 DESC, 2 DESC LIMIT 1`;
  // Because of the pluses, SQLite looks for the last one only if there is a due one.
  return sql`${isDue(value, accounts.id)} AND (+${expiresAtMs}, +${reservationNumber}) <= (${last})`;
};

/** Returns SQL for the number of due holds, up to the most that are read at a time. */
export const countDueHolds = (value: ValueOf<DueAt>, account: SQL) =>
  sql<number>`iif(${reservations.reservationNumber} IS NULL, 0, (
    SELECT count(*) FROM (SELECT 1 FROM ${reservations} WHERE ${isDue(value, account)} LIMIT ${DUE_HOLDS_MAX})
  ))`;

/** Returns the due holds in the rows of a left join, in order of their ends. */
export function readDueHolds(
  rows: readonly { readonly [Name in keyof DueRow]: DueRow[Name] | null }[],
): readonly DueHold[] {
  // The join finds either all fields of a hold or none.
  const due = rows.filter((row): row is DueRow => row.holdId !== null);
  return due.toSorted(inOrderOfEnds).map(readDueHold);
}

/** The order in which due holds are settled and read: an erasure may replace their ids, but not their numbers (ME6). */
export const inOrderOfEnds = (a: DueRow, b: DueRow): number =>
  a.occurredAtMs - b.occurredAtMs || a.reservationNumber - b.reservationNumber;

export function readDueHold(row: DueRow): DueHold {
  const {
    holdId: id,
    reservationNumber,
    memberId,
    event,
    model,
    meters,
    costMinor,
    occurredAtMs,
    owed,
    revocations,
  } = row;
  const legs = readLegs(row.legs);
  const quantities = readQuantities(row.quantities, legs);
  const priceVersion = meters === null ? null : row.priceVersion;
  const charge =
    row.isToCharge === 1 ? { event, model, quantities, meters, priceVersion, costMinor, occurredAtMs } : null;
  return {
    id,
    reservationNumber,
    memberId,
    hasMember: row.memberNumber !== null,
    event,
    legs,
    charge,
    owed,
    revocations,
    counted: readCounted(row.counted),
    endsAtMs: occurredAtMs,
  };
}

/** Reads a reservation's quantities: JSON that Purser wrote, in units. Only a free usage (U1) is reserved without a hold. */
function readQuantities(stored: string, legs: readonly HoldLeg[]): Quantities {
  const amounts = JSON.parse(stored) as { readonly [U in Unit]?: number };
  const quantities: { [U in Unit]?: Minor } = {};
  for (const unit of UNITS) {
    const minor = toMinor(unit, amounts[unit] ?? 0);
    assert(minor !== null, "a stored quantity is a whole number of minor units");
    if (amounts[unit] !== undefined) quantities[unit] = minor;
  }
  return legs.length === 0 ? { ...quantities, isFree: true } : quantities;
}
