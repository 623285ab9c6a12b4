import { and, eq, gt, not, sql } from "drizzle-orm";
import { requireApp, requireEnvironment } from "../../catalog/apps.ts";
import { insertAuditEntry, newAuditEntry } from "../../catalog/audit.ts";
import {
  asInteger,
  boundLimit,
  computed,
  drizzle,
  fields,
  hasRow,
  insertFrom,
  query,
  scalar,
  type ValueOf,
} from "../../db/query.ts";
import { accounts, alertStates, alerts, environments } from "../../db/schema.ts";
import { timesOf } from "../../db/settings-snapshot.ts";
import { all, batch } from "../../db/sql.ts";
import { invalidCursor, PurserError } from "../../errors.ts";
import { warn } from "../../http/warnings.ts";
import { cutPage, decodeCursor, encodeCursor } from "../../lib/cursor.ts";
import { iso } from "../../lib/time.ts";
import type { AdminCtx, Mode, SystemCtx } from "../../runtime.ts";
import { fromMinor, toMinor, type Unit } from "../amounts/amount.ts";

export interface AlertOutput {
  readonly alertId: string;
  readonly mode: Mode;
  readonly name: string;
  readonly unit: Unit;
  readonly event: string | null;
  readonly below: { readonly amount: number } | { readonly percent: number };
  readonly createdAt: string;
}

/** Returns a percentage in thousandths, because percentages have three decimals, as counts do. */
export const percentThousandths = (percent: number) => toMinor("count", percent);

export interface Below {
  readonly amount?: number | undefined;
  readonly percent?: number | undefined;
}

export interface CreateAlertInput {
  readonly mode: Mode;
  readonly name: string;
  readonly unit: Unit;
  readonly below: Below;
  readonly event?: string | undefined;
}

export interface ListAlertUsersInput {
  readonly limit: number;
  readonly cursor?: string | undefined;
}

export interface ListAlertUsersOutput {
  readonly users: { readonly userId: string }[];
  readonly nextCursor: string | null;
}

export interface ListAlertsOutput {
  readonly alerts: AlertOutput[];
}

export type AlertRow = typeof alerts.$inferSelect;
export type AlertKey = { environmentId: number; alertId: string };
export const ofAlertKey = (value: ValueOf<AlertKey>) =>
  and(eq(alerts.environmentId, value("environmentId")), eq(alerts.id, value("alertId")));

/** Returns an alert in the form of the API. */
export function presentAlert({ id, name, unit, event, createdAtMs, ...row }: AlertRow, mode: Mode): AlertOutput {
  const { amountMinor, percentThousandths } = row;
  const below =
    amountMinor === null ? { percent: (percentThousandths ?? 0) / 1_000 } : { amount: fromMinor(unit, amountMinor) };
  return { alertId: id, mode, name, unit, event, below, createdAt: iso(createdAtMs) };
}

const ALERTS_MAX = 20;

// Because of the second condition, a batch that is sent again finds the alert that it created.
const mayCreateAlert = (value: ValueOf<AlertKey>) => {
  const ofEnvironment = eq(alerts.environmentId, value("environmentId"));
  const count = scalar(
    drizzle
      .select(computed({ count: sql<number>`count(*)` }))
      .from(alerts)
      .where(ofEnvironment),
  );
  return sql`${count} < ${ALERTS_MAX} AND ${not(hasRow(alerts, ofAlertKey(value)))}`;
};

const auditAlertCreated = insertAuditEntry<AlertKey>(mayCreateAlert);
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
      amountMinor: asInteger(value("amount")),
      percentThousandths: asInteger(value("percent")),
      createdAtMs: asInteger(value("nowMs")),
    },
    sql`WHERE ${mayCreateAlert(value)}`,
  ),
);
export const selectAlert = query((value: ValueOf<AlertKey>) =>
  drizzle.select(fields(alerts)).from(alerts).where(ofAlertKey(value)),
);

/**
 * Creates an alert (H5), once for each id. Throws `not_found`, and `invalid_request` if the environment has the maximum number of
 * alerts.
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
  const auditEntry = newAuditEntry(admin, { appId, action: "alert.created", target: key.alertId, details: { mode } });
  const amount = below.amount === undefined ? null : toMinor(unit, below.amount);
  const percent = below.percent === undefined ? null : percentThousandths(below.percent);
  const [, , [row]] = await batch(admin.db, [
    auditAlertCreated({ ...auditEntry, ...key }),
    insertAlert({ ...key, name, unit, event, amount, percent, nowMs: timesOf(environment.clock, admin).now() }),
    selectAlert(key),
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

const selectOwnAlert = query((value: ValueOf<{ appId: string; alertId: string }>) =>
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

/** An alert, with its application and mode. */
export type AlertOfApp = AlertRow & { readonly appId: string; readonly mode: Mode };

/** Returns an application's alert. Throws `not_found`. */
export async function requireAlert(root: SystemCtx, appId: string, alertId: string): Promise<AlertOfApp> {
  const [row] = await all(root.db, selectOwnAlert({ appId, alertId }));
  if (row !== undefined) return { ...row, appId };
  await requireApp(root, appId);
  throw unknownAlert();
}

export const unknownAlert = () =>
  new PurserError("not_found", "The application has no such alert.", { param: "alertId" });

const selectAlertUsers = query((value: ValueOf<AlertKey & { afterId: number; limit: number }>) =>
  drizzle
    .select(fields(accounts, "id", "userId"))
    .from(alertStates)
    .innerJoin(accounts, eq(accounts.id, alertStates.accountId))
    .where(
      and(
        eq(alertStates.environmentId, value("environmentId")),
        eq(alertStates.alertId, value("alertId")),
        gt(alertStates.accountId, value("afterId")),
      ),
    )
    .orderBy(alertStates.accountId)
    .limit(boundLimit(value("limit"))),
);

/**
 * Returns the users for whom an alert has fired and is not re-armed, the oldest user first. Throws `not_found` and
 * `invalid_request`.
 */
export async function listAlertUsers(
  root: SystemCtx,
  { id: alertId, environmentId }: AlertOfApp,
  { limit, cursor }: ListAlertUsersInput,
): Promise<ListAlertUsersOutput> {
  const scope = ["alert users", environmentId, alertId];
  const afterId = cursor === undefined ? 0 : decodeCursor(cursor, scope);
  if (afterId === null) throw invalidCursor();
  const rows = await all(root.db, selectAlertUsers({ environmentId, alertId, afterId, limit: limit + 1 }));
  const { page, last } = cutPage(rows, limit);
  return {
    users: page.map(({ userId }) => ({ userId })),
    nextCursor: last === undefined ? null : encodeCursor(last.id, scope),
  };
}
