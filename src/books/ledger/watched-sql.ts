import { fragment, nowMsSql } from "../../db/sql.ts";
import { passesFilterSql } from "../amounts/filter-sql.ts";

/**
 * What alerts watch (H5), as SQL. Every part is about the environment `:environmentId` at `:nowMs`, and reads what the database
 * holds at that place in the batch. A balance whose expiry the cron has not found yet counts on both sides of a motion, so that
 * what it crosses together with a debit is told, once.
 */
interface Watch {
  /** CTEs `watched (account_id)` and `motion (account_id, balance_id, delta, was_revoked)`: whose entries, and which. */
  readonly from: string;
  /** Whether the balance `r` is among those whose expiry is found now. */
  readonly leaves: string;
  /** Whether the alert `l` is asked for. */
  readonly isAsked: string;
}

/** The CTE `motion` of no entries. */
export const noMotionSql = fragment`motion (account_id, balance_id, delta, was_revoked) AS (SELECT NULL, NULL, 0, 0 WHERE 0)`;

/** A sum of steps that does not overflow: what is beyond 8 * 10^18 counts as that much. */
const sum = (steps: string): string =>
  fragment`(min(sum(${steps} / 1048576), 8000000000000) * 1048576 + sum(${steps} % 1048576))`;

/** The threshold of the alert `l`, rounded up to a step. No product is larger than what was issued. */
export const thresholdSql = (issued: string): string => fragment`iif(l.percent IS NULL, l.amount,
  l.percent * (${issued} / 100000) + (l.percent * (${issued} % 100000) + 99999) / 100000)`;

/**
 * CTEs up to `l`: a row for each account and alert, with what was watched before the motion and after it, and what these
 * balances were issued with: of those that are live (`live_…`), and with those that the cron has still to find (`all_…`).
 */
export const watchedSql = ({ from, leaves, isAsked }: Watch): string => fragment`
  ${from},
  held (account_id, balance_id, steps) AS MATERIALIZED (
    SELECT r.account_id, leg.value ->> 'balanceId', sum(leg.value ->> 'amountSteps')
    FROM watched AS w CROSS JOIN reservations AS r ON r.account_id = w.account_id AND r.state = 'open'
    CROSS JOIN json_each(r.legs) AS leg
    GROUP BY 1, 2
  ),
  done (from_ms, at_ms, account_id, grant_seq) AS MATERIALIZED (
    SELECT max(since_ms, done_expires_at_ms), done_expires_at_ms, done_account_id, done_grant_seq
    FROM expiry_notices WHERE environment_id = :environmentId AND days = 0
  ),
  held_or_moved (account_id, balance_id) AS (
    SELECT account_id, balance_id FROM held UNION SELECT account_id, balance_id FROM motion
  ),
  found AS (
    SELECT b.* FROM done CROSS JOIN watched AS w CROSS JOIN credit_balances AS b INDEXED BY credit_balances_remaining
    ON b.account_id = w.account_id AND b.has_remaining = 1 AND b.expires_at_ms >= done.from_ms
    UNION ALL
    SELECT b.* FROM held_or_moved AS n CROSS JOIN credit_balances AS b ON b.id = n.balance_id
    WHERE +b.account_id = n.account_id AND b.has_remaining = 0
  ),
  balances (account_id, unit, matches, initial, is_live, before, after) AS MATERIALIZED (
    SELECT r.account_id, r.unit, r.matches, r.initial_steps, r.expires_at_ms > ${nowMsSql},
      iif(coalesce(m.was_revoked, r.revoked_at_ms IS NOT NULL), 0,
        r.remaining_steps - coalesce(m.delta, 0) + coalesce(h.steps, 0)),
      iif(r.revoked_at_ms IS NOT NULL OR ${leaves}, 0, r.remaining_steps + coalesce(h.steps, 0))
    FROM done CROSS JOIN found AS r
    LEFT JOIN motion AS m ON m.account_id = r.account_id AND m.balance_id = r.id
    LEFT JOIN held AS h ON h.account_id = r.account_id AND h.balance_id = r.id
    WHERE r.expires_at_ms >= done.from_ms
      AND (r.expires_at_ms, r.account_id, r.grant_seq) > (done.at_ms, done.account_id, done.grant_seq)
  ),
  rules (unit, matches) AS (SELECT DISTINCT unit, matches FROM balances),
  alert (id, name, unit, event, amount, percent) AS (
    SELECT id, name, unit, event, amount_steps, percent_thousandths FROM alerts WHERE environment_id = :environmentId
    UNION ALL SELECT '', NULL, NULL, NULL, 1, NULL
  ),
  covered AS MATERIALIZED (
    SELECT l.*, r.unit AS of_unit, r.matches AS of_matches FROM alert AS l CROSS JOIN rules AS r
    WHERE ${isAsked} AND coalesce(l.unit, r.unit) = r.unit
      AND (l.event IS NULL OR ${passesFilterSql("l.event", "r.matches")})
  ),
  l AS (
    SELECT b.account_id, l.id, l.name, l.unit, l.amount, l.percent,
      ${sum("b.is_live * b.before")} AS live_before, ${sum("b.is_live * b.after")} AS live_after,
      ${sum("(b.is_live AND b.before > 0) * b.initial")} AS live_issued,
      ${sum("b.before")} AS all_before, ${sum("b.after")} AS all_after, ${sum("(b.before > 0) * b.initial")} AS all_issued,
      ${sum("(b.is_live AND b.after > 0) * b.initial")} AS issued_after
    FROM covered AS l CROSS JOIN balances AS b ON b.unit = l.of_unit AND b.matches = l.of_matches
    GROUP BY b.account_id, l.id
  )`;
