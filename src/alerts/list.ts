import { requireEnvironment } from "../apps/app.ts";
import { all, statement } from "../db/sql.ts";
import type { Mode, SystemCtx } from "../runtime.ts";
import { type AlertRow, alertColumns, presentAlert } from "./alert.ts";
import type { ListAlertsOutput } from "./responses.ts";

const selectAlerts = statement<{ environmentId: number }, AlertRow>`
  SELECT ${alertColumns} FROM alerts AS l WHERE environment_id = :environmentId ORDER BY created_at_ms, id`;

/** The alerts of one mode, oldest first. Throws `not_found`. */
export async function listAlerts(root: SystemCtx, appId: string, mode: Mode): Promise<ListAlertsOutput> {
  const { id: environmentId } = await requireEnvironment(root, appId, mode);
  const rows = await all(root.db, selectAlerts({ environmentId }));
  return { alerts: rows.map((row) => presentAlert(row, mode)) };
}
