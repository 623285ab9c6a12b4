/**
 * The amounts that an event or a hold takes of balances, as the columns `debits` and `legs` store them: a JSON list of
 * [grant_seq of the balance, number of the unit, minor units, remaining minor units]. The account is that of the row.
 */

import { type SQL, sql } from "drizzle-orm";
import type { SQLiteColumn } from "drizzle-orm/sqlite-core";
import { type ColumnsOf, computed } from "../../db/query.ts";
import { creditBalances, reservations, usageEvents } from "../../db/schema.ts";
import { UNITS, type Unit } from "../amounts/amount.ts";

/** The number of a unit in a stored leg. */
export const unitNumber = (unit: Unit): number => UNITS.indexOf(unit);

type StoredLeg = readonly [grantSeq: number, unit: number, minor: number, remainingMinor: number];

/** Reads the amounts of stored legs: JSON that Purser wrote. */
export const readStoredLegs = (stored: string): { readonly unit: Unit | undefined; readonly minor: number }[] =>
  (JSON.parse(stored) as StoredLeg[]).map(([, unit, minor]) => ({ unit: UNITS[unit], minor }));

/** SQL: the fields of a stored leg, as `eachLeg` names it. */
export const storedLeg = {
  grantSeq: sql`(leg.value ->> 0)`,
  unit: sql<number>`(leg.value ->> 1)`,
  minor: sql`(leg.value ->> 2)`,
  remainingMinor: sql`(leg.value ->> 3)`,
};

/** SQL: the fields of the first stored leg of a list. */
const firstLegOf = (legs: SQL | SQLiteColumn): typeof storedLeg => ({
  grantSeq: sql`(${legs} ->> '$[0][0]')`,
  unit: sql<number>`(${legs} ->> '$[0][1]')`,
  minor: sql`(${legs} ->> '$[0][2]')`,
  remainingMinor: sql`(${legs} ->> '$[0][3]')`,
});

/** The FROM clause: the stored legs of a column, in order. */
export const eachLeg = (legs: SQL | SQLiteColumn): SQL => sql`json_each(${legs}) AS leg`;

/** Returns a condition: a balance is that of a stored leg of this account. */
export const isBalanceOfLeg = (
  account: SQL | SQLiteColumn,
  balance: Pick<ColumnsOf<typeof creditBalances>, "accountId" | "grantSeq"> = creditBalances,
  leg: typeof storedLeg = storedLeg,
): SQL => sql`${balance.accountId} = ${account} AND ${balance.grantSeq} = ${leg.grantSeq}`;

/**
 * SQL: the JSON list of `show` of each stored leg, which names the columns of its balance. A single leg, which is what most have, is
 * read without `json_each`, whose rows D1 counts.
 */
export const listOfLegs = (
  table: { readonly accountId: SQLiteColumn; readonly legs: SQLiteColumn },
  show: (leg: typeof storedLeg) => SQL,
): SQL<string> => {
  const first = firstLegOf(table.legs);
  return sql`iif(json_array_length(${table.legs}) = 1, (
    SELECT json_array(${show(first)}) FROM ${creditBalances} WHERE ${isBalanceOfLeg(table.accountId, creditBalances, first)}
  ), (
    SELECT json_group_array(${show(storedLeg)}) FROM ${eachLeg(table.legs)}
    CROSS JOIN ${creditBalances} ON ${isBalanceOfLeg(table.accountId)}
  ))`;
};

const ofReservation = { accountId: reservations.accountId, legs: reservations.legs };
/** The list of an event's debits for `listOfLegs`. */
export const ofEvent = { accountId: usageEvents.accountId, legs: usageEvents.debits };

const { id, packId, unit } = creditBalances;

/** SQL: the holds of a reservation as JSON, for `readLegs`. */
export const shownLegs = (): SQL<string> =>
  listOfLegs(
    ofReservation,
    ({ minor, remainingMinor }) => sql`json_object('balanceId', ${id}, 'packId', ${packId}, 'unit', ${unit},
      'amountMinor', ${minor}, 'remainingMinor', ${remainingMinor})`,
  );

/** The most bytes of a leg in `shownLegs`. */
export const SHOWN_LEG_BYTES_MAX = 192;

/** SQL: the debits of an event as JSON, for `readDebits`. */
export const shownDebits = (): SQL<string> =>
  listOfLegs(
    ofEvent,
    ({ minor, remainingMinor }) => sql`json_array(${id}, ${packId}, ${unit}, ${minor}, ${remainingMinor})`,
  );

/** The most bytes of a debit in `shownDebits`. */
export const SHOWN_DEBIT_BYTES_MAX = 112;

/** The field `legs` with `shownLegs`. */
export const legsField = () => computed({ legs: shownLegs() });
/** The field `debits` with `shownDebits`. */
export const debitsField = () => computed({ debits: shownDebits() });
