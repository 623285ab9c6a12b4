import { all, statement } from "../db/sql.ts";
import type { Mode, SystemCtx, TenantCtx } from "../runtime.ts";
import { continueErasure } from "./continue.ts";

/** How many pages a run of the cron does of all erasures. A page takes up to 60 queries. */
const PAGES_A_RUN = 4;
const ROWS_OF_PAGE = 8_000;

type Running = { erasureId: string; id: number; appId: string; mode: Mode };

const selectRunning = statement<{ limit: number }, Running>`
  SELECT r.id AS erasureId, e.id AS id, e.app_id AS appId, e.mode AS mode
  FROM erasures AS r INDEXED BY erasures_running CROSS JOIN environments AS e ON e.id = r.environment_id
  WHERE r.completed_at_ms IS NULL ORDER BY r.started_at_ms LIMIT CAST(:limit AS INTEGER)`;

/**
 * Goes on with erasures that are running, the oldest first, in every database (E1). Answers the errors: one that fails takes only
 * its own erasure down, and the next run tries again.
 */
export async function eraseRunning(root: SystemCtx, pages = PAGES_A_RUN): Promise<readonly unknown[]> {
  const failures: unknown[] = [];
  for (const { index, db } of root.databases) {
    const running = await all(db, selectRunning({ limit: pages })).catch((error: unknown) => {
      failures.push(error);
      return [];
    });
    const share = { pages: Math.max(2, Math.floor(pages / Math.max(1, running.length))), rows: ROWS_OF_PAGE };
    for (const { erasureId, ...environment } of running) {
      const ctx: TenantCtx = {
        ...root,
        db,
        environment: { ...environment, database: index },
        caller: { kind: "cron" },
      };
      await continueErasure(ctx, erasureId, share).catch((error: unknown) => failures.push(error));
    }
  }
  return failures;
}
