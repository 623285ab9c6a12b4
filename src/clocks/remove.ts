import { eq, sql } from "drizzle-orm";
import { requireEnvironment } from "../catalog/apps/app.ts";
import { insertAct, newAct } from "../catalog/audit/audit-statement.ts";
import { constraintOf } from "../db/constraint.ts";
import { asInteger, drizzle, query, type ValueOf } from "../db/query.ts";
import { retryOnConflict } from "../db/retry-on-conflict.ts";
import { expiryNotices } from "../db/schema.ts";
import { batch } from "../db/sql.ts";
import { PurserError } from "../errors.ts";
import type { AdminCtx } from "../runtime.ts";
import { clockWrites } from "./advance.ts";
import { NO_CLOCK } from "./read.ts";
import type { ClockOutput } from "./responses.ts";

const CONFLICTS = new Set(["guard_environment"] as const);

const audit = insertAct();
/** What was set in the environment's time is in force from now on. */
const resetNotices = query((value: ValueOf<{ environmentId: number; nowMs: number }>) =>
  drizzle
    .update(expiryNotices)
    .set({ sinceMs: sql`min(${expiryNotices.sinceMs}, ${asInteger(value("nowMs"))})` })
    .where(eq(expiryNotices.environmentId, value("environmentId"))),
);

/**
 * Takes an environment back to real time (D3). Throws `not_found`, and `invalid_request` while it holds credits, usage, payments
 * or people, whose times would then lie in the future.
 */
export async function removeClock(admin: AdminCtx, appId: string): Promise<ClockOutput> {
  const act = newAct(admin, { appId, action: "clock.removed", target: appId, details: { mode: "test" } });
  return retryOnConflict(CONFLICTS, admin.newId(""), async () => {
    const { id: environmentId, clock } = await requireEnvironment(admin, appId, "test");
    if (clock === null) return NO_CLOCK;
    const reset = resetNotices({ environmentId, nowMs: admin.now() });
    const writes = [audit(act), ...clockWrites(environmentId, clock, null), reset];
    await batch(admin.db, writes).catch(refuseKept);
    return NO_CLOCK;
  });
}

function refuseKept(error: unknown): never {
  if (constraintOf(error) !== "clock_kept") throw error;
  throw new PurserError(
    "invalid_request",
    "The test environment holds credits, usage, payments or people of its own time. Go on with its clock, or make another application.",
    { cause: error },
  );
}
