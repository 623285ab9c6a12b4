import { eq } from "drizzle-orm";
import { requireEnvironment } from "../../catalog/apps/app.ts";
import { drizzle, fields, query, type ValueOf } from "../../db/query.ts";
import { alerts } from "../../db/schema.ts";
import { all } from "../../db/sql.ts";
import type { Mode, SystemCtx } from "../../runtime.ts";
import { presentAlert } from "./alert.ts";
import type { ListAlertsOutput } from "./responses.ts";

const selectAlerts = query((value: ValueOf<{ environmentId: number }>) =>
  drizzle
    .select(fields(alerts))
    .from(alerts)
    .where(eq(alerts.environmentId, value("environmentId")))
    .orderBy(alerts.createdAtMs, alerts.id),
);

/** The alerts of one mode, oldest first. Throws `not_found`. */
export async function listAlerts(root: SystemCtx, appId: string, mode: Mode): Promise<ListAlertsOutput> {
  const { id: environmentId } = await requireEnvironment(root, appId, mode);
  const rows = await all(root.db, selectAlerts({ environmentId }));
  return { alerts: rows.map((row) => presentAlert(row, mode)) };
}
