import { sql } from "drizzle-orm";
import { asInteger, insertFrom, query, type ValueOf } from "../../db/query.ts";
import { usageEvents } from "../../db/schema.ts";
import type { Statement } from "../../db/sql.ts";
import { presentQuantities } from "../amounts/amount.ts";
import { presentMeters, readSentMeters } from "../amounts/meters.ts";
import { accountOfWrite, type WriteContext, writingValues } from "./account.ts";
import { LEGS_MAX } from "./burn-down.ts";
import { keptJson } from "./counters.ts";
import { debitsOfLegs, debitsOfPayment, lastEventOf, placeOfEvent, sumsAtDebits } from "./debits.ts";
import { fingerprintCharge } from "./decision.ts";
import type { Hold } from "./hold.ts";
import { type CreditMovement, insertEntries, type NewEntry } from "./insert-entries.ts";
import { type LedgerMessage, reservationExpired, usageRecorded } from "./messages.ts";
import { lowerOwed } from "./owed.ts";
import { memberOfReservation } from "./payer-members.ts";
import type { SettledHold, Settlement } from "./settle.ts";
import { guardOwed, guardReturned, settleReservations } from "./settle-reservations.ts";

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

/** Returns the statement that inserts the events of charges, which tell the amounts after their debits. */
function chargeWrites(account: WriteContext, settled: readonly SettledHold[]): Statement[] {
  const sums = new Map<string, number>();
  const events: object[] = [];
  for (const { hold, charged, entries } of settled) {
    const minor = sumsAtDebits(entries, sums);
    if (charged === null) continue;
    const { charge, payment } = charged;
    const { quantities, meters, occurredAtMs: occurredAt } = charge;
    const uncovered = payment.uncovered === null ? null : JSON.stringify(presentQuantities(payment.uncovered));
    const sent = meters === null ? { quantities } : { meters: readSentMeters(meters) };
    const fingerprint = fingerprintCharge({ ...sent, occurredAt, onShortage: "partial" });
    const legs = debitsOfPayment(payment, minor);
    const hasMember = hold.hasMember ? 1 : undefined;
    events.push({
      id: hold.id,
      reservationNumber: hold.reservationNumber,
      hasMember,
      ...charge,
      legs,
      uncovered,
      fingerprint,
      counted: keptJson(hold.counted),
    });
  }
  if (events.length === 0) return [];
  return [insertCharges({ ...writingValues(account), charges: JSON.stringify(events) })];
}

/** Inserts the events of charges, in order. */
const insertCharges = query((value: ValueOf<WriteContext & { charges: string }>) =>
  insertFrom(
    usageEvents,
    {
      ...placeOfEvent(value, sql`charge.key`),
      environmentId: asInteger(value("environmentId")),
      eventId: sql`charge.value ->> 'id'`,
      event: sql`charge.value ->> 'event'`,
      model: sql`charge.value ->> 'model'`,
      countMinor: sql`charge.value ->> '$.quantities.count'`,
      tokensMinor: sql`charge.value ->> '$.quantities.tokens'`,
      secondsMinor: sql`charge.value ->> '$.quantities.seconds'`,
      centsMinor: sql`charge.value ->> '$.quantities.cents'`,
      meters: sql`charge.value ->> 'meters'`,
      priceVersion: sql`charge.value ->> 'priceVersion'`,
      costMinor: sql`charge.value ->> 'costMinor'`,
      occurredAtMs: sql`charge.value ->> 'occurredAtMs'`,
      receivedAfterMs: sql`${asInteger(value("nowMs"))} - (charge.value ->> 'occurredAtMs')`,
      reservationId: sql`charge.value ->> 'id'`,
      requestHash: sql`charge.value ->> 'fingerprint'`,
      debits: debitsOfLegs(value, sql`charge.value -> 'legs'`),
      uncovered: sql`charge.value ->> 'uncovered'`,
      counted: sql`charge.value ->> 'counted'`,
      memberNumber: memberOfReservation(
        accountOfWrite(value),
        sql`iif(charge.value ->> 'hasMember', charge.value ->> 'reservationNumber', NULL)`,
      ),
    },
    sql`FROM json_each(${value("charges")}) AS charge LEFT JOIN ${lastEventOf(value)} ORDER BY charge.key`,
  ),
);
