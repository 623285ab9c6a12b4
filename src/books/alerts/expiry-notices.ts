import { and, desc, eq, not, sql } from "drizzle-orm";
import { requireEnvironment } from "../../catalog/apps.ts";
import { type AuditEntryKey, auditEntryIsLatest, insertAuditEntry, newAuditEntry } from "../../catalog/audit.ts";
import { asInteger, drizzle, fields, hasRow, insertFrom, query, type ValueOf } from "../../db/query.ts";
import { expiryNotices } from "../../db/schema.ts";
import { timesOf } from "../../db/settings-snapshot.ts";
import { all, batch } from "../../db/sql.ts";
import type { AdminCtx, Mode, SystemCtx } from "../../runtime.ts";

export interface ExpiryNoticesOutput {
  readonly appId: string;
  readonly mode: Mode;
  readonly days: number[];
}

export interface SetExpiryNoticesInput {
  readonly mode: Mode;
  readonly days: number[];
}

type NoticesSetting = { environmentId: number; days: string };

const noticesOfEnvironment = (value: ValueOf<{ environmentId: number }>) =>
  eq(expiryNotices.environmentId, value("environmentId"));
const isNotice = sql`${expiryNotices.days} > 0`;
const isNoLongerSet = (value: ValueOf<NoticesSetting>) =>
  and(
    noticesOfEnvironment(value),
    isNotice,
    sql`${expiryNotices.days} NOT IN (SELECT value FROM json_each(${value("days")}))`,
  );
const isNotStored = (value: ValueOf<NoticesSetting>) =>
  not(hasRow(expiryNotices, and(noticesOfEnvironment(value), sql`${expiryNotices.days} = d.value`)));
const auditNoticesSet = insertAuditEntry<NoticesSetting>(
  (value) => sql`(${hasRow(expiryNotices, isNoLongerSet(value))}
    OR EXISTS (SELECT 1 FROM json_each(${value("days")}) AS d WHERE ${isNotStored(value)}))`,
);
type NoticesChange = NoticesSetting & AuditEntryKey & { nowMs: number };
const deleteDays = query((value: ValueOf<NoticesChange>) =>
  drizzle.delete(expiryNotices).where(and(isNoLongerSet(value), auditEntryIsLatest(value))),
);
// A number of days that stays in the setting keeps its row, and so its position in the search for expiries.
const insertDays = query((value: ValueOf<NoticesChange>) =>
  insertFrom(
    expiryNotices,
    { environmentId: asInteger(value("environmentId")), days: sql`d.value`, sinceMs: asInteger(value("nowMs")) },
    sql`FROM json_each(${value("days")}) AS d WHERE ${and(isNotStored(value), auditEntryIsLatest(value))}`,
  ),
);
const selectNoticeDays = query((value: ValueOf<{ environmentId: number }>) =>
  drizzle
    .select(fields(expiryNotices, "days"))
    .from(expiryNotices)
    .where(and(noticesOfEnvironment(value), isNotice))
    .orderBy(desc(expiryNotices.days)),
);

/** Sets how many days before its expiry a balance gets a notice, as a whole list (H6). Throws `not_found`. */
export async function setExpiryNotices(
  admin: AdminCtx,
  appId: string,
  { mode, days }: SetExpiryNoticesInput,
): Promise<ExpiryNoticesOutput> {
  const environment = await requireEnvironment(admin, appId, mode);
  const environmentId = environment.id;
  const setting = { environmentId, days: JSON.stringify(days) };
  const details = { mode, days: days.map(String) };
  const auditEntry = newAuditEntry(admin, { appId, action: "expiry_notices.set", target: appId, details });
  const change = { ...auditEntry, ...setting, nowMs: timesOf(environment.clock, admin).now() };
  const [, , , rows] = await batch(admin.db, [
    auditNoticesSet({ ...auditEntry, ...setting }),
    deleteDays(change),
    insertDays(change),
    selectNoticeDays({ environmentId }),
  ]);
  return { appId, mode, days: rows.map((row) => row.days) };
}

/** Returns the current setting. Throws `not_found`. */
export async function readExpiryNotices(root: SystemCtx, appId: string, mode: Mode): Promise<ExpiryNoticesOutput> {
  const { id: environmentId } = await requireEnvironment(root, appId, mode);
  const rows = await all(root.db, selectNoticeDays({ environmentId }));
  return { appId, mode, days: rows.map((row) => row.days) };
}
