import { eq, not, sql } from "drizzle-orm";
import { requireEnvironment } from "../../catalog/apps/app.ts";
import { insertAct, newAct } from "../../catalog/audit/audit-statement.ts";
import { timesOf } from "../../db/clock.ts";
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
import { batch } from "../../db/sql.ts";
import { PurserError } from "../../errors.ts";
import { warn } from "../../http/warnings.ts";
import type { AdminCtx } from "../../runtime.ts";
import { toSteps } from "../amounts/amount.ts";
import { type AlertKey, type AlertRow, ofAlertKey, presentAlert } from "./alert.ts";
import type { AlertOutput } from "./responses.ts";
import { type CreateAlertInput, percentThousandths } from "./schemas.ts";

const ALERTS_MAX = 20;

// The second condition lets a batch that is sent again find its own alert.
const isPossible = (value: ValueOf<AlertKey>) => {
  const ofEnvironment = eq(alerts.environmentId, value("environmentId"));
  const count = scalar(
    drizzle
      .select(computed({ count: sql<number>`count(*)` }))
      .from(alerts)
      .where(ofEnvironment),
  );
  return sql`${count} < ${ALERTS_MAX} AND ${not(hasRow(alerts, ofAlertKey(value)))}`;
};

const audit = insertAct<AlertKey>(isPossible);
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
    sql`WHERE ${isPossible(value)}`,
  ),
);
const selectAlert = query((value: ValueOf<AlertKey>) =>
  drizzle.select(fields(alerts)).from(alerts).where(ofAlertKey(value)),
);

/** Sets an alert (H5), once under its id. Throws `not_found`, and `invalid_request` where the environment has as many as it may have. */
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
    audit({ ...act, ...key }),
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
