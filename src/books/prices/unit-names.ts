import { and, eq, sql } from "drizzle-orm";
import { requireEnvironment } from "../../catalog/apps.ts";
import { type AuditEntryKey, auditEntryIsLatest, insertAuditEntry, newAuditEntry } from "../../catalog/audit.ts";
import { drizzle, fields, hasRow, query, type ValueOf } from "../../db/query.ts";
import { environments } from "../../db/schema.ts";
import { all, batch } from "../../db/sql.ts";
import type { AdminCtx, Mode, SystemCtx, TenantCtx } from "../../runtime.ts";
import { UNITS, type Unit } from "../amounts/amount.ts";

/** A name that people read instead of a unit: "1 credit", "2 credits" (PR7). */
export interface UnitName {
  one: string;
  other: string;
}

/** Units without a name of their own are absent. */
export interface UnitNames {
  names: { [U in Unit]?: UnitName | undefined };
}

type UnitNamesKey = { environmentId: number };
const ofNamedEnvironment = (value: ValueOf<UnitNamesKey>) => eq(environments.id, value("environmentId"));
const selectUnitNames = query((value: ValueOf<UnitNamesKey>) =>
  drizzle.select(fields(environments, "unitNames")).from(environments).where(ofNamedEnvironment(value)),
);

/** Reads the names as the environment stores them. */
export const readStoredNames = (stored: string | null | undefined): UnitNames => ({
  names: JSON.parse(stored ?? "{}") as UnitNames["names"],
});

type NewNames = UnitNamesKey & { unitNames: string | null };
const auditUnitNames = insertAuditEntry<NewNames>((value) =>
  hasRow(environments, and(ofNamedEnvironment(value), sql`${environments.unitNames} IS NOT ${value("unitNames")}`)),
);
const updateNames = query((value: ValueOf<NewNames & AuditEntryKey>) =>
  drizzle
    .update(environments)
    .set({ unitNames: value("unitNames", environments.unitNames) })
    .where(and(ofNamedEnvironment(value), auditEntryIsLatest(value))),
);

/** Replaces all names of an environment's units. Throws `not_found`. */
export async function setUnitNames(
  admin: AdminCtx,
  appId: string,
  { mode, names }: UnitNames & { readonly mode: Mode },
): Promise<UnitNames> {
  const { id: environmentId } = await requireEnvironment(admin, appId, mode);
  // The units are in one order, so that equal names are equal texts.
  const named = UNITS.flatMap((unit) => {
    const name = names[unit];
    return name === undefined ? [] : [[unit, { one: name.one, other: name.other }] as const];
  });
  const unitNames = named.length === 0 ? null : JSON.stringify(Object.fromEntries(named));
  const details = { mode, units: named.map(([unit]) => unit) };
  const values = {
    ...newAuditEntry(admin, { appId, action: "unit_names.set", target: appId, details }),
    ...{ environmentId, unitNames },
  };
  const [, , [row]] = await batch(admin.db, [
    auditUnitNames(values),
    updateNames(values),
    selectUnitNames({ environmentId }),
  ]);
  return readStoredNames(row?.unitNames);
}

/** Returns the names of an environment's units. Throws `not_found`. */
export async function readUnitNames(root: SystemCtx, appId: string, mode: Mode): Promise<UnitNames> {
  const { id: environmentId } = await requireEnvironment(root, appId, mode);
  const [row] = await all(root.db, selectUnitNames({ environmentId }));
  return readStoredNames(row?.unitNames);
}

/** Returns the names of the units of a key's environment. */
export async function getUnitNames(ctx: TenantCtx): Promise<UnitNames> {
  const [row] = await all(ctx.db, selectUnitNames({ environmentId: ctx.environment.id }));
  return readStoredNames(row?.unitNames);
}

/** Returns the names of units for several of them. */
export const namesOfMany = ({ names }: UnitNames): ReadonlyMap<string, string> =>
  new Map(UNITS.flatMap((unit) => (names[unit] === undefined ? [] : [[unit, names[unit].other] as const])));
