import { type SQL, sql } from "drizzle-orm";
import { alias, type SQLiteColumn } from "drizzle-orm/sqlite-core";
import type { ValueOf } from "../../db/query.ts";
import { creditBalances, usageEvents } from "../../db/schema.ts";
import { accountOfWrite, type WriteContext } from "./account.ts";
import { isBalanceOf } from "./insert-entries.ts";

/** FROM: a JSON list of holds or debits, each joined with its balance, in order. */
export const balancesOfLegs = (value: ValueOf<WriteContext>, legs: SQL): SQL =>
  sql`json_each(${legs}) AS leg CROSS JOIN ${creditBalances} ON ${isBalanceOf(value, sql`leg.value ->> 'balanceId'`)}`;

/**
 * An amount in its unit, as JSON. It is written as a decimal text, because SQLite does not print doubles exactly. Both expressions
 * are used several times, so they must not contain bound values.
 */
export const amountOf = (steps: SQL | SQLiteColumn, unit: SQL | SQLiteColumn): SQL =>
  sql`json(iif(${steps} < 0, '-', '') || rtrim(rtrim(
  iif(${unit} = 'cents', printf('%d.%06d', abs(${steps}) / 1000000, abs(${steps}) % 1000000),
    printf('%d.%03d', abs(${steps}) / 1000, abs(${steps}) % 1000)), '0'), '.'))`;

/**
 * A response's debits as JSON. The remaining amounts are read while the batch runs, because the plan may be outdated. The entries
 * that follow lower each balance by `lessSteps`.
 */
export function debitsOfLegs(value: ValueOf<WriteContext>, legs: SQL): SQL {
  const { id, packId, unit, remainingSteps } = creditBalances;
  // A balance below 0 makes the later debit abort the batch. Until then this must be a valid number.
  const left = sql`max(0, ${remainingSteps} - (leg.value ->> 'lessSteps'))`;
  return sql`(
    SELECT json_group_array(json_object('balanceId', ${id}, 'packId', ${packId}, 'unit', ${unit},
      'amount', leg.value -> 'amount', 'remaining', ${amountOf(left, unit)}))
    FROM ${balancesOfLegs(value, legs)}
  )`;
}

const lastEvent = alias(usageEvents, "last");

/** The account's last event, to be left-joined for `placeOfEvent`. */
export const lastEventOf = (value: ValueOf<WriteContext>): SQL => sql`(
  SELECT ${usageEvents.occurredByMs}, ${usageEvents.seq} FROM ${usageEvents}
  WHERE ${usageEvents.accountId} = ${accountOfWrite(value)}
  ORDER BY ${usageEvents.occurredByMs} DESC, ${usageEvents.seq} DESC LIMIT 1
) AS ${lastEvent}`;

/**
 * The key columns of a new event, which is JSON, after the account's last one. Rows must be in order of time, so an event that
 * arrives late gets the time of its predecessor. `position` numbers the events of a batch from 0.
 */
export const placeOfEvent = (value: ValueOf<WriteContext>, event: SQL, position: SQL = sql`0`) => ({
  accountId: accountOfWrite(value),
  occurredByMs: sql`max(${event} ->> 'occurredAtMs', coalesce(${lastEvent.occurredByMs}, ${event} ->> 'occurredAtMs'))`,
  seq: sql`coalesce(${lastEvent.seq}, 0) + 1 + ${position}`,
});
