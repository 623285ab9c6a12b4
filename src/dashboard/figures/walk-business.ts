import { all, batch, fragment, nowMsSql, statement } from "../../db/sql.ts";
import { DAY_MS } from "../../lib/time.ts";
import type { CronCtx, CronPart } from "../../runtime.ts";

/** How old the figures become before they are computed anew. */
const AGE_MS = 3_600_000;
const ACCOUNTS_A_PAGE = 1_000;
/** Of each database, in one run of the cron. */
const PAGES_A_RUN_MAX = 30;
/** The last page takes as many as another, and one more. */
const QUERIES_A_PAGE = 6;
/** For how many days back what expired is told. */
const EXPIRED_DAYS = 90;
/** A sum is kept in two parts, because SQLite's integers hold a thousand of the largest amounts. */
export const STEPS_APART = 1_000_000;

const selectWalk = statement<Record<never, never>, { beganAtMs: number; afterId: number }>`
  SELECT began_at_ms AS beganAtMs, after_account_id AS afterId FROM business_walks WHERE finished_at_ms IS NULL`;

/** Begins a walk, unless one is on its way or the last one is young. Two Workers at once begin one. */
const beginWalk = statement<{ nowMs: number }>`
  INSERT INTO business_walks (began_at_ms, after_account_id)
  SELECT ${nowMsSql}, 0 WHERE NOT EXISTS (
    SELECT 1 FROM business_walks WHERE finished_at_ms IS NULL OR began_at_ms > ${nowMsSql} - ${`${AGE_MS}`}
  ) AND (EXISTS (SELECT 1 FROM accounts) OR EXISTS (SELECT 1 FROM refusals))`;

const selectEnd = statement<{ afterId: number }, { endId: number | null }>`
  SELECT max(id) AS endId FROM (SELECT id FROM accounts WHERE id > :afterId ORDER BY id LIMIT ${`${ACCOUNTS_A_PAGE}`})`;

type Page = { beganAtMs: number; afterId: number; endId: number; nowMs: number };

const stepPage = statement<Page>`
  UPDATE business_walks SET after_account_id = CAST(:endId AS INTEGER)
  WHERE began_at_ms = :beganAtMs AND after_account_id = :afterId AND finished_at_ms IS NULL`;

const parts = fragment`sum(b.remaining_steps / ${`${STEPS_APART}`}), sum(b.remaining_steps % ${`${STEPS_APART}`})`;
const balancesOfPage = fragment`
  FROM accounts AS a CROSS JOIN credit_balances AS b INDEXED BY credit_balances_remaining
    ON b.account_id = a.id AND b.has_remaining = 1`;
const isInPage = fragment`a.id > :afterId AND a.id <= :endId`;
/** How far the test clocks are ahead (D3): few environments have one, and the others are not looked up for it. */
const ahead = fragment`ahead (environment_id, ahead_ms) AS MATERIALIZED (
  SELECT id, coalesce(features ->> '$.clock.atMs' - ${nowMsSql}, features ->> '$.clock.aheadMs')
  FROM environments INDEXED BY environments_clock WHERE features ->> '$.clock' IS NOT NULL
)`;
/** The time of the account's environment. */
const nowOfAccount = fragment`(${nowMsSql} + coalesce((
  SELECT ahead_ms FROM ahead WHERE ahead.environment_id = a.environment_id
), 0))`;
/** The numbers of days for which active users are counted. */
export const ACTIVE_DAYS = [7, 30, 90] as const;
const activeUsers = fragment`
  SELECT a.environment_id, 'active', CAST(d.value AS TEXT), '', count(*), 0
  FROM accounts AS a CROSS JOIN json_each('${JSON.stringify(ACTIVE_DAYS)}') AS d
  WHERE ${isInPage} AND a.last_active_day > ${nowOfAccount} / ${`${DAY_MS}`} - d.value GROUP BY 1, 3`;

/**
 * Adds a page's sums, if the statement before it took the step: so a page counts once, whoever else walks, and however often
 * the batch is sent.
 */
const addPage = statement<Page>`
  INSERT INTO business_figures (environment_id, began_at_ms, kind, label, unit, whole, rest)
  WITH ${ahead}
  SELECT environment_id, CAST(:beganAtMs AS INTEGER), kind, label, unit, whole, rest FROM (
    SELECT a.environment_id AS environment_id, 'outstanding' AS kind, b.pack_id AS label, b.unit AS unit,
      sum(b.remaining_steps / ${`${STEPS_APART}`}) AS whole, sum(b.remaining_steps % ${`${STEPS_APART}`}) AS rest
    ${balancesOfPage} WHERE ${isInPage} AND b.expires_at_ms > ${nowOfAccount} GROUP BY 1, 3, 4
    UNION ALL
    SELECT a.environment_id, 'expired', CAST(b.expires_at_ms / ${`${DAY_MS}`} AS TEXT), b.unit, ${parts}
    ${balancesOfPage} WHERE ${isInPage} AND b.expires_at_ms <= ${nowOfAccount}
      AND b.expires_at_ms > ${nowOfAccount} - ${`${EXPIRED_DAYS * DAY_MS}`} GROUP BY 1, 3, 4
    UNION ALL
    SELECT a.environment_id, 'users', '', '', count(*), 0 FROM accounts AS a WHERE ${isInPage} GROUP BY 1
    UNION ALL ${activeUsers}
  ) WHERE changes() = 1
  ON CONFLICT (environment_id, began_at_ms, kind, label, unit)
  DO UPDATE SET whole = whole + excluded.whole, rest = rest + excluded.rest`;

const finishWalk = statement<{ beganAtMs: number; afterId: number; nowMs: number }>`
  UPDATE business_walks SET finished_at_ms = ${nowMsSql}
  WHERE began_at_ms = :beganAtMs AND after_account_id = :afterId AND finished_at_ms IS NULL`;
const isOld = fragment`began_at_ms < (SELECT max(began_at_ms) FROM business_walks WHERE finished_at_ms IS NOT NULL)`;
const deleteOldFigures = statement<Record<never, never>>`DELETE FROM business_figures WHERE ${isOld}`;
const deleteOldWalks = statement<Record<never, never>>`DELETE FROM business_walks WHERE ${isOld}`;

/** For how many days refusals are kept (refusals.ts). */
const REFUSAL_DAYS = 30;
const deleteOldRefusals = statement<{ nowMs: number }>`
  DELETE FROM refusals WHERE (environment_id, user_id, kind, subject) IN (
    SELECT r.environment_id, r.user_id, r.kind, r.subject
    FROM environments AS e CROSS JOIN json_each('["shortage", "failed_grant"]') AS k
    CROSS JOIN refusals AS r INDEXED BY refusals_latest
      ON r.environment_id = e.id AND r.kind = k.value AND r.last_at_ms < ${nowMsSql} - ${`${REFUSAL_DAYS * DAY_MS}`}
  )`;

/**
 * Computes what the overview shows of a business, hourly, in pages: what is outstanding by unit and pack, what expired by day,
 * and how many users were active. A walk over a database's users that one run does not finish, the next goes on with.
 */
export async function walkBusiness({ db, now, allowance }: CronCtx): Promise<readonly unknown[]> {
  await all(db, beginWalk({ nowMs: now() }));
  for (let pages = 0; pages < PAGES_A_RUN_MAX; pages++) {
    const [state] = await all(db, selectWalk({}));
    if (state === undefined || !allowance.has(QUERIES_A_PAGE)) break;
    const [page] = await all(db, selectEnd({ afterId: state.afterId }));
    const nowMs = now();
    const endId = page?.endId ?? null;
    if (endId === null) {
      await batch(db, [
        finishWalk({ ...state, nowMs }),
        deleteOldFigures({}),
        deleteOldWalks({}),
        deleteOldRefusals({ nowMs }),
      ]);
      break;
    }
    await batch(db, [stepPage({ ...state, endId, nowMs }), addPage({ ...state, endId, nowMs })]);
  }
  return [];
}

export const figuresPart: CronPart = {
  code: "figures_not_computed",
  weight: 2,
  queriesOfStep: QUERIES_A_PAGE + 2,
  work: walkBusiness,
};
