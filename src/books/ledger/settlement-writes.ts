import { sql } from "drizzle-orm";
import { asInteger, insertFrom, query, type ValueOf } from "../../db/query.ts";
import { usageEvents } from "../../db/schema.ts";
import type { Statement } from "../../db/sql.ts";
import { fromSteps, presentQuantities } from "../amounts/amount.ts";
import { type WriteContext, writingValues } from "./account.ts";
import { LEGS_MAX } from "./burn-down.ts";
import { keptJson } from "./counters.ts";
import { debitsOfLegs, lastEventOf, placeOfEvent } from "./debits.ts";
import { stampCharge } from "./decision.ts";
import { HOLDS_A_STATEMENT_MAX, insertSettlements, type SettlementRow } from "./hold.ts";
import type { Motion } from "./insert-entries.ts";
import { type LedgerMessage, reservationExpired, usageRecorded } from "./messages.ts";
import type { BalanceChange, SettledHold } from "./settle.ts";

/** Returns the statements that write some settled holds, in order. */
export function settlementWrites(account: WriteContext, settled: readonly SettledHold[]): Statement[] {
  return inStatements(settled).flatMap((holds) => writesOfSome(account, holds));
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

/** Returns how the charges of settled holds change the user's credits. */
export function motionsOfCharges(settled: readonly SettledHold[]): Motion[] {
  const eventIds = settled.flatMap(({ hold, charged }) => (charged === null ? [] : [hold.id]));
  if (eventIds.length === 0) return [];
  return [{ entries: 0, raises: false, eventIds }];
}

/** Returns the message about a settled hold. */
export function settlementMessage(userId: string, { hold, charged }: SettledHold): LedgerMessage {
  if (charged === null) return reservationExpired(userId, hold);
  const { event, model, quantities } = charged.charge;
  const hasEntries = hold.legs.length > 0 || charged.payment.legs.length > 0;
  return usageRecorded(userId, { eventId: hold.id, event, model, quantities, reservationId: hold.id, hasEntries });
}

/** Returns the statements of some settled holds. The events of charges come before the entries of their debits. */
function writesOfSome(account: WriteContext, holds: readonly SettledHold[]): Statement[] {
  /** The sum of the earlier changes of each balance in this batch. The event of a charge tells the amount after it. */
  const added = new Map<string, number>();
  const add = (changes: readonly BalanceChange[]) => {
    for (const { balanceId, deltaSteps } of changes) added.set(balanceId, (added.get(balanceId) ?? 0) + deltaSteps);
  };
  const events: object[] = [];
  const settlements = holds.map(({ hold, charged, changes }): SettlementRow => {
    const { id, legs, counted } = hold;
    if (charged === null) {
      add(changes);
      return { id, state: "expired" };
    }
    const { charge, payment } = charged;
    const charges = changes.slice(legs.length, legs.length + payment.legs.length);
    add(changes.slice(0, legs.length + payment.legs.length));
    const debits = payment.legs.map(({ balance, amountSteps }) => {
      const amount = fromSteps(balance.unit, amountSteps);
      return { balanceId: balance.id, amount, lessSteps: -(added.get(balance.id) ?? 0) };
    });
    add(changes.slice(legs.length + payment.legs.length));
    const { quantities, occurredAtMs: occurredAt } = charge;
    const uncovered = payment.uncovered === null ? null : JSON.stringify(presentQuantities(payment.uncovered));
    const stamp = stampCharge({ quantities, occurredAt, onShortage: "partial" });
    events.push({ id, ...charge, legs: debits, uncovered, stamp, counted: keptJson(counted) });
    return { id, state: "committed", eventId: id, charges };
  });
  return [
    ...(events.length === 0 ? [] : [insertCharges({ ...writingValues(account), charges: JSON.stringify(events) })]),
    insertSettlements(account, settlements),
  ];
}

/** Inserts the events of charges, in order of time, as their primary key requires. */
const insertCharges = query((value: ValueOf<WriteContext & { charges: string }>) =>
  insertFrom(
    usageEvents,
    {
      ...placeOfEvent(value, sql`charge.value`, sql`charge.key`),
      environmentId: asInteger(value("environmentId")),
      eventId: sql`charge.value ->> 'id'`,
      event: sql`charge.value ->> 'event'`,
      model: sql`charge.value ->> 'model'`,
      countSteps: sql`coalesce(charge.value ->> '$.quantities.count', 0)`,
      tokensSteps: sql`charge.value ->> '$.quantities.tokens'`,
      secondsSteps: sql`charge.value ->> '$.quantities.seconds'`,
      centsSteps: sql`charge.value ->> '$.quantities.cents'`,
      occurredAtMs: sql`charge.value ->> 'occurredAtMs'`,
      receivedAtMs: asInteger(value("nowMs")),
      reservationId: sql`charge.value ->> 'id'`,
      requestHash: sql`charge.value ->> 'stamp'`,
      debits: debitsOfLegs(value, sql`charge.value -> 'legs'`),
      uncovered: sql`charge.value ->> 'uncovered'`,
      counted: sql`charge.value ->> 'counted'`,
    },
    sql`FROM json_each(${value("charges")}) AS charge LEFT JOIN ${lastEventOf(value)} ORDER BY charge.key`,
  ),
);
