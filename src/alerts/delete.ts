import { requireApp } from "../apps/app.ts";
import { auditStatement, newAct } from "../audit/audit-statement.ts";
import { all, batch, statement } from "../db/sql.ts";
import { PurserError, temporarilyUnavailable } from "../errors.ts";
import type { AdminCtx, Mode } from "../runtime.ts";
import { type AlertRow, alertColumns, presentAlert } from "./alert.ts";
import type { AlertOutput } from "./responses.ts";

const STATES_A_STEP = 10_000;
const STEPS_MAX = 100;

type Key = { environmentId: number; alertId: string };

const selectAlert = statement<{ appId: string; alertId: string }, AlertRow & { mode: Mode }>`
  SELECT ${alertColumns}, e.mode AS "mode" FROM environments AS e CROSS JOIN alerts AS l ON l.environment_id = e.id
  WHERE e.app_id = :appId AND l.id = :alertId`;
const audit = auditStatement<Key>(
  "EXISTS (SELECT 1 FROM alerts WHERE environment_id = :environmentId AND id = :alertId)",
);
/** Whom an alert went off for: a step of them. */
const deleteStates = statement<Key, { isDeleted: 1 }>`
  DELETE FROM alert_states WHERE (environment_id, alert_id, account_id) IN (
    SELECT environment_id, alert_id, account_id FROM alert_states
    WHERE environment_id = :environmentId AND alert_id = :alertId LIMIT ${String(STATES_A_STEP)}
  ) RETURNING 1 AS isDeleted`;
const deleteRow = statement<Key>`DELETE FROM alerts WHERE environment_id = :environmentId AND id = :alertId`;

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
