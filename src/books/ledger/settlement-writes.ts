import { and, type SQL, sql } from "drizzle-orm";
import { alias } from "drizzle-orm/sqlite-core";
import { asInteger, drizzle, insertFrom, query, type ValueOf } from "../../db/query.ts";
import { creditLedger, reservations } from "../../db/schema.ts";
import type { Statement } from "../../db/sql.ts";
import { guards } from "../../db/views.ts";
import { presentMeters } from "../amounts/meters.ts";
import { accountOfWrite, type WriteContext, writingValues } from "./account.ts";
import { LEGS_MAX } from "./burn-down.ts";
import { chargeWrites } from "./charge-writes.ts";
import { lastEventOf, placeOfEvent } from "./debits.ts";
import { fromOwed, type Hold, owedOfReservation } from "./hold.ts";
import { type CreditMovement, insertEntries, lastSeqOf, type NewEntry, seqOfEvent } from "./insert-entries.ts";
import { type LedgerMessage, reservationExpired, usageRecorded } from "./messages.ts";
import { lowerOwed } from "./owed.ts";
import type { Ending, SettledHold, Settlement } from "./settle.ts";
import { eachLeg, storedLeg } from "./stored-legs.ts";

/** A statement's JSON must stay far below the 2 MB that D1 takes. */
const HOLDS_A_STATEMENT_MAX = 200;

/** Returns the statements that write some settled holds, in order. `guardsOfOwed` must come first in the batch. */
export function settlementWrites(account: WriteContext, settled: readonly SettledHold[]): Statement[] {
  return inStatements(settled).flatMap((holds) => {
    const { before, after } = writesInStatements(account, holds);
    // The events of charges come first, because a settled reservation without its event no longer counts towards limits.
    return [...chargeWrites(account, holds), ...before, ...after];
  });
}

/** Returns the statements that settle reservations: those before and after the events whose usage they debit. */
export function writesOfSettlements(account: WriteContext, settled: readonly Settlement[]) {
  if (settled.length === 0) return { before: [], after: [] };
  const { before, after } = writesInStatements(account, settled);
  return { before: [...guardsOfOwed(account, settled), ...before], after };
}

function writesInStatements(account: WriteContext, settled: readonly Settlement[]) {
  const entries: NewEntry[] = [];
  const rows = settled.map(({ hold: { id, reservationNumber, owed }, ending, entries: own }) => {
    const offset = entries.length;
    entries.push(...own);
    return { id, reservationNumber, owes: owed.length > 0, offset, ...ending };
  });
  const payments = settled.flatMap((one) => one.payments);
  return {
    before: [settleReservations(account, rows)],
    after: [
      ...insertEntries(account, entries),
      ...lowerOwed(account, payments),
      guardReturned({
        ...writingValues(account),
        numbers: JSON.stringify(rows.map(({ reservationNumber }) => reservationNumber)),
      }),
    ],
  };
}

/** The most owed amounts that one guard compares. As JSON they have less than 2 MB. */
const OWED_A_STATEMENT_MAX = 20_000;

/** Returns the guards of what the holds of a batch owe. They come before the first settlement, which lowers these amounts. */
export function guardsOfOwed(account: WriteContext, settled: readonly Settlement[]): Statement[] {
  const groups: Hold[][] = [];
  let owedOfGroup = Infinity;
  for (const { hold } of settled) {
    if (hold.owed.length === 0) continue;
    owedOfGroup += hold.owed.length;
    if (owedOfGroup > OWED_A_STATEMENT_MAX) {
      groups.push([]);
      owedOfGroup = hold.owed.length;
    }
    groups.at(-1)?.push(hold);
  }
  return groups.map((holds) =>
    guardOwed({
      ...writingValues(account),
      holds: JSON.stringify(holds.map(({ reservationNumber, owed }) => [reservationNumber, owed])),
    }),
  );
}

/** Divides settled holds, so that each statement has a bounded number of holds and of balances that are charged. */
function inStatements(holds: readonly SettledHold[]): SettledHold[][] {
  const groups: SettledHold[][] = [];
  let legs = Infinity;
  for (const settled of holds) {
    const added = settled.charged?.payment.legs.length ?? 0;
    const group = groups.at(-1);
    if (group === undefined || group.length === HOLDS_A_STATEMENT_MAX || legs + added > LEGS_MAX) {
      groups.push([settled]);
      legs = added;
    } else {
      group.push(settled);
      legs += added;
    }
  }
  return groups;
}

/** Returns how the events of settlements change the user's credits. */
export function changesOfSettlements(settled: readonly Settlement[]): CreditMovement[] {
  const debiting = settled.filter(({ entries }) => entries.some(({ kind }) => kind === "usage"));
  const eventIds = debiting.flatMap(({ ending }) => ending.eventId ?? []);
  if (eventIds.length === 0) return [];
  return [{ entries: 0, raises: false, eventIds }];
}

/** Returns the message about a settled hold. */
export function settlementMessage(userId: string, { hold, charged }: SettledHold): LedgerMessage {
  if (charged === null) return reservationExpired(userId, hold);
  const { event, model, quantities, meters, priceVersion } = charged.charge;
  const hasEntries = hold.legs.length > 0 || charged.payment.legs.length > 0;
  return usageRecorded(userId, {
    ...{
      eventId: hold.id,
      memberId: hold.memberId,
      event,
      model,
      quantities,
      meters: presentMeters(meters),
      priceVersion,
    },
    ...{ reservationNumber: hold.reservationNumber, hasEntries },
  });
}

/** A reservation to settle, and the place of its returns among the next entries of the account. */
type SettlementRow = Ending &
  Pick<Hold, "id" | "reservationNumber"> & { readonly offset: number; readonly owes: boolean };

/**
 * Settles open reservations of one user. Their returns must follow in the same batch. The batch aborts with
 * `reservations_settled_once` if a reservation is already settled, and with `reservations_state` if its end has moved, an erasure has
 * replaced its id, or it owes something although it was read as owing nothing. `guardOwed` checks the others.
 */
function settleReservations(writing: WriteContext, rows: readonly SettlementRow[]): Statement {
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
const guardOwed = query((value: ValueOf<WriteContext & { holds: string }>) => {
  const owesOther = sql`
    SELECT 1 FROM json_each(${value("holds")}) AS item
    CROSS JOIN ${reservations} ON ${reservations.accountId} = ${accountOfWrite(value)} AND ${reservations.reservationNumber} = item.value ->> 0
    WHERE ${owedOfReservation()} <> item.value ->> 1`;
  return insertFrom(guards, { name: sql`'account'`, holds: sql`NOT EXISTS (${owesOther})` }, sql``);
});

const returned = alias(creditLedger, "returned");

/** Aborts the batch with `guard_settlement` unless each of these settled reservations has the return of each of its holds. */
const guardReturned = query((value: ValueOf<WriteContext & { numbers: string }>) => {
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
