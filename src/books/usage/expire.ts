import { clockSql, timesOf } from "../../db/clock.ts";
import { all, nowMsSql, type Statement, statement } from "../../db/sql.ts";
import type { CronCtx, CronPart, Mode, TenantCtx } from "../../runtime.ts";
import { settleDueHolds } from "../ledger/write.ts";

/** What a user's holds take, as a rule, with the messages that they send. */
const QUERIES_A_USER = 12;
const USERS_A_RUN_MAX = 250;

/**
 * Returns or charges the holds that are due, of every application, user by user, each in one write, or in several where they are many. A user whose own write was
 * faster has settled them already. What one run does not reach, the next does (U8). Answers errors from finding or settling holds.
 */
export async function expireReservations(root: CronCtx): Promise<readonly unknown[]> {
  const { db, database, allowance } = root;
  const failures: unknown[] = [];
  const due = await all(db, selectUsersDue({ nowMs: root.now(), limit: USERS_A_RUN_MAX }));
  for (const { accountId, clock, ...row } of due) {
    if (!allowance.has(QUERIES_A_USER)) break;
    const environment = { ...row, database };
    const ctx: TenantCtx = { ...root, ...timesOf(clock, root), environment, caller: { kind: "cron" } };
    try {
      while ((await settleDueHolds(ctx, { accountId }, root.newId(""))) && allowance.has(QUERIES_A_USER));
    } catch (error) {
      failures.push(error);
    }
  }
  return failures;
}

export const holdsPart: CronPart = {
  code: "holds_not_returned",
  weight: 8,
  queriesOfStep: QUERIES_A_USER + 1,
  work: expireReservations,
};

type UserDue = { accountId: number; id: number; appId: string; mode: Mode; clock: string | null };

/** Users with a due hold. Only the index of open reservations is read, in its order. */
const selectUsersDue = statement<{ nowMs: number; limit: number }, UserDue>`
  SELECT due.account_id AS accountId, e.id AS id, e.app_id AS appId, e.mode AS mode,
    ${clockSql("e.features")} AS clock
  FROM (
    SELECT DISTINCT account_id FROM reservations INDEXED BY reservations_open
    WHERE state = 'open' AND expires_at_ms <= ${nowMsSql}
    ORDER BY account_id LIMIT CAST(:limit AS INTEGER)
  ) AS due
  CROSS JOIN accounts AS a ON a.id = due.account_id
  CROSS JOIN environments AS e ON e.id = a.environment_id`;

export type NextHold = { accountId: number; momentMs: number };

const selectNext = statement<{ environmentId: number; untilMs: number }, NextHold>`
  SELECT r.account_id AS accountId, r.expires_at_ms AS momentMs
  FROM accounts AS a CROSS JOIN reservations AS r INDEXED BY reservations_open
    ON r.account_id = a.id AND r.state = 'open' AND r.expires_at_ms <= CAST(:untilMs AS INTEGER)
  WHERE a.environment_id = :environmentId AND a.is_erased = 0 ORDER BY r.expires_at_ms, r.account_id LIMIT 1`;

/** The query of the user whose hold ends next in an environment, up to `untilMs`. An erasure releases those of whom it erases. */
export const selectNextHold = (environmentId: number, untilMs: number): Statement<NextHold> =>
  selectNext({ environmentId, untilMs });
