import { type SQL, sql } from "drizzle-orm";
import { alias } from "drizzle-orm/sqlite-core";
import type { ValueOf } from "../../db/query.ts";
import { usageEvents } from "../../db/schema.ts";
import { accountOfWrite, type WriteContext } from "./account.ts";

const last = alias(usageEvents, "last");

/** The account's last event. Left join it, for `placeOfEvent`. */
export const lastEventOf = (value: ValueOf<WriteContext>): SQL => sql`(
  SELECT ${usageEvents.occurredByMs}, ${usageEvents.seq} FROM ${usageEvents}
  WHERE ${usageEvents.accountId} = ${accountOfWrite(value)}
  ORDER BY ${usageEvents.occurredByMs} DESC, ${usageEvents.seq} DESC LIMIT 1
) AS ${last}`;

/**
 * The place of an event, which is JSON, after the last: rows lie in the order of their times, so what comes late has the time of
 * the one before it. `position` is from 0 on, where several come together.
 */
export const placeOfEvent = (value: ValueOf<WriteContext>, event: SQL, position: SQL = sql`0`) => ({
  accountId: accountOfWrite(value),
  occurredByMs: sql`max(${event} ->> 'occurredAtMs', coalesce(${last.occurredByMs}, ${event} ->> 'occurredAtMs'))`,
  seq: sql`coalesce(${last.seq}, 0) + 1 + ${position}`,
});
