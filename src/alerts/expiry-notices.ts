import { requireEnvironment } from "../apps/app.ts";
import { auditStatement, isLatest, newAct } from "../audit/audit-statement.ts";
import { timesOf } from "../db/clock.ts";
import { all, batch, fragment, nowMsSql, statement } from "../db/sql.ts";
import type { AdminCtx, Mode, SystemCtx } from "../runtime.ts";
import type { ExpiryNoticesOutput } from "./responses.ts";
import type { SetExpiryNoticesInput } from "./schemas.ts";

type Setting = { environmentId: number; days: string };

const isSurplus = fragment`environment_id = :environmentId AND days > 0
  AND days NOT IN (SELECT value FROM json_each(:days))`;
const isMissing = fragment`NOT EXISTS (
  SELECT 1 FROM expiry_notices AS n WHERE n.environment_id = :environmentId AND n.days = d.value
)`;
const audit = auditStatement<Setting>(
  fragment`(EXISTS (SELECT 1 FROM expiry_notices WHERE ${isSurplus})
    OR EXISTS (SELECT 1 FROM json_each(:days) AS d WHERE ${isMissing}))`,
);
type Change = Setting & { appId: string; actId: string; nowMs: number };
const deleteDays = statement<Change>`DELETE FROM expiry_notices WHERE ${isSurplus} AND ${isLatest}`;
// A count of days that stays goes on from where it was.
const insertDays = statement<Change>`
  INSERT INTO expiry_notices (environment_id, days, since_ms)
  SELECT CAST(:environmentId AS INTEGER), d.value, ${nowMsSql} FROM json_each(:days) AS d WHERE ${isMissing} AND ${isLatest}`;
const selectDays = statement<{ environmentId: number }, { days: number }>`
  SELECT days FROM expiry_notices WHERE environment_id = :environmentId AND days > 0 ORDER BY days DESC`;

/** Sets how many days before its expiry a balance is told of (H6): all of them. Throws `not_found`. */
export async function setExpiryNotices(
  admin: AdminCtx,
  appId: string,
  { mode, days }: SetExpiryNoticesInput,
): Promise<ExpiryNoticesOutput> {
  const environment = await requireEnvironment(admin, appId, mode);
  const environmentId = environment.id;
  const setting = { environmentId, days: JSON.stringify(days) };
  const details = { mode, days: days.map(String) };
  const act = newAct(admin, { appId, action: "expiry_notices.set", target: appId, details });
  const change = { ...act, ...setting, nowMs: timesOf(environment.clock, admin).now() };
  const [, , , rows] = await batch(admin.db, [
    audit({ ...act, ...setting }),
    deleteDays(change),
    insertDays(change),
    selectDays({ environmentId }),
  ]);
  return { appId, mode, days: rows.map((row) => row.days) };
}

/** The setting in force. Throws `not_found`. */
export async function readExpiryNotices(root: SystemCtx, appId: string, mode: Mode): Promise<ExpiryNoticesOutput> {
  const { id: environmentId } = await requireEnvironment(root, appId, mode);
  const rows = await all(root.db, selectDays({ environmentId }));
  return { appId, mode, days: rows.map((row) => row.days) };
}
