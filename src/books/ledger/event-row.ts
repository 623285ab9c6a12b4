import { type SQL, sql } from "drizzle-orm";
import { alias } from "drizzle-orm/sqlite-core";
import type { ValueOf } from "../../db/query.ts";
import { usageEvents } from "../../db/schema.ts";
import { fragment } from "../../db/sql.ts";
import { accountOfWrite, accountSql, type WriteContext } from "./account.ts";

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

// The same for statements that are not of Drizzle yet.

/** The columns of a usage event's row: first its place, then what is in it. */
export const eventColumns = fragment`account_id, occurred_by_ms, seq, environment_id, event_id, event, model, count_steps,
    tokens_steps, seconds_steps, cents_steps, occurred_at_ms, received_at_ms, reservation_id, request_hash, debits, uncovered`;

/** The account's last event. */
export const lastEvent = fragment`(
    SELECT occurred_by_ms, seq FROM usage_events WHERE account_id = ${accountSql}
    ORDER BY occurred_by_ms DESC, seq DESC LIMIT 1
  )`;

/** SQL: the place of an event after `last`. Rows lie in the order of their times, so what comes late has the time of the one before it. */
export const eventPlace = (event: string): string => fragment`${accountSql},
    max(${event} ->> 'occurredAtMs', coalesce(last.occurred_by_ms, ${event} ->> 'occurredAtMs')), coalesce(last.seq, 0) + 1`;
