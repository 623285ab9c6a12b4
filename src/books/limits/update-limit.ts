import { and, eq, sql } from "drizzle-orm";
import { insertAuditEntry, newAuditEntry } from "../../catalog/audit.ts";
import { nameKey } from "../../catalog/pack.ts";
import { computed, drizzle, hasRow, query, type ValueOf } from "../../db/query.ts";
import { usageCounters, usageLimits } from "../../db/schema.ts";
import { all, batch } from "../../db/sql.ts";
import { invalid, temporarilyUnavailable } from "../../errors.ts";
import type { AdminCtx } from "../../runtime.ts";
import {
  type LimitKey,
  type LimitOfApp,
  type LimitRow,
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

const isStatusOfLimit = (value: ValueOf<LimitKey>) => and(ofLimitKey(value), eq(usageLimits.isDeleted, false));
const auditLimitChanged = insertAuditEntry<LimitKey>((value) => hasRow(usageLimits, isStatusOfLimit(value)));
const updateLimit = query((value: ValueOf<LimitKey & Pick<LimitRow, "name" | "nameKey" | "amountMinor">>) =>
  drizzle
    .update(usageLimits)
    .set({
      name: value("name", usageLimits.name),
      nameKey: value("nameKey", usageLimits.nameKey),
      amountMinor: value("amountMinor", usageLimits.amountMinor),
    })
    .where(isStatusOfLimit(value)),
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
  const next = { ...row, name: name ?? row.name, amountMinor: newAmount.minor };
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
  await batch(admin.db, [
    auditLimitChanged({ ...auditEntry, ...key }),
    updateLimit({ ...key, name: next.name, nameKey: nameKey(next.name), amountMinor: next.amountMinor }),
    syncLimits({ environmentId: row.environmentId }),
  ]).catch((error: unknown) => {
    throw nameTaken(error);
  });
  return presentLimit(next, mode);
}

const COUNTERS_A_STEP = 10_000;
const MINOR_MAX = 100;

const markDeleted = query((value: ValueOf<LimitKey>) =>
  drizzle.update(usageLimits).set({ isDeleted: true }).where(isStatusOfLimit(value)),
);
/** Deletes some counters of a deleted limit. They no longer change, because a write with the old limits fails on its settings snapshot. */
const deleteCounters = query((value: ValueOf<LimitKey>) => {
  const { environmentId, limitId, accountId } = usageCounters;
  const step = sql`SELECT ${accountId} FROM ${usageCounters}
    WHERE ${environmentId} = ${value("environmentId")} AND ${limitId} = ${value("limitId")} LIMIT ${COUNTERS_A_STEP}`;
  return drizzle
    .delete(usageCounters)
    .where(
      and(eq(environmentId, value("environmentId")), eq(limitId, value("limitId")), sql`${accountId} IN (${step})`),
    )
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
    if (step === MINOR_MAX) throw temporarilyUnavailable("The limit has very many counters. Call again to continue.");
    if ((await all(admin.db, deleteCounters(key))).length < COUNTERS_A_STEP) break;
  }
  await all(admin.db, deleteRow(key));
  return presentLimit(row, mode);
}
