import { insertAct, newAct } from "../../catalog/audit/audit-statement.ts";
import { drizzle, hasRow, query, type ValueOf } from "../../db/query.ts";
import { alerts } from "../../db/schema.ts";
import { batch } from "../../db/sql.ts";
import type { AdminCtx } from "../../runtime.ts";
import { type AlertKey, ofAlertKey, presentAlert } from "./alerts.ts";
import { deleteStates, endStates, requireAlert } from "./own-alert.ts";
import type { AlertOutput } from "./responses.ts";

const auditAlertDeleted = insertAct<AlertKey>((value) => hasRow(alerts, ofAlertKey(value)));
const deleteAlertRow = query((value: ValueOf<AlertKey>) => drizzle.delete(alerts).where(ofAlertKey(value)));

/**
 * Deletes an alert, and returns it as it was. Throws `not_found`, and `temporarily_unavailable` when it went off for so many
 * users that another call must continue.
 */
export async function deleteAlert(admin: AdminCtx, appId: string, alertId: string): Promise<AlertOutput> {
  const row = await requireAlert(admin, appId, alertId);
  const { environmentId, mode } = row;
  const key = { environmentId, alertId };
  const act = newAct(admin, { appId, action: "alert.deleted", target: alertId, details: { mode } });
  await endStates(admin, key);
  await batch(admin.db, [auditAlertDeleted({ ...act, ...key }), deleteStates(key), deleteAlertRow(key)]);
  return presentAlert(row, mode);
}
