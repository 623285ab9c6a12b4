import { and, eq, sql } from "drizzle-orm";
import { admitRow } from "../../auth/scopes.ts";
import { requireApp } from "../../catalog/apps/apps.ts";
import { computed, drizzle, fields, query, type ValueOf } from "../../db/query.ts";
import { alertStates, alerts, environments } from "../../db/schema.ts";
import { all } from "../../db/sql.ts";
import { PurserError, temporarilyUnavailable } from "../../errors.ts";
import type { AdminCtx, Mode, SystemCtx } from "../../runtime.ts";
import type { AlertKey, AlertRow } from "./alerts.ts";

const STATES_A_STEP = 10_000;
const STATE_STEPS_MAX = 100;

const selectAlert = query((value: ValueOf<{ appId: string; alertId: string }>) =>
  drizzle
    .select({ ...fields(alerts), ...fields(environments, "mode") })
    .from(environments)
    .crossJoin(alerts)
    .where(
      and(
        eq(environments.appId, value("appId")),
        eq(alerts.id, value("alertId")),
        eq(alerts.environmentId, environments.id),
      ),
    ),
);

/** Returns an application's alert. Throws `not_found` and `forbidden`. */
export async function requireAlert(
  root: SystemCtx,
  appId: string,
  alertId: string,
): Promise<AlertRow & { readonly mode: Mode }> {
  const [row] = await all(root.db, selectAlert({ appId, alertId }));
  if (row !== undefined) return admitRow(root, row);
  await requireApp(root, appId);
  throw new PurserError("not_found", "The application has no such alert.", { param: "alertId" });
}

/** Deletes a limited number of an alert's states. A state records that the alert went off for a user. */
export const deleteStates = query((value: ValueOf<AlertKey>) => {
  const { environmentId, alertId, accountId } = alertStates;
  const step = drizzle
    .select(fields(alertStates, "environmentId", "alertId", "accountId"))
    .from(alertStates)
    .where(and(eq(environmentId, value("environmentId")), eq(alertId, value("alertId"))))
    .limit(STATES_A_STEP);
  return drizzle
    .delete(alertStates)
    .where(sql`(${environmentId}, ${alertId}, ${accountId}) IN ${step}`)
    .returning(computed({ isDeleted: sql<1>`1` }));
});

/**
 * Deletes an alert's states, except the last step, which the batch of the act itself deletes with `deleteStates`. Throws
 * `temporarily_unavailable` when there are so many that another call must continue.
 */
export async function endStates(admin: AdminCtx, key: AlertKey): Promise<void> {
  for (let step = 0; step < STATE_STEPS_MAX; step++) {
    if ((await all(admin.db, deleteStates(key))).length < STATES_A_STEP) return;
  }
  throw temporarilyUnavailable("The alert went off for very many users. Call again to go on.");
}
