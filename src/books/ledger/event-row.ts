import { fragment } from "../../db/sql.ts";
import { accountSql } from "./account.ts";

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
