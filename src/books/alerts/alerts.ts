import { and, eq, not, sql } from "drizzle-orm";
import { requireEnvironment } from "../../catalog/apps.ts";
import { insertAct, newAct } from "../../catalog/audit.ts";
import { timesOf } from "../../db/features.ts";
import {
  asInteger,
  computed,
  drizzle,
  fields,
  hasRow,
  insertFrom,
  query,
  scalar,
  type ValueOf,
} from "../../db/query.ts";
import { alerts } from "../../db/schema.ts";
import { all, batch } from "../../db/sql.ts";
import { PurserError } from "../../errors.ts";
import { warn } from "../../http/factory.ts";
import { iso } from "../../lib/time.ts";
import type { AdminCtx, Mode, SystemCtx } from "../../runtime.ts";
import { fromSteps, toSteps } from "../amounts/amount.ts";
import type { AlertOutput, ListAlertsOutput } from "./responses.ts";
import { type CreateAlertInput, percentThousandths } from "./schemas.ts";

export type AlertRow = typeof alerts.$inferSelect;
export type AlertKey = { environmentId: number; alertId: string };
export const ofAlertKey = (value: ValueOf<AlertKey>) =>
  and(eq(alerts.environmentId, value("environmentId")), eq(alerts.id, value("alertId")));

/** Returns an alert in the form of the API. */
export function presentAlert({ id, name, unit, event, createdAtMs, ...row }: AlertRow, mode: Mode): AlertOutput {
  const { amountSteps, percentThousandths } = row;
  const below =
    amountSteps === null ? { percent: (percentThousandths ?? 0) / 1_000 } : { amount: fromSteps(unit, amountSteps) };
  return { alertId: id, mode, name, unit, event, below, createdAt: iso(createdAtMs) };
}

const ALERTS_MAX = 20;

// The second condition lets a batch that is sent again find its own alert.
const alertIsPossible = (value: ValueOf<AlertKey>) => {
  const ofEnvironment = eq(alerts.environmentId, value("environmentId"));
  const count = scalar(
    drizzle
      .select(computed({ count: sql<number>`count(*)` }))
      .from(alerts)
      .where(ofEnvironment),
  );
  return sql`${count} < ${ALERTS_MAX} AND ${not(hasRow(alerts, ofAlertKey(value)))}`;
};

const auditAlertCreated = insertAct<AlertKey>(alertIsPossible);
type NewAlert = Pick<AlertRow, "name" | "unit" | "event"> & {
  amount: number | null;
  percent: number | null;
  nowMs: number;
};
const insertAlert = query((value: ValueOf<AlertKey & NewAlert>) =>
  insertFrom(
    alerts,
    {
      environmentId: asInteger(value("environmentId")),
      id: value("alertId"),
      name: value("name"),
      unit: value("unit"),
      event: value("event"),
      amountSteps: asInteger(value("amount")),
      percentThousandths: asInteger(value("percent")),
      createdAtMs: asInteger(value("nowMs")),
    },
    sql`WHERE ${alertIsPossible(value)}`,
  ),
);
const selectCreated = query((value: ValueOf<AlertKey>) =>
  drizzle.select(fields(alerts)).from(alerts).where(ofAlertKey(value)),
);

/**
 * Creates an alert (H5), once for each id. Throws `not_found`, and `invalid_request` if the environment has the most alerts it
 * may have.
 */
export async function createAlert(
  admin: AdminCtx,
  appId: string,
  input: CreateAlertInput,
  alertId = admin.newId("alr_"),
): Promise<AlertOutput> {
  const { mode, name, unit, event = null, below } = input;
  const environment = await requireEnvironment(admin, appId, mode);
  const environmentId = environment.id;
  const key = { environmentId, alertId };
  const act = newAct(admin, { appId, action: "alert.created", target: key.alertId, details: { mode } });
  const amount = below.amount === undefined ? null : toSteps(unit, below.amount);
  const percent = below.percent === undefined ? null : percentThousandths(below.percent);
  const [, , [row]] = await batch(admin.db, [
    auditAlertCreated({ ...act, ...key }),
    insertAlert({ ...key, name, unit, event, amount, percent, nowMs: timesOf(environment.clock, admin).now() }),
    selectCreated(key),
  ]);
  if (row !== undefined) {
    if (below.percent !== undefined && below.percent < 1) warn(admin, "percent_below_one");
    return presentAlert(row, mode);
  }
  throw new PurserError("invalid_request", `An environment may have ${ALERTS_MAX} alerts. Delete one first.`, {
    details: { limit: ALERTS_MAX },
  });
}

const selectAlerts = query((value: ValueOf<{ environmentId: number }>) =>
  drizzle
    .select(fields(alerts))
    .from(alerts)
    .where(eq(alerts.environmentId, value("environmentId")))
    .orderBy(alerts.createdAtMs, alerts.id),
);

/** Returns the alerts of one mode, oldest first. Throws `not_found`. */
export async function listAlerts(root: SystemCtx, appId: string, mode: Mode): Promise<ListAlertsOutput> {
  const { id: environmentId } = await requireEnvironment(root, appId, mode);
  const rows = await all(root.db, selectAlerts({ environmentId }));
  return { alerts: rows.map((row) => presentAlert(row, mode)) };
}
