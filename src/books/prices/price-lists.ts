/** The versions of an environment's price list, as they are stored and read. */

import { and, desc, eq, lt, sql } from "drizzle-orm";
import { inEnvironmentOf, requireEnvironment } from "../../catalog/apps.ts";
import { boundLimit, computed, drizzle, fields, query, type ValueOf } from "../../db/query.ts";
import { priceLists } from "../../db/schema.ts";
import { batch } from "../../db/sql.ts";
import { invalidCursor, PurserError } from "../../errors.ts";
import { cutPage, decodeCursor, encodeCursor } from "../../lib/cursor.ts";
import { iso } from "../../lib/time.ts";
import type { Mode, SystemCtx } from "../../runtime.ts";
import type { CostRule, PriceRule } from "./price.ts";

export interface PriceList {
  version: number;
  mode: Mode;
  effectiveAt: string;
  rules: PriceRule[];
  costs: CostRule[];
  note: string | null;
  createdAt: string;
}

export type PriceListRow = Pick<
  typeof priceLists.$inferSelect,
  "version" | "effectiveAtMs" | "createdAtMs" | "note" | "rules" | "costs"
>;

export function presentPriceList(row: PriceListRow, mode: Mode): PriceList {
  const { version, effectiveAtMs, createdAtMs, note, rules, costs } = row;
  return {
    ...{ version, mode, effectiveAt: iso(effectiveAtMs) },
    ...{ rules: JSON.parse(rules) as PriceRule[], costs: JSON.parse(costs) as CostRule[] },
    ...{ note, createdAt: iso(createdAtMs) },
  };
}

export type PriceListsKey = { environmentId: number };
export type VersionKey = PriceListsKey & { version: number };

export const listFields = () => fields(priceLists, "version", "effectiveAtMs", "createdAtMs", "note", "rules", "costs");

export const ofPriceLists = (value: ValueOf<PriceListsKey>) => eq(priceLists.environmentId, value("environmentId"));
/** Written without a bound value, so that SQLite uses the partial index. */
export const isStanding = sql`${priceLists.isDeleted} = 0`;
export const ofVersion = (value: ValueOf<VersionKey>) =>
  and(ofPriceLists(value), eq(priceLists.version, value("version")));

/** The version in force at a moment is the one that took force last; of equal moments the newest (PR1). */
export const selectInForce = query((value: ValueOf<PriceListsKey & { nowMs: number }>) =>
  drizzle
    .select(fields(priceLists, "version"))
    .from(priceLists)
    .where(and(ofPriceLists(value), isStanding, sql`${priceLists.effectiveAtMs} <= ${value("nowMs")}`))
    .orderBy(desc(priceLists.effectiveAtMs), desc(priceLists.version))
    .limit(1),
);
const selectVersion = query((value: ValueOf<VersionKey>) =>
  drizzle
    .select(listFields())
    .from(priceLists)
    .where(and(ofVersion(value), isStanding)),
);

/** Returns a version. Throws `not_found`. */
export async function readPriceList(root: SystemCtx, appId: string, mode: Mode, version: number): Promise<PriceList> {
  const { id: environmentId } = await requireEnvironment(root, appId, mode);
  const [[row]] = await batch(root.db, [selectVersion({ environmentId, version })]);
  if (row === undefined) throw unknownVersion();
  return presentPriceList(row, mode);
}

export const unknownVersion = () =>
  new PurserError("not_found", "The price list has no such version in this mode.", { param: "version" });

type PageKey = PriceListsKey & { beforeVersion: number; limit: number };
const selectVersions = query((value: ValueOf<PageKey>) =>
  drizzle
    .select({
      ...fields(priceLists, "version", "effectiveAtMs", "createdAtMs", "note"),
      ...computed({ rules: sql<number>`json_array_length(${priceLists.rules})` }),
    })
    .from(priceLists)
    .where(and(ofPriceLists(value), isStanding, lt(priceLists.version, value("beforeVersion"))))
    .orderBy(desc(priceLists.version))
    .limit(boundLimit(value("limit"))),
);

export interface PriceListPage {
  /** The version in force; null if there is none. */
  inForce: number | null;
  versions: { version: number; effectiveAt: string; createdAt: string; note: string | null; rules: number }[];
  nextCursor: string | null;
}

/** Returns the versions, newest first, each with how many rules it has. Throws `not_found`, and `invalid_request` for a cursor. */
export async function listPriceLists(
  root: SystemCtx,
  appId: string,
  { mode, limit, cursor }: { readonly mode: Mode; readonly limit: number; readonly cursor?: string | undefined },
): Promise<PriceListPage> {
  const environment = await requireEnvironment(root, appId, mode);
  const environmentId = environment.id;
  const scope = ["price_lists", environmentId];
  const beforeVersion = cursor === undefined ? Number.MAX_SAFE_INTEGER : decodeCursor(cursor, scope);
  if (beforeVersion === null) throw invalidCursor();
  const nowMs = inEnvironmentOf(root, environment).now();
  const [rows, [inForce]] = await batch(root.db, [
    selectVersions({ environmentId, beforeVersion, limit: limit + 1 }),
    selectInForce({ environmentId, nowMs }),
  ]);
  const { page, last } = cutPage(rows, limit);
  return {
    inForce: inForce?.version ?? null,
    versions: page.map(({ version, effectiveAtMs, createdAtMs, note, rules }) => ({
      ...{ version, effectiveAt: iso(effectiveAtMs), createdAt: iso(createdAtMs), note, rules },
    })),
    nextCursor: last === undefined ? null : encodeCursor(last.version, scope),
  };
}
