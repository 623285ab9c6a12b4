import { all, type Db, nowMsSql, statement } from "../db/sql.ts";
import { settleDueHolds } from "../ledger/write.ts";
import type { Mode, SystemCtx, TenantCtx } from "../runtime.ts";

/** A Worker may send 1,000 queries in one invocation, and the cron has other work beside. */
const QUERIES_A_RUN_MAX = 600;
/** A user's holds take no fewer queries. */
const QUERIES_A_USER_MIN = 4;

export interface ExpiryRun {
  readonly users: number;
  /** Errors from finding or settling holds. The next run tries again. */
  readonly failures: readonly unknown[];
}

/**
 * Returns or charges the holds that are due, of every application, user by user: each is one write. A user whose own write was
 * faster has settled them already. The databases share a run's queries evenly, and one that fails takes only its own down (D2).
 * What one run does not reach, the next does (U8).
 */
export async function expireReservations(root: SystemCtx): Promise<ExpiryRun> {
  const share = QUERIES_A_RUN_MAX / root.databases.length;
  const limit = Math.floor(share / QUERIES_A_USER_MIN);
  const failures: unknown[] = [];
  let users = 0;
  for (const { index, db } of root.databases) {
    const due = await all(db, selectUsersDue({ nowMs: root.now(), limit })).catch((error: unknown) => {
      failures.push(error);
      return [];
    });
    let queries = 0;
    const send: Db["send"] = (statements) => {
      queries += statements.length;
      return db.send(statements);
    };
    for (const { accountId, ...environment } of due) {
      if (queries >= share) break;
      users++;
      const ctx: TenantCtx = {
        ...root,
        db: { ...db, send },
        environment: { ...environment, database: index },
        caller: { kind: "cron" },
      };
      await settleDueHolds(ctx, { accountId }, root.newId("")).catch((error: unknown) => failures.push(error));
    }
  }
  return { users, failures };
}

type UserDue = { accountId: number; id: number; appId: string; mode: Mode };

/** Users with a due hold. Only the index of open reservations is read, in its order. */
const selectUsersDue = statement<{ nowMs: number; limit: number }, UserDue>`
  SELECT due.account_id AS accountId, e.id AS id, e.app_id AS appId, e.mode AS mode
  FROM (
    SELECT DISTINCT account_id FROM reservations INDEXED BY reservations_open
    WHERE state = 'open' AND expires_at_ms <= ${nowMsSql}
    ORDER BY account_id LIMIT CAST(:limit AS INTEGER)
  ) AS due
  CROSS JOIN accounts AS a ON a.id = due.account_id
  CROSS JOIN environments AS e ON e.id = a.environment_id`;
