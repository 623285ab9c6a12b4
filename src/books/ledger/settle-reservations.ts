/** The statement that settles reservations, and the guards of their settlement. */

import { and, type SQL, sql } from "drizzle-orm";
import { alias } from "drizzle-orm/sqlite-core";
import { asInteger, drizzle, insertFrom, query, type ValueOf } from "../../db/query.ts";
import { creditLedger, reservations } from "../../db/schema.ts";
import type { Statement } from "../../db/sql.ts";
import { guards } from "../../db/views.ts";
import { accountOfWrite, type WriteContext, writingValues } from "./account.ts";
import { lastEventOf, placeOfEvent } from "./debits.ts";
import { fromOwed, type Hold, owedOfReservation } from "./hold.ts";
import { lastSeqOf, seqOfEvent } from "./insert-entries.ts";
import { eachLeg, storedLeg } from "./stored-legs.ts";

/** How a reservation ends. */
export interface Ending {
  readonly state: "committed" | "released" | "expired";
  readonly eventId?: string;
  /** Whether its end must have passed. */
  readonly isDue?: true;
}

/** A reservation to settle, and the place of its returns among the next entries of the account. */
export type SettlementRow = Ending &
  Pick<Hold, "id" | "reservationNumber"> & { readonly offset: number; readonly owes: boolean };

/**
 * Settles open reservations of one user. Their returns must follow in the same batch. The batch aborts with
 * `reservations_settled_once` if a reservation is already settled, and with `reservations_state` if its end has moved, an erasure has
 * replaced its id, or it owes something although it was read as owing nothing. `guardOwed` checks the others.
 */
export function settleReservations(writing: WriteContext, rows: readonly SettlementRow[]): Statement {
  const { accountId } = writing;
  // The account is in each row, because SQLite would otherwise read all reservations of the account for each.
  const settlements = JSON.stringify(rows.map((row) => ({ ...row, accountId })));
  return settleReservationsSql({ ...writingValues(writing), settlements });
}

const settleReservationsSql = query((value: ValueOf<WriteContext & { settlements: string }>) => {
  const isNotDue = sql`settled.value ->> 'isDue' AND ${reservations.expiresAtMs} > ${value("nowMs")}`;
  const isRenamed = sql`${reservations.id} <> settled.value ->> 'id'`;
  const owesMore = sql`NOT (settled.value ->> 'owes') AND EXISTS (SELECT 1 ${fromOwed()})`;
  return drizzle
    .update(reservations)
    .set({
      state: sql`iif((${isNotDue}) OR (${isRenamed}) OR (${owesMore}), 'changed', settled.value ->> 'state')`,
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
