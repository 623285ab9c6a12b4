import { all, statement } from "../db/sql.ts";
import { returnDueHolds } from "../ledger/write.ts";
import type { Ctx, Mode, RootCtx } from "../runtime.ts";

/** A Worker may send 1,000 queries in one invocation, and a user's holds take six: two to read and up to four to write. */
const USERS_A_RUN_MAX = 150;

export interface Expired {
  readonly users: number;
  /** Why holds could not be found, or returned, user by user; the next run tries again. */
  readonly failures: readonly unknown[];
}

/**
 * Returns the holds that are due, of every application, user by user: each is one write. A user whose own write was faster
 * has returned them already. What one run does not reach, the next does (U8).
 */
export async function expireReservations(root: RootCtx): Promise<Expired> {
  const failures: unknown[] = [];
  const users = await all(root.db, selectUsersDue({ nowMs: root.now(), limit: USERS_A_RUN_MAX })).catch(
    (error: unknown) => {
      failures.push(error);
      return [];
    },
  );
  for (const { accountId, environmentId, appId, mode } of users) {
    const ctx: Ctx = { ...root, environment: { id: environmentId, appId, mode }, caller: { kind: "cron" } };
    await returnDueHolds(ctx, { accountId }, root.newId("")).catch((error: unknown) => failures.push(error));
  }
  return { users: users.length, failures };
}

type UserDue = { accountId: number; environmentId: number; appId: string; mode: Mode };

/** Users with a hold that is due, in the order of the index of open reservations, which is all that is read of them. */
const selectUsersDue = statement<{ nowMs: number; limit: number }, UserDue>`
  SELECT due.account_id AS accountId, e.id AS environmentId, e.app_id AS appId, e.mode AS mode
  FROM (
    SELECT DISTINCT account_id FROM reservations INDEXED BY reservations_open
    WHERE state = 'open' AND expires_at_ms <= CAST(:nowMs AS INTEGER)
    ORDER BY account_id LIMIT CAST(:limit AS INTEGER)
  ) AS due
  CROSS JOIN accounts AS a ON a.id = due.account_id
  CROSS JOIN environments AS e ON e.id = a.environment_id`;
