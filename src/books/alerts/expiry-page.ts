import { fragment, nowMsSql, statement } from "../../db/sql.ts";
import { intoMessages } from "../../webhooks/outbox.ts";
import { amountSql } from "../ledger/debits.ts";
import { goOffSql } from "../ledger/judge-alerts.ts";
import { noMotionSql } from "../ledger/watched-sql.ts";

const PAGE_MAX = 1_000;

/** A page of an environment's balances that expire in `days` days: where it goes on, and the time. */
export type Page = {
  environmentId: number;
  days: number;
  /** None that expires before this. */
  fromMs: number;
  doneMs: number;
  doneAccountId: number;
  doneSeq: number;
  nowMs: number;
};

/** SQL: whether a row of `balance_expiries` comes after what is done, and expires at or after `fromMs`. One range of its key. */
export const startOf = (row: string, fromMs: string, doneMs: string, accountId: string, seq: string): string =>
  fragment`(${row}.expires_at_ms, ${row}.account_id, ${row}.grant_seq) > (max(${doneMs}, ${fromMs} - 1),
    iif(${fromMs} > ${doneMs}, 9007199254740991, ${accountId}), ${seq})`;

const named = (name: string): string => fragment`CAST(:${name} AS INTEGER)`;
const start = startOf("x", named("fromMs"), named("doneMs"), named("doneAccountId"), named("doneSeq"));

const pageSql = fragment`
  WITH page (expires_at_ms, account_id, grant_seq) AS MATERIALIZED (
    SELECT expires_at_ms, account_id, grant_seq FROM balance_expiries AS x
    WHERE environment_id = CAST(:environmentId AS INTEGER) AND ${start}
      AND expires_at_ms <= ${nowMsSql} + ${named("days")} * 86400000
    ORDER BY expires_at_ms, account_id, grant_seq LIMIT ${String(PAGE_MAX)}
  )`;
const lastOfPage = fragment`SELECT expires_at_ms, account_id, grant_seq FROM page
  ORDER BY expires_at_ms DESC, account_id DESC, grant_seq DESC LIMIT 1`;
// Of a user who is being erased nothing is told (E6).
const balancesOfPage = fragment`page AS p CROSS JOIN credit_balances AS b
  ON b.account_id = p.account_id AND b.grant_seq = p.grant_seq AND b.revoked_at_ms IS NULL
  CROSS JOIN accounts AS a ON a.id = b.account_id AND a.is_erased = 0`;

/** Aborts the batch with `guard_environment` where another run looked at the page, or the features changed. */
export const guardPage = statement<Page & { features: string | null }>`
  INSERT INTO guards (name, holds) SELECT 'environment', EXISTS (
    SELECT 1 FROM environments WHERE id = :environmentId AND features IS :features
  ) AND EXISTS (
    SELECT 1 FROM expiry_notices WHERE environment_id = :environmentId AND days = :days
      AND (done_expires_at_ms, done_account_id, done_grant_seq) = (:doneMs, :doneAccountId, :doneSeq)
  )`;

/** Moves on behind the page. */
export const advance = statement<Page>`
  UPDATE expiry_notices SET (done_expires_at_ms, done_account_id, done_grant_seq) = (${pageSql} ${lastOfPage})
  WHERE environment_id = :environmentId AND days = :days AND EXISTS (${pageSql} SELECT 1 FROM page)`;

/** A smaller number of days whose moment has passed too, and which may be told of: then that one is told (H6). */
const isSmallerDue = fragment`EXISTS (
  SELECT 1 FROM expiry_notices AS s CROSS JOIN expiry_notices AS first
  ON first.environment_id = s.environment_id AND first.days = 0
  WHERE s.environment_id = :environmentId AND s.days > 0 AND s.days < :days
    AND p.expires_at_ms - s.days * 86400000 BETWEEN max(s.since_ms, first.since_ms) AND ${nowMsSql}
)`;

/** Writes the notices of the page: of what has something left, and was granted before its moment. */
export const insertNotices = statement<Page & { messageId: string }>`
  ${intoMessages}
  ${pageSql}
  SELECT :messageId || printf('%06d', row_number() OVER (ORDER BY p.expires_at_ms, p.account_id, p.grant_seq)),
    a.environment_id, iif(:days = 0, 'balance.expired', 'balance.expiring'), ${nowMsSql}, a.user_id,
    json_patch(json_object(
      'userId', a.user_id, 'balanceId', b.id, 'packId', b.pack_id, 'unit', b.unit,
      'remaining', ${amountSql("b.remaining_steps", "b.unit")},
      'expiresAt', strftime('%Y-%m-%dT%H:%M:%S', b.expires_at_ms / 1000, 'unixepoch')
        || printf('.%03dZ', b.expires_at_ms % 1000)
    ), iif(:days = 0, '{}', json_object('days', ${named("days")})))
  FROM ${balancesOfPage}
  WHERE b.has_remaining = 1 AND b.granted_at_ms <= p.expires_at_ms - ${named("days")} * 86400000 AND NOT ${isSmallerDue}`;

// Whose balance ended with something left or held.
const watched = fragment`${pageSql},
  watched (account_id) AS MATERIALIZED (
    SELECT DISTINCT b.account_id FROM ${balancesOfPage} WHERE b.has_remaining = 1 OR EXISTS (
      SELECT 1 FROM reservations AS r WHERE r.account_id = b.account_id AND r.state = 'open'
    )
  ),
  ${noMotionSql}`;

/** Writes the messages of alerts that go off because the balances of the page expired (H5). */
export const goOffByExpiries = statement<Page & { messageId: string; endpoints: string }>`
  ${goOffSql(watched, fragment`(r.expires_at_ms, r.account_id, r.grant_seq) <= (${lastOfPage})`)}`;
