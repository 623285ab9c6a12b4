import { and, eq, sql } from "drizzle-orm";
import { requireEnvironment } from "../../catalog/apps/apps.ts";
import { type ActKey, actIsLatest, insertAct, newAct } from "../../catalog/audit/audit-statement.ts";
import { timesOf } from "../../db/clock.ts";
import { drizzle, hasRow, query, type ValueOf } from "../../db/query.ts";
import { environments } from "../../db/schema.ts";
import { batch } from "../../db/sql.ts";
import type { AdminCtx } from "../../runtime.ts";
import { limitReads, presentLimits } from "./read.ts";
import type { LimitsOutput } from "./responses.ts";
import type { SetLimitsInput } from "./schemas.ts";

type Setting = { environmentId: number; stored: string | null };
const ofEnvironment = (value: ValueOf<Setting>) => eq(environments.id, value("environmentId"));
const audit = insertAct<Setting>((value) =>
  hasRow(environments, and(ofEnvironment(value), sql`${environments.analyticsLimits} IS NOT ${value("stored")}`)),
);
const updateLimits = query((value: ValueOf<Setting & ActKey>) =>
  drizzle
    .update(environments)
    .set({ analyticsLimits: value("stored", environments.analyticsLimits) })
    .where(and(ofEnvironment(value), actIsLatest(value))),
);

/** Sets the limits of an environment's analytics: all of them, in force at once (L3). Throws `not_found`. */
export async function setLimits(admin: AdminCtx, appId: string, input: SetLimitsInput): Promise<LimitsOutput> {
  const { id: environmentId, clock } = await requireEnvironment(admin, appId, input.mode);
  // In the schema's order, so that the same limits are the same text.
  const set = Object.fromEntries(
    Object.entries(input.analytics ?? {}).filter((entry): entry is [string, number] => entry[1] !== undefined),
  );
  const stored = Object.keys(set).length === 0 ? null : JSON.stringify(set);
  const details = { mode: input.mode, ...set };
  const act = newAct(admin, { appId, action: "limits.set", target: appId, details });
  const values = { ...act, environmentId, stored };
  const [, , [today], reached] = await batch(admin.db, [
    audit(values),
    updateLimits(values),
    ...limitReads({ environmentId, nowMs: timesOf(clock, admin).now() }),
  ]);
  return presentLimits(appId, input.mode, today, reached);
}
