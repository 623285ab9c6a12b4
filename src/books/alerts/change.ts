import { insertAct, newAct } from "../../catalog/audit/audit-statement.ts";
import { drizzle, hasRow, query, type ValueOf } from "../../db/query.ts";
import { alerts } from "../../db/schema.ts";
import { batch } from "../../db/sql.ts";
import type { AdminCtx } from "../../runtime.ts";
import { type AlertKey, type AlertRow, ofAlertKey, presentAlert } from "./alerts.ts";
import { deleteStates, endStates, requireAlert } from "./own-alert.ts";
import type { AlertOutput } from "./responses.ts";
import { amountStepsOf, type ChangeAlertInput, percentThousandths } from "./schemas.ts";

type Changed = Pick<AlertRow, "name" | "event" | "amountSteps" | "percentThousandths">;
const auditAlertChanged = insertAct<AlertKey>((value) => hasRow(alerts, ofAlertKey(value)));
const updateAlert = query((value: ValueOf<AlertKey & Changed>) =>
  drizzle
    .update(alerts)
    .set({
      name: value("name", alerts.name),
      event: value("event", alerts.event),
      amountSteps: value("amountSteps", alerts.amountSteps),
      percentThousandths: value("percentThousandths", alerts.percentThousandths),
    })
    .where(ofAlertKey(value)),
);

/**
 * Changes the given fields of an alert (H5). The alert then starts again like a new one: it may go off again for users for whom
 * it went off before. Throws `not_found`, and `temporarily_unavailable` when it went off for so many users that another call
 * must continue.
 */
export async function changeAlert(
  admin: AdminCtx,
  appId: string,
  alertId: string,
  { name, event, below }: ChangeAlertInput,
): Promise<AlertOutput> {
  const { mode, ...row } = await requireAlert(admin, appId, alertId);
  const { environmentId, unit } = row;
  const next = {
    ...row,
    name: name ?? row.name,
    event: event === undefined ? row.event : event,
    ...(below?.amount === undefined
      ? {}
      : { amountSteps: amountStepsOf(unit, below.amount), percentThousandths: null }),
    ...(below?.percent === undefined
      ? {}
      : { amountSteps: null, percentThousandths: percentThousandths(below.percent) }),
  };
  const changed = [
    ...(next.name === row.name ? [] : ["name"]),
    ...(next.event === row.event ? [] : ["event"]),
    ...(next.amountSteps === row.amountSteps && next.percentThousandths === row.percentThousandths ? [] : ["below"]),
  ];
  if (changed.length === 0) return presentAlert(row, mode);
  const key = { environmentId, alertId };
  const act = newAct(admin, { appId, action: "alert.changed", target: alertId, details: { mode, changed } });
  await endStates(admin, key);
  const { amountSteps, percentThousandths: percent } = next;
  const values = { name: next.name, event: next.event, amountSteps, percentThousandths: percent };
  await batch(admin.db, [auditAlertChanged({ ...act, ...key }), deleteStates(key), updateAlert({ ...key, ...values })]);
  return presentAlert(next, mode);
}
