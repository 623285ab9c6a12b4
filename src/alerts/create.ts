import { toSteps, type Unit } from "../amounts/amount.ts";
import { requireEnvironment } from "../apps/app.ts";
import { auditStatement, newAct } from "../audit/audit-statement.ts";
import { timesOf } from "../db/clock.ts";
import { batch, fragment, statement } from "../db/sql.ts";
import { PurserError } from "../errors.ts";
import type { AdminCtx } from "../runtime.ts";
import { type AlertRow, alertColumns, presentAlert } from "./alert.ts";
import type { AlertOutput } from "./responses.ts";
import { type CreateAlertInput, percentThousandths } from "./schemas.ts";

const ALERTS_MAX = 20;

// The second condition lets a batch that is sent again find its own alert.
const isPossible = fragment`(SELECT count(*) FROM alerts WHERE environment_id = :environmentId) < ${String(ALERTS_MAX)}
  AND NOT EXISTS (SELECT 1 FROM alerts WHERE environment_id = :environmentId AND id = :alertId)`;

type Key = { environmentId: number; alertId: string };

const audit = auditStatement<Key>(isPossible);
const insertAlert = statement<
  Key & { name: string; unit: Unit; event: string | null; amount: number | null; percent: number | null; nowMs: number }
>`
  INSERT INTO alerts (environment_id, id, name, unit, event, amount_steps, percent_thousandths, created_at_ms)
  SELECT CAST(:environmentId AS INTEGER), :alertId, :name, :unit, :event, CAST(:amount AS INTEGER),
    CAST(:percent AS INTEGER), CAST(:nowMs AS INTEGER)
  WHERE ${isPossible}`;
const selectAlert = statement<Key, AlertRow>`
  SELECT ${alertColumns} FROM alerts AS l WHERE environment_id = :environmentId AND id = :alertId`;

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
  if (row !== undefined) return presentAlert(row, mode);
  throw new PurserError("invalid_request", `An environment may have ${ALERTS_MAX} alerts. Delete one first.`, {
    details: { limit: ALERTS_MAX },
  });
}
