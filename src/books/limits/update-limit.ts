import { and, eq, sql } from "drizzle-orm";
import { insertAuditEntry, newAuditEntry } from "../../catalog/audit.ts";
import { nameKey } from "../../catalog/pack.ts";
import { changedColumns, computed, drizzle, fields, hasRow, query, type ValueOf } from "../../db/query.ts";
import { usageCounters, usageLimits } from "../../db/schema.ts";
import { all, batch } from "../../db/sql.ts";
import { invalid, temporarilyUnavailable } from "../../errors.ts";
import type { AdminCtx } from "../../runtime.ts";
import {
  type LimitKey,
  type LimitOfApp,
  nameTaken,
  ofLimitKey,
  presentLimit,
  readAmount,
  syncLimits,
  type UsageLimitOutput,
  unknownLimit,
} from "./limits.ts";

export interface ChangeLimitInput {
  readonly name?: string | undefined;
  readonly amount?: number | undefined;
}

const isUndeleted = (value: ValueOf<LimitKey>) => and(ofLimitKey(value), eq(usageLimits.isDeleted, false));
const auditLimitChanged = insertAuditEntry<LimitKey>((value) => hasRow(usageLimits, isUndeleted(value)));
const LIMIT_COLUMNS = { name: usageLimits.name, nameKey: usageLimits.nameKey, amountMinor: usageLimits.amountMinor };
const updateLimit = query((value: ValueOf<LimitKey & { change: string }>) =>
  drizzle
    .update(usageLimits)
    .set(changedColumns(value("change"), LIMIT_COLUMNS))
    .where(isUndeleted(value)),
);
const selectUndeleted = query((value: ValueOf<LimitKey>) =>
  drizzle.select(fields(usageLimits)).from(usageLimits).where(isUndeleted(value)),
);

/** Changes the given fields of a usage limit. A new amount applies to the usage so far (Q1). Throws `not_found` and `invalid_request`. */
export async function changeLimit(
  admin: AdminCtx,
  { mode, appId, ...row }: LimitOfApp,
  { name, amount }: ChangeLimitInput,
): Promise<UsageLimitOutput> {
  const { id: limitId } = row;
  if (row.isDeleted) throw unknownLimit();
  const newAmount = amount === undefined ? { minor: row.amountMinor } : readAmount(row.unit, amount);
  if ("rejection" in newAmount) throw invalid("amount", newAmount.rejection);
  const change = {
    ...(name === undefined ? {} : { name, nameKey: nameKey(name) }),
    ...(amount === undefined ? {} : { amountMinor: newAmount.minor }),
  };
  const next = { ...row, ...change };
  const changed = [
    ...(next.name === row.name ? [] : ["name"]),
    ...(next.amountMinor === row.amountMinor ? [] : ["amount"]),
  ];
  if (changed.length === 0) return presentLimit(row, mode);
  const key = { environmentId: row.environmentId, limitId };
  const auditEntry = newAuditEntry(admin, {
    appId,
    action: "usage_limit.changed",
    target: limitId,
    details: { mode, changed },
  });
  const [, , , [after]] = await batch(admin.db, [
    auditLimitChanged({ ...auditEntry, ...key }),
    updateLimit({ ...key, change: JSON.stringify(change) }),
    syncLimits({ environmentId: row.environmentId }),
    selectUndeleted(key),
  ]).catch((error: unknown) => {
    throw nameTaken(error);
  });
  if (after === undefined) throw unknownLimit();
  return presentLimit(after, mode);
}

const COUNTERS_A_STEP = 10_000;
const COUNTER_STEPS_MAX = 100;

const markDeleted = query((value: ValueOf<LimitKey>) =>
  drizzle.update(usageLimits).set({ isDeleted: true }).where(isUndeleted(value)),
);
/** Deletes some counters of a deleted limit. They no longer change, because a write with the old limits fails on its settings snapshot. */
const deleteCounters = query((value: ValueOf<LimitKey>) => {
  const { environmentId, limitId, accountId, memberNumber } = usageCounters;
  const step = drizzle
    .select(fields(usageCounters, "environmentId", "limitId", "accountId", "memberNumber"))
    .from(usageCounters)
    .where(and(eq(environmentId, value("environmentId")), eq(limitId, value("limitId"))))
    .limit(COUNTERS_A_STEP);
  return drizzle
    .delete(usageCounters)
    .where(sql`(${environmentId}, ${limitId}, ${accountId}, ${memberNumber}) IN ${step}`)
    .returning(computed({ isDeleted: sql<1>`1` }));
});
const deleteRow = query((value: ValueOf<LimitKey>) => drizzle.delete(usageLimits).where(ofLimitKey(value)));

/**
 * Deletes a usage limit, which then rejects nothing, and its counters, and returns the limit as it was. Throws `not_found`, and
 * `temporarily_unavailable` when there are so many counters that another call must continue.
 */
export async function deleteLimit(admin: AdminCtx, { mode, appId, ...row }: LimitOfApp): Promise<UsageLimitOutput> {
  const { id: limitId, environmentId } = row;
  const key = { environmentId, limitId };
  const auditEntry = newAuditEntry(admin, { appId, action: "usage_limit.deleted", target: limitId, details: { mode } });
  await batch(admin.db, [
    auditLimitChanged({ ...auditEntry, ...key }),
    markDeleted(key),
    syncLimits({ environmentId }),
  ]);
  for (let step = 0; ; step++) {
    if (step === COUNTER_STEPS_MAX)
      throw temporarilyUnavailable("The limit has very many counters. Call again to continue.");
    if ((await all(admin.db, deleteCounters(key))).length < COUNTERS_A_STEP) break;
  }
  await all(admin.db, deleteRow(key));
  return presentLimit(row, mode);
}
