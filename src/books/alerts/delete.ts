import { and, eq, sql } from "drizzle-orm";
import { requireApp } from "../../catalog/apps/app.ts";
import { insertAct, newAct } from "../../catalog/audit/audit-statement.ts";
import { computed, drizzle, fields, hasRow, query, type ValueOf } from "../../db/query.ts";
import { alertStates, alerts, environments } from "../../db/schema.ts";
import { all, batch } from "../../db/sql.ts";
import { PurserError, temporarilyUnavailable } from "../../errors.ts";
import type { AdminCtx } from "../../runtime.ts";
import { type AlertKey, ofAlertKey, presentAlert } from "./alert.ts";
import type { AlertOutput } from "./responses.ts";

const STATES_A_STEP = 10_000;
const STEPS_MAX = 100;

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
const audit = insertAct<AlertKey>((value) => hasRow(alerts, ofAlertKey(value)));
/** Whom an alert went off for: a step of them. */
const deleteStates = query((value: ValueOf<AlertKey>) => {
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
const deleteRow = query((value: ValueOf<AlertKey>) => drizzle.delete(alerts).where(ofAlertKey(value)));

/**
 * Deletes an alert, and answers it as it was. Throws `not_found`, and `temporarily_unavailable` when it went off for so many users that
 * another call has to go on.
 */
export async function deleteAlert(admin: AdminCtx, appId: string, alertId: string): Promise<AlertOutput> {
  const [row] = await all(admin.db, selectAlert({ appId, alertId }));
  if (row === undefined) {
    await requireApp(admin, appId);
    throw new PurserError("not_found", "The application has no such alert.", { param: "alertId" });
  }
  const { environmentId, mode } = row;
  const key = { environmentId, alertId };
  const act = newAct(admin, { appId, action: "alert.deleted", target: alertId, details: { mode } });
  let isLast = false;
  for (let step = 0; step < STEPS_MAX && !isLast; step++) {
    isLast = (await all(admin.db, deleteStates(key))).length < STATES_A_STEP;
  }
  if (!isLast) throw temporarilyUnavailable("The alert went off for very many users; delete it again to go on.");
  await batch(admin.db, [audit({ ...act, ...key }), deleteStates(key), deleteRow(key)]);
  return presentAlert(row, mode);
}
