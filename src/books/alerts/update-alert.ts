import { and, eq, sql } from "drizzle-orm";
import { insertAuditEntry, newAuditEntry } from "../../catalog/audit.ts";
import { changedColumns, computed, drizzle, fields, hasRow, query, type ValueOf } from "../../db/query.ts";
import { alertStates, alerts, type Minor } from "../../db/schema.ts";
import { all, batch } from "../../db/sql.ts";
import { invalid, temporarilyUnavailable } from "../../errors.ts";
import { warn } from "../../http/warnings.ts";
import type { AdminCtx } from "../../runtime.ts";
import { amountRule, toMinor, type Unit } from "../amounts/amount.ts";
import {
  type AlertKey,
  type AlertOfApp,
  type AlertOutput,
  type Below,
  ofAlertKey,
  percentThousandths,
  presentAlert,
  selectAlert,
  unknownAlert,
} from "./alerts.ts";

/** Returns the amount in minor units of the unit. Throws `invalid_request`. */
function requireMinor(unit: Unit, amount: number): Minor {
  const minor = toMinor(unit, amount);
  if (minor === null) throw invalid("below.amount", amountRule(unit, amount));
  return minor;
}

export interface ChangeAlertInput {
  readonly name?: string | undefined;
  readonly event?: string | null | undefined;
  readonly below?: Below | undefined;
}

const STATES_A_STEP = 10_000;
const STATE_STEPS_MAX = 100;

/** Deletes a limited number of an alert's states. A state records that the alert fired for a user. */
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

/**
 * Deletes an alert's states until so few are left that `deleteStates` in the batch of the change deletes them all. Throws
 * `temporarily_unavailable` if there are so many that another call must continue.
 */
async function deleteMostStates(admin: AdminCtx, key: AlertKey): Promise<void> {
  for (let step = 0; step < STATE_STEPS_MAX; step++) {
    if ((await all(admin.db, deleteStates(key))).length < STATES_A_STEP) return;
  }
  throw temporarilyUnavailable("The alert has fired for very many users. Call again to continue.");
}

const auditAlertChanged = insertAuditEntry<AlertKey>((value) => hasRow(alerts, ofAlertKey(value)));
const ALERT_COLUMNS = {
  name: alerts.name,
  event: alerts.event,
  amountMinor: alerts.amountMinor,
  percentThousandths: alerts.percentThousandths,
};
const updateAlert = query((value: ValueOf<AlertKey & { change: string }>) =>
  drizzle
    .update(alerts)
    .set(changedColumns(value("change"), ALERT_COLUMNS))
    .where(ofAlertKey(value)),
);

/**
 * Changes the given fields of an alert (H5). The alert then starts again like a new one: it may fire again for users for whom
 * it fired before. Throws `not_found`, and `temporarily_unavailable` when it fired for so many users that another call
 * must continue.
 */
export async function changeAlert(
  admin: AdminCtx,
  { mode, appId, ...row }: AlertOfApp,
  { name, event, below }: ChangeAlertInput,
): Promise<AlertOutput> {
  const { id: alertId, environmentId, unit } = row;
  if (below?.percent !== undefined && below.percent < 1) warn(admin, "percent_below_one");
  const change = {
    ...(name === undefined ? {} : { name }),
    ...(event === undefined ? {} : { event }),
    ...(below?.amount === undefined ? {} : { amountMinor: requireMinor(unit, below.amount), percentThousandths: null }),
    ...(below?.percent === undefined
      ? {}
      : { amountMinor: null, percentThousandths: percentThousandths(below.percent) }),
  };
  const next = { ...row, ...change };
  const changed = [
    ...(next.name === row.name ? [] : ["name"]),
    ...(next.event === row.event ? [] : ["event"]),
    ...(next.amountMinor === row.amountMinor && next.percentThousandths === row.percentThousandths ? [] : ["below"]),
  ];
  if (changed.length === 0) return presentAlert(row, mode);
  const key = { environmentId, alertId };
  const auditEntry = newAuditEntry(admin, {
    appId,
    action: "alert.changed",
    target: alertId,
    details: { mode, changed },
  });
  await deleteMostStates(admin, key);
  const [, , , [after]] = await batch(admin.db, [
    auditAlertChanged({ ...auditEntry, ...key }),
    deleteStates(key),
    updateAlert({ ...key, change: JSON.stringify(change) }),
    selectAlert(key),
  ]);
  if (after === undefined) throw unknownAlert();
  return presentAlert(after, mode);
}

const auditAlertDeleted = insertAuditEntry<AlertKey>((value) => hasRow(alerts, ofAlertKey(value)));
const deleteAlertRow = query((value: ValueOf<AlertKey>) => drizzle.delete(alerts).where(ofAlertKey(value)));

/**
 * Deletes an alert, and returns it as it was. Throws `not_found`, and `temporarily_unavailable` when it fired for so many
 * users that another call must continue.
 */
export async function deleteAlert(admin: AdminCtx, { mode, appId, ...row }: AlertOfApp): Promise<AlertOutput> {
  const { id: alertId, environmentId } = row;
  const key = { environmentId, alertId };
  const auditEntry = newAuditEntry(admin, { appId, action: "alert.deleted", target: alertId, details: { mode } });
  await deleteMostStates(admin, key);
  await batch(admin.db, [auditAlertDeleted({ ...auditEntry, ...key }), deleteStates(key), deleteAlertRow(key)]);
  return presentAlert(row, mode);
}
