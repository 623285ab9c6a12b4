import { and, eq, type SQL, sql } from "drizzle-orm";
import { alias, type SQLiteColumn } from "drizzle-orm/sqlite-core";
import {
  asInteger,
  type ColumnsOf,
  computed,
  drizzle,
  fields,
  hasRow,
  insertFrom,
  query,
  type RowOf,
  type ValueOf,
} from "../../db/query.ts";
import {
  accounts,
  creditBalances,
  creditLedger,
  type Minor,
  refundOwed,
  reservations,
  usageEvents,
} from "../../db/schema.ts";
import type { Statement } from "../../db/sql.ts";
import { guards } from "../../db/views.ts";
import { assert } from "../../errors.ts";
import { fromMinor, type Quantities, toMinor, UNITS, type Unit } from "../amounts/amount.ts";
import { accountOfWrite, type WriteContext, writingValues } from "./account.ts";
import { type Counted, readCounted } from "./counters.ts";
import { lastEventOf, placeOfEvent } from "./debits.ts";
import { lastSeqOf, seqOfEvent } from "./insert-entries.ts";
import { namedMemberOf } from "./payer-members.ts";
import { eachLeg, isBalanceOfLeg, SHOWN_LEG_BYTES_MAX, shownLegs, storedLeg } from "./stored-legs.ts";
import { back, isLastOf, walkBack } from "./walk-back.ts";

/** The amount that a reservation holds of one balance. */
export interface HoldLeg {
  readonly balanceId: string;
  readonly packId: string;
  readonly unit: Unit;
  readonly amountMinor: Minor;
  /** The balance after the hold was made. */
  readonly remainingMinor: Minor;
}

/** Returns a hold as the API returns it, without the remaining amount. */
export function presentLeg({ balanceId, packId, unit, amountMinor }: HoldLeg) {
  return { balanceId, packId, unit, amount: fromMinor(unit, amountMinor) };
}

/** The holds of an open reservation. */
export interface Hold {
  readonly id: string;
  readonly reservationNumber: number;
  readonly legs: readonly HoldLeg[];
  /** The amounts that its balances owe. They pay them from the returned holds (C21). */
  readonly owed: readonly Owed[];
  /** Its balances that are revoked. Returns to them are taken back at once (U9). */
  readonly revocations: readonly RevokedLeg[];
}

/** A revoked balance, and the seq of the first entry after which it is revoked. */
export interface RevokedLeg {
  readonly balanceId: string;
  readonly seq: number;
}

/** The usage that an expired reservation is charged (U15). */
export interface Charge {
  readonly event: string;
  readonly model: string | null;
  readonly quantities: Quantities;
  /** Its meters, as JSON, and the version that priced them. Null for quantities. */
  readonly meters: string | null;
  readonly priceVersion: number | null;
  readonly costMinor: number | null;
  /** The reservation's end. */
  readonly occurredAtMs: number;
}

/**
 * An amount that a balance owes to a refund or a payment, because open reservations held it when it was to be taken (C21, S4). When
 * such a reservation is settled, its balances pay. `leg` is the balance's place in the hold, `seq` that of the entry that took too
 * little.
 */
export type Owed = readonly [leg: number, seq: number, minor: number];

/** The holds of an open reservation that has expired. */
export interface DueHold extends Hold {
  readonly endsAtMs: number;
  /** Its member. Null for none, and for one who was erased. */
  readonly memberId: string | null;
  /** Whether it has a member, also one who was erased. */
  readonly hasMember: boolean;
  readonly event: string;
  /** Null if the holds are only returned. */
  readonly charge: Charge | null;
  /** The amounts that it counts towards usage limits. */
  readonly counted: readonly Counted[];
}

/** A reservation's row, with the columns that the ledger needs. */
export type ReservationRow = Pick<
  typeof reservations.$inferSelect,
  | "id"
  | "reservationNumber"
  | "event"
  | "model"
  | "legs"
  | "state"
  | "createdAtMs"
  | "expiresAtMs"
  | "settledEventSeq"
  | "requestHash"
  | "priceVersion"
  | "memberNumber"
> &
  Pick<Hold, "owed" | "revocations"> &
  Pick<DueHold, "memberId">;
export type OpenReservation = ReservationRow & { readonly state: "open" };

/** Reads `shownLegs`: JSON that Purser wrote. */
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

/** Returns the minor units that some holds have of a balance. */
export const heldMinorOf = (holds: readonly Pick<Hold, "legs">[], balanceId: string): number =>
  holds.flatMap(({ legs }) => legs).reduce((sum, leg) => sum + (leg.balanceId === balanceId ? leg.amountMinor : 0), 0);

/** The minor units that open reservations hold of a row of `creditBalances`. */
export const heldMinorOfBalance = () => sql<Minor>`coalesce((
  SELECT sum(${storedLeg.minor}) FROM ${reservations}, ${eachLeg(reservations.legs)}
  WHERE ${reservations.accountId} = ${creditBalances.accountId} AND ${isOpen()}
    AND ${storedLeg.grantSeq} = ${creditBalances.grantSeq}
), 0)`;

const chargeEvent = alias(usageEvents, "charge_event");
/** Returns a condition: an expired reservation will be charged. It is not charged if an event with its id exists (U15). */
export const willBeCharged = () =>
  sql<0 | 1>`(${reservations.onExpiry} = 'charge' AND NOT ${hasRow(
    chargeEvent,
    and(eq(chargeEvent.environmentId, reservations.environmentId), eq(chargeEvent.eventId, reservations.id)),
  )})`;

/** The FROM clause: the owed amounts that a reservation's settlement may pay, each with its leg. */
const fromOwed = () =>
  sql`FROM ${eachLeg(reservations.legs)} CROSS JOIN ${creditBalances} ON ${isBalanceOfLeg(reservations.accountId)}
    CROSS JOIN ${refundOwed} ON ${refundOwed.accountId} = ${reservations.accountId} AND ${refundOwed.balanceId} = ${creditBalances.id}
    AND ${refundOwed.seq} > ${reservations.createdAtSeq}`;

/** Returns SQL for these amounts, the oldest of each leg first. An account has at most `OWED_MAX` of them. */
const owedOfReservation = () =>
  sql`(
  SELECT json_group_array(json_array(leg.key, ${refundOwed.seq}, ${refundOwed.owedMinor}) ORDER BY leg.key, ${refundOwed.seq})
  ${fromOwed()}
)`;
const readOwed = (stored: string) => JSON.parse(stored) as readonly Owed[];

const held = alias(creditBalances, "held");

/** Returns SQL for the seq of the entry that revoked `held`. Earlier reversals (U9) repeat its cause and note, so it ends at the last. */
const revokingSeq = () => {
  const walk = walkBack({
    columns: ["reservationNumber"],
    start: sql`${creditLedger} WHERE ${isLastOf(held)}`,
    continues: sql`${creditLedger.isRevoked} = 1 AND ${back.reservationNumber} IS NULL`,
  });
  return sql`(WITH RECURSIVE ${walk} SELECT min(${back.seq}) FROM ${back})`;
};

/** Returns SQL for the revoked balances of a reservation's holds. */
const revocationsOfReservation = () => sql`(
  SELECT json_group_array(json_object('balanceId', ${held.id}, 'seq', ${revokingSeq()}))
  FROM ${eachLeg(reservations.legs)} CROSS JOIN ${creditBalances} AS ${held} ON ${isBalanceOfLeg(reservations.accountId, held)}
  WHERE ${held.revokedAtMs} IS NOT NULL
)`;
const readRevocations = (stored: string) => JSON.parse(stored) as readonly RevokedLeg[];

/** The fields of an open reservation that only its settlement needs. They are empty lists unless `isFirst`. */
export const settlementFields = (isFirst: SQL = sql`1`) => {
  const isNeeded = sql`${isFirst} AND ${isOpen()}`;
  return computed({
    owed: emptyUnless(isNeeded, owedOfReservation()).mapWith(readOwed),
    revocations: emptyUnless(isNeeded, revocationsOfReservation()).mapWith(readRevocations),
  });
};

const emptyUnless = (condition: SQL, list: SQL | SQLiteColumn) => sql`iif(${condition}, ${list}, '[]')`;

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
    memberId: namedMemberOf(reservations),
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

/** The order in which due holds are settled. */
export const inOrderOfEnds = (a: DueRow, b: DueRow): number =>
  a.occurredAtMs - b.occurredAtMs || (a.holdId < b.holdId ? -1 : 1);

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
    assert(minor !== null, "a stored quantity is a whole number of steps");
    if (amounts[unit] !== undefined) quantities[unit] = minor;
  }
  return legs.length === 0 ? { ...quantities, isFree: true } : quantities;
}

/** How a reservation ends. */
export interface Ending {
  readonly state: "committed" | "released" | "expired";
  readonly eventId?: string;
  /** Whether its end must have passed. */
  readonly isDue?: true;
}

/** A reservation to settle, and the place of its returns among the next entries of the account. */
export type SettlementRow = Ending &
  Pick<Hold, "reservationNumber"> & { readonly offset: number; readonly owes: boolean };

/**
 * Settles open reservations of one user. Their returns must follow in the same batch. The batch aborts with
 * `reservations_settled_once` if a reservation is already settled, and with `reservations_state` if its end has moved, or it owes
 * something although it was read as owing nothing. `guardOwed` checks the others.
 */
export function settleReservations(writing: WriteContext, rows: readonly SettlementRow[]): Statement {
  const { accountId } = writing;
  // The account is in each row, because SQLite would otherwise read all reservations of the account for each.
  const settlements = JSON.stringify(rows.map((row) => ({ ...row, accountId })));
  return settleReservationsSql({ ...writingValues(writing), settlements });
}

const settleReservationsSql = query((value: ValueOf<WriteContext & { settlements: string }>) => {
  const isNotDue = sql`settled.value ->> 'isDue' AND ${reservations.expiresAtMs} > ${value("nowMs")}`;
  const owesMore = sql`NOT (settled.value ->> 'owes') AND EXISTS (SELECT 1 ${fromOwed()})`;
  return drizzle
    .update(reservations)
    .set({
      state: sql`iif((${isNotDue}) OR (${owesMore}), 'changed', settled.value ->> 'state')`,
      settledAtMs: asInteger(value("nowMs")),
      settledEventSeq: seqOfSettlingEvent(value, sql`settled.value ->> 'eventId'`),
      settledSeq: sql`1 + (settled.value ->> 'offset') + ${lastSeqOf(accountOfWrite(value))}`,
    })
    .from(sql`json_each(${value("settlements")}) AS settled`)
    .where(
      and(
        sql`${reservations.accountId} = settled.value ->> 'accountId'`,
        sql`${reservations.reservationNumber} = settled.value ->> 'reservationNumber'`,
      ),
    );
});

/** SQL: the seq of the event that settles a reservation. A charge's event is written before, a commit's directly after. */
export const seqOfSettlingEvent = (
  value: ValueOf<WriteContext>,
  eventId: SQL,
) => sql`iif(${eventId} IS NULL, NULL, coalesce(
  ${seqOfEvent(value, eventId)}, (SELECT ${placeOfEvent(value).seq} FROM (SELECT 1) LEFT JOIN ${lastEventOf(value)})
))`;

/** Aborts the batch with `guard_account` if one of these reservations owes other amounts than those that were read. */
export const guardOwed = query((value: ValueOf<WriteContext & { holds: string }>) => {
  const owesOther = sql`
    SELECT 1 FROM json_each(${value("holds")}) AS item
    CROSS JOIN ${reservations} ON ${reservations.accountId} = ${accountOfWrite(value)} AND ${reservations.reservationNumber} = item.value ->> 0
    WHERE ${owedOfReservation()} <> item.value ->> 1`;
  return insertFrom(guards, { name: sql`'account'`, holds: sql`NOT EXISTS (${owesOther})` }, sql``);
});

const returned = alias(creditLedger, "returned");

/** Aborts the batch with `guard_settlement` unless each of these settled reservations has the return of each of its holds. */
export const guardReturned = query((value: ValueOf<WriteContext & { numbers: string }>) => {
  const isReturn = sql`${returned.accountId} = ${reservations.accountId}
    AND ${returned.seq} = ${reservations.settledSeq} + leg.key AND ${returned.reservationNumber} = ${reservations.reservationNumber}
    AND ${returned.grantSeq} = ${storedLeg.grantSeq} AND ${returned.deltaMinor} = ${storedLeg.minor}`;
  const isMissing = sql`
    SELECT 1 FROM json_each(${value("numbers")}) AS item
    CROSS JOIN ${reservations} ON ${reservations.accountId} = ${accountOfWrite(value)} AND ${reservations.reservationNumber} = item.value
    CROSS JOIN ${eachLeg(reservations.legs)}
    WHERE NOT EXISTS (SELECT 1 FROM ${creditLedger} AS ${returned} WHERE ${isReturn})`;
  return insertFrom(guards, { name: sql`'settlement'`, holds: sql`NOT EXISTS (${isMissing})` }, sql``);
});
