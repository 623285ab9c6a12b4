import { eq, type SQL, sql } from "drizzle-orm";
import { alias } from "drizzle-orm/sqlite-core";
import { names, type ValueOf } from "../../db/query.ts";
import { alerts, creditBalances, expiryNotices, reservations } from "../../db/schema.ts";
import { capSum } from "../amounts/amount-sql.ts";
import { passesFilter } from "../amounts/match.ts";
import { isOpen } from "./hold.ts";
import { eachLeg, isBalanceOfLeg, storedLeg } from "./stored-legs.ts";

/**
 * The input of the evaluation of alerts (H5), which uses the database as it is at this point of the batch. An expired balance that the
 * cron has not processed yet counts both before and after a change, so that a threshold that both cross is reported once.
 */
export interface Watch {
  /** The CTEs `watched (account)` and `change (account, balance, delta, was_revoked)`: the accounts and their entries. */
  readonly from: SQL;
  /** Whether the expiry of the balance `found` is processed now. */
  readonly expiresNow: SQL;
  /** Whether the alert `evaluated` must be evaluated at all. */
  readonly mustEvaluate: SQL;
}

/** The CTE `change` without entries. */
export const noChange = sql`change (account, balance, delta, was_revoked) AS (SELECT NULL, NULL, 0, 0 WHERE 0)`;

/** CTEs with columns of these tables. `evaluated` has more columns: see `watched`. */
export const found = alias(creditBalances, "found");
export const evaluated = alias(alerts, "evaluated");
const balances = alias(creditBalances, "balances");
const rules = alias(creditBalances, "rules");
const watchedAlert = alias(alerts, "alert");

/** Returns SQL for the threshold of the alert `evaluated`, rounded up to a step. No product is larger than the issued amount. */
export function threshold(issued: SQL): SQL {
  const { amountMinor, percentThousandths: percent } = evaluated;
  return sql`iif(${percent} IS NULL, ${amountMinor},
    ${percent} * (${issued} / 100000) + (${percent} * (${issued} % 100000) + 99999) / 100000)`;
}

const alertColumns = ({
  id,
  name,
  unit,
  event,
  amountMinor,
  percentThousandths,
}: typeof evaluated | typeof watchedAlert) => names(id, name, unit, event, amountMinor, percentThousandths);

/**
 * Returns the CTEs that end with `evaluated`: a row for each account and alert, with the amounts before and after the change and the
 * issued amounts. `live_…` counts active balances; `all_…` also expired balances that the cron has not processed yet.
 */
export function watched(
  value: ValueOf<{ environmentId: number; nowMs: number }>,
  { from, expiresNow, mustEvaluate }: Watch,
): SQL {
  const { doneExpiresAtMs, doneAccountId, doneGrantSeq } = expiryNotices;
  return sql`
  ${from},
  held (account, balance, minor) AS MATERIALIZED (
    SELECT ${reservations.accountId}, ${creditBalances.id}, sum(${storedLeg.minor})
    FROM watched CROSS JOIN ${reservations} ON ${reservations.accountId} = watched.account AND ${isOpen()}
    CROSS JOIN ${eachLeg(reservations.legs)} CROSS JOIN ${creditBalances} ON ${isBalanceOfLeg(reservations.accountId)}
    GROUP BY 1, 2
  ),
  done (since, at, account, issue) AS MATERIALIZED (
    SELECT max(${expiryNotices.sinceMs}, ${doneExpiresAtMs}), ${doneExpiresAtMs}, ${doneAccountId}, ${doneGrantSeq}
    FROM ${expiryNotices} WHERE ${eq(expiryNotices.environmentId, value("environmentId"))} AND ${expiryNotices.days} = 0
  ),
  held_or_moved (account, balance) AS (
    SELECT held.account, held.balance FROM held UNION SELECT change.account, change.balance FROM change
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
    SELECT ${found.accountId}, ${found.unit}, ${found.matches}, ${found.initialMinor},
      ${found.expiresAtMs} > ${value("nowMs")},
      iif(coalesce(change.was_revoked, ${found.revokedAtMs} IS NOT NULL), 0,
        ${found.remainingMinor} - coalesce(change.delta, 0) + coalesce(held.minor, 0)),
      iif(${found.revokedAtMs} IS NOT NULL OR ${expiresNow}, 0, ${found.remainingMinor} + coalesce(held.minor, 0))
    FROM done CROSS JOIN ${found}
    LEFT JOIN change ON change.account = ${found.accountId} AND change.balance = ${found.id}
    LEFT JOIN held ON held.account = ${found.accountId} AND held.balance = ${found.id}
    WHERE ${found.expiresAtMs} >= done.since
      AND (${found.expiresAtMs}, ${found.accountId}, ${found.grantSeq}) > (done.at, done.account, done.issue)
  ),
  ${rules} (${names(rules.unit, rules.matches)}) AS (SELECT DISTINCT ${balances.unit}, ${balances.matches} FROM ${balances}),
  ${watchedAlert} (${alertColumns(watchedAlert)}) AS (
    SELECT ${alerts.id}, ${alerts.name}, ${alerts.unit}, ${alerts.event}, ${alerts.amountMinor}, ${alerts.percentThousandths}
    FROM ${alerts} WHERE ${eq(alerts.environmentId, value("environmentId"))}
    UNION ALL SELECT '', NULL, NULL, NULL, 1, NULL
  ),
  covered AS MATERIALIZED (
    SELECT ${evaluated}.*, ${rules.unit} AS of_unit, ${rules.matches} AS of_matches
    FROM ${watchedAlert} AS ${evaluated} CROSS JOIN ${rules}
    WHERE ${mustEvaluate} AND coalesce(${evaluated.unit}, ${rules.unit}) = ${rules.unit}
      AND (${evaluated.event} IS NULL OR ${passesFilter(evaluated.event, rules.matches)})
  ),
  ${evaluated} AS (
    SELECT balances.account, ${evaluated.id}, ${evaluated.name}, ${evaluated.unit}, ${evaluated.amountMinor}, ${evaluated.percentThousandths},
      ${capSum(sql`(balances.is_live * balances.before)`)} AS live_before,
      ${capSum(sql`(balances.is_live * balances.after)`)} AS live_after,
      ${capSum(sql`((balances.is_live AND balances.before > 0) * balances.initial)`)} AS live_issued,
      ${capSum(sql`balances.before`)} AS all_before, ${capSum(sql`balances.after`)} AS all_after,
      ${capSum(sql`((balances.before > 0) * balances.initial)`)} AS all_issued,
      ${capSum(sql`((balances.is_live AND balances.after > 0) * balances.initial)`)} AS issued_after
    FROM covered AS ${evaluated}
    CROSS JOIN ${balances} ON ${balances.unit} = evaluated.of_unit AND ${balances.matches} = evaluated.of_matches
    GROUP BY balances.account, ${evaluated.id}
  )`;
}
