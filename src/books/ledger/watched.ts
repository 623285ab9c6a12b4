import { eq, type SQL, sql } from "drizzle-orm";
import { alias } from "drizzle-orm/sqlite-core";
import { names, type ValueOf } from "../../db/query.ts";
import { alerts, creditBalances, expiryNotices, reservations } from "../../db/schema.ts";
import { passesFilter } from "../amounts/match.ts";
import { isOpen } from "./hold.ts";

/**
 * The input of alerts (H5): the environment at `nowMs`, as the database is at this point of the batch. An expired balance that the
 * cron has not processed yet counts before and after a motion, so that a threshold crossed by both is reported once.
 */
export interface Watch {
  /** CTEs `watched (account)` and `motion (account, balance, delta, was_revoked)`: whose entries, and which. */
  readonly from: SQL;
  /** Whether the expiry of the balance `found` is processed now. */
  readonly expiresNow: SQL;
  /** Whether the alert `judged` must be evaluated. */
  readonly isAsked: SQL;
}

/** The CTE `motion` of no entries. */
export const noMotion = sql`motion (account, balance, delta, was_revoked) AS (SELECT NULL, NULL, 0, 0 WHERE 0)`;

/** CTEs that have columns of these tables. `judged` has more: see `watched`. */
export const found = alias(creditBalances, "found");
export const judged = alias(alerts, "judged");
const balances = alias(creditBalances, "balances");
const rules = alias(creditBalances, "rules");
const watchedAlert = alias(alerts, "alert");

/** A sum of steps that does not overflow: it is at most 8 * 10^18. */
const sum = (steps: SQL): SQL => sql`(min(sum(${steps} / 1048576), 8000000000000) * 1048576 + sum(${steps} % 1048576))`;

/** The threshold of the alert `judged`, rounded up to a step. No product is larger than what was issued. */
export function threshold(issued: SQL): SQL {
  const { amountSteps, percentThousandths: percent } = judged;
  return sql`iif(${percent} IS NULL, ${amountSteps},
    ${percent} * (${issued} / 100000) + (${percent} * (${issued} % 100000) + 99999) / 100000)`;
}

const alertColumns = ({
  id,
  name,
  unit,
  event,
  amountSteps,
  percentThousandths,
}: typeof judged | typeof watchedAlert) => names(id, name, unit, event, amountSteps, percentThousandths);

/**
 * CTEs up to `judged`: a row for each account and alert, with the amounts before and after the motion and the issued amounts, both
 * for active balances (`live_…`) and including expired ones that the cron has not processed yet (`all_…`).
 */
export function watched(
  value: ValueOf<{ environmentId: number; nowMs: number }>,
  { from, expiresNow, isAsked }: Watch,
): SQL {
  const { doneExpiresAtMs, doneAccountId, doneGrantSeq } = expiryNotices;
  return sql`
  ${from},
  held (account, balance, steps) AS MATERIALIZED (
    SELECT ${reservations.accountId}, leg.value ->> 'balanceId', sum(leg.value ->> 'amountSteps')
    FROM watched CROSS JOIN ${reservations} ON ${reservations.accountId} = watched.account AND ${isOpen()}
    CROSS JOIN json_each(${reservations.legs}) AS leg
    GROUP BY 1, 2
  ),
  done (since, at, account, issue) AS MATERIALIZED (
    SELECT max(${expiryNotices.sinceMs}, ${doneExpiresAtMs}), ${doneExpiresAtMs}, ${doneAccountId}, ${doneGrantSeq}
    FROM ${expiryNotices} WHERE ${eq(expiryNotices.environmentId, value("environmentId"))} AND ${expiryNotices.days} = 0
  ),
  held_or_moved (account, balance) AS (
    SELECT held.account, held.balance FROM held UNION SELECT motion.account, motion.balance FROM motion
  ),
  ${found} AS (
    SELECT ${creditBalances}.* FROM done CROSS JOIN watched
    CROSS JOIN ${creditBalances} INDEXED BY credit_balances_remaining ON ${creditBalances.accountId} = watched.account
      AND ${creditBalances.hasRemaining} = 1 AND ${creditBalances.expiresAtMs} >= done.since
    UNION ALL
    SELECT ${creditBalances}.* FROM held_or_moved AS n CROSS JOIN ${creditBalances} ON ${creditBalances.id} = n.balance
    WHERE +${creditBalances.accountId} = n.account AND ${creditBalances.hasRemaining} = 0
  ),
  ${balances} (account, ${names(balances.unit, balances.matches)}, initial, is_live, before, after) AS MATERIALIZED (
    SELECT ${found.accountId}, ${found.unit}, ${found.matches}, ${found.initialSteps},
      ${found.expiresAtMs} > ${value("nowMs")},
      iif(coalesce(motion.was_revoked, ${found.revokedAtMs} IS NOT NULL), 0,
        ${found.remainingSteps} - coalesce(motion.delta, 0) + coalesce(held.steps, 0)),
      iif(${found.revokedAtMs} IS NOT NULL OR ${expiresNow}, 0, ${found.remainingSteps} + coalesce(held.steps, 0))
    FROM done CROSS JOIN ${found}
    LEFT JOIN motion ON motion.account = ${found.accountId} AND motion.balance = ${found.id}
    LEFT JOIN held ON held.account = ${found.accountId} AND held.balance = ${found.id}
    WHERE ${found.expiresAtMs} >= done.since
      AND (${found.expiresAtMs}, ${found.accountId}, ${found.grantSeq}) > (done.at, done.account, done.issue)
  ),
  ${rules} (${names(rules.unit, rules.matches)}) AS (SELECT DISTINCT ${balances.unit}, ${balances.matches} FROM ${balances}),
  ${watchedAlert} (${alertColumns(watchedAlert)}) AS (
    SELECT ${alerts.id}, ${alerts.name}, ${alerts.unit}, ${alerts.event}, ${alerts.amountSteps}, ${alerts.percentThousandths}
    FROM ${alerts} WHERE ${eq(alerts.environmentId, value("environmentId"))}
    UNION ALL SELECT '', NULL, NULL, NULL, 1, NULL
  ),
  covered AS MATERIALIZED (
    SELECT ${judged}.*, ${rules.unit} AS of_unit, ${rules.matches} AS of_matches
    FROM ${watchedAlert} AS ${judged} CROSS JOIN ${rules}
    WHERE ${isAsked} AND coalesce(${judged.unit}, ${rules.unit}) = ${rules.unit}
      AND (${judged.event} IS NULL OR ${passesFilter(judged.event, rules.matches)})
  ),
  ${judged} AS (
    SELECT balances.account, ${judged.id}, ${judged.name}, ${judged.unit}, ${judged.amountSteps}, ${judged.percentThousandths},
      ${sum(sql`balances.is_live * balances.before`)} AS live_before,
      ${sum(sql`balances.is_live * balances.after`)} AS live_after,
      ${sum(sql`(balances.is_live AND balances.before > 0) * balances.initial`)} AS live_issued,
      ${sum(sql`balances.before`)} AS all_before, ${sum(sql`balances.after`)} AS all_after,
      ${sum(sql`(balances.before > 0) * balances.initial`)} AS all_issued,
      ${sum(sql`(balances.is_live AND balances.after > 0) * balances.initial`)} AS issued_after
    FROM covered AS ${judged}
    CROSS JOIN ${balances} ON ${balances.unit} = judged.of_unit AND ${balances.matches} = judged.of_matches
    GROUP BY balances.account, ${judged.id}
  )`;
}
