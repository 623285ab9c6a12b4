import { type SQL, sql } from "drizzle-orm";
import { alias } from "drizzle-orm/sqlite-core";
import type { ValueOf } from "../../db/query.ts";
import { creditBalances, type Minor, usageEvents } from "../../db/schema.ts";
import { fromMinor, type Unit } from "../amounts/amount.ts";
import { amountOf } from "../amounts/amount-sql.ts";
import { accountOfWrite, type WriteContext } from "./account.ts";
import type { SpendableBalance } from "./balance.ts";
import type { Payment } from "./burn-down.ts";
import { isBalanceOf, type NewEntry } from "./insert-entries.ts";
import { listOfLegs, ofEvent, unitNumber } from "./stored-legs.ts";

/** The amount that a balance paid, or that a hold took of it. */
export interface Debit {
  readonly balanceId: string;
  readonly packId: string;
  readonly unit: Unit;
  readonly amount: number;
  readonly remaining: number;
}

export type PlannedPayment = Payment<SpendableBalance>;

/**
 * Adds the changes of some entries to the sums by balance, and returns each balance's sum after its debit. The event of a usage is
 * written before its entries, and tells the amounts after its debits.
 */
export function sumsAtDebits(entries: readonly NewEntry[], sums = new Map<string, number>()): Map<string, number> {
  const atDebits = new Map<string, number>();
  for (const { balanceId, deltaMinor, kind } of entries) {
    const sum = (sums.get(balanceId) ?? 0) + deltaMinor;
    sums.set(balanceId, sum);
    if (kind === "usage" || kind === "hold") atDebits.set(balanceId, sum);
  }
  return atDebits;
}

/** Returns the debits of a payment, for `legsOf` and `debitsOfLegs`. */
export function debitsOfPayment({ legs }: PlannedPayment, sums: ReadonlyMap<string, number>): object[] {
  return legs.map(({ balance, amountMinor }) => ({
    balanceId: balance.id,
    unit: unitNumber(balance.unit),
    amountMinor,
    sumMinor: sums.get(balance.id) ?? 0,
  }));
}

/** The FROM clause: a JSON list of planned holds or debits, each joined with its balance, in order. */
const balancesOfLegs = (value: ValueOf<WriteContext>, legs: SQL): SQL =>
  sql`json_each(${legs}) AS leg CROSS JOIN ${creditBalances} ON ${isBalanceOf(value, sql`leg.value ->> 'balanceId'`)}`;

/** A debit in `shownDebits`. */
type ShownDebit = readonly [balanceId: string, packId: string, unit: Unit, amountMinor: Minor, remainingMinor: Minor];

/** Reads `shownDebits`: JSON that Purser wrote. */
export function readDebits(stored: string): Debit[] {
  return (JSON.parse(stored) as ShownDebit[]).map(([balanceId, packId, unit, amountMinor, remainingMinor]) => {
    return {
      balanceId,
      packId,
      unit,
      amount: fromMinor(unit, amountMinor),
      remaining: fromMinor(unit, remainingMinor),
    };
  });
}

/** Returns SQL for an event's debits as JSON in the form of the API. */
export function debitsJson(): SQL {
  const { id, packId, unit } = creditBalances;
  return listOfLegs(
    ofEvent,
    ({ minor, remainingMinor }) => sql`json_object('balanceId', ${id}, 'packId', ${packId}, 'unit', ${unit},
      'amount', ${amountOf(minor, unit)}, 'remaining', ${amountOf(remainingMinor, unit)})`,
  );
}

/**
 * Returns SQL for the debits of an event, as they are stored. The remaining amounts are read while the batch runs, because the plan may be outdated.
 * Later entries of the batch change each balance by `sumMinor`.
 */
export function debitsOfLegs(value: ValueOf<WriteContext>, legs: SQL): SQL {
  const { grantSeq, remainingMinor } = creditBalances;
  // If the balance is too low, the later debit aborts the batch. Until then this must be a valid number.
  const left = sql`max(0, ${remainingMinor} + (leg.value ->> 'sumMinor'))`;
  return sql`(
    SELECT json_group_array(json_array(${grantSeq}, leg.value ->> 'unit', leg.value ->> 'amountMinor', ${left}))
    FROM ${balancesOfLegs(value, legs)}
  )`;
}

/** Returns SQL for the amounts of a hold by balance, as they are stored. */
export function legsOf(value: ValueOf<WriteContext & { legs: string }>): SQL {
  const { grantSeq, remainingMinor } = creditBalances;
  const minor = sql`leg.value ->> 'amountMinor'`;
  return sql`(
    SELECT json_group_array(json_array(${grantSeq}, leg.value ->> 'unit', ${minor}, ${remainingMinor} - (${minor})))
    FROM ${balancesOfLegs(value, sql`${value("legs")}`)}
  )`;
}

const lastEvent = alias(usageEvents, "last");

/** Returns SQL for the account's last event. Left-join it to use `placeOfEvent`. */
export const lastEventOf = (value: ValueOf<WriteContext>): SQL => sql`(
  SELECT ${usageEvents.seq} FROM ${usageEvents}
  WHERE ${usageEvents.accountId} = ${accountOfWrite(value)} ORDER BY ${usageEvents.seq} DESC LIMIT 1
) AS ${lastEvent}`;

/** Returns the key columns of a new event, after the account's last event. `position` numbers the events of a batch from 0. */
export const placeOfEvent = (value: ValueOf<WriteContext>, position: SQL = sql`0`) => ({
  accountId: accountOfWrite(value),
  seq: sql`coalesce(${lastEvent.seq}, 0) + 1 + ${position}`,
});
