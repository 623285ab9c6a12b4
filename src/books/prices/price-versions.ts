import { and, desc, eq, sql } from "drizzle-orm";
import { alias } from "drizzle-orm/sqlite-core";
import { computed, drizzle, fields, query, type RowOf, type ValueOf } from "../../db/query.ts";
import { priceLists, reservations } from "../../db/schema.ts";
import { readSettingsSnapshot } from "../../db/settings-snapshot.ts";
import { rememberPerObject } from "../../lib/bounded-memory.ts";
import type { TenantCtx } from "../../runtime.ts";
import type { PreparedCosts, PreparedPrices } from "./price.ts";

/** This file reads the versions of an environment's price list, and remembers them in the isolate. */

/** A version of a price list that is ready to price events. A version never changes. */
export interface PriceVersion {
  readonly version: number;
  readonly effectiveAtMs: number;
  readonly rules: PreparedPrices;
  readonly costs: PreparedCosts;
}

/** The characters of the versions that an isolate remembers. */
const VERSION_CHARACTERS_MAX = 4_000_000;

class VersionMemory {
  readonly #versions = new Map<string, ReadonlyMap<number, PriceVersion>>();
  #characters = 0;

  of({ environment }: TenantCtx): ReadonlyMap<number, PriceVersion> {
    return this.#versions.get(`${environment.database} ${environment.id}`) ?? new Map();
  }

  add(ctx: TenantCtx, version: PriceVersion, characters: number): void {
    this.#characters += characters;
    if (this.#characters > VERSION_CHARACTERS_MAX) {
      this.#versions.clear();
      this.#characters = characters;
    }
    const { environment } = ctx;
    const versions = new Map(this.of(ctx)).set(version.version, version);
    this.#versions.set(`${environment.database} ${environment.id}`, versions);
  }
}

export const versionMemoryOf = rememberPerObject(() => new VersionMemory());

/** The part `prices` of an environment's settings snapshot: how many versions there are, and those that take force last, the last first. */
interface PriceFeature {
  readonly made: number;
  readonly deleted: number;
  readonly latest: readonly (readonly [version: number, effectiveAtMs: number])[];
}

/** Returns the version in force at a moment by the environment's settings snapshot. Null for none, undefined if it does not tell. */
export function inForceBy(settingsSnapshot: string | null, atMs: number): number | null | undefined {
  // Only `syncPrices` writes this part.
  const prices = readSettingsSnapshot(settingsSnapshot).prices as PriceFeature | undefined;
  if (prices === undefined) return null;
  const found = prices.latest.find(([, effectiveAtMs]) => effectiveAtMs <= atMs);
  if (found !== undefined) return found[0];
  return prices.latest.length === prices.made - prices.deleted ? null : undefined;
}

type ListOfEnvironment = { environmentId: number };
const versionFields = () => fields(priceLists, "version", "effectiveAtMs", "rules", "costs");
/** A row of a list that would be too large has no rules and costs. */
export type VersionRow = Omit<RowOf<ReturnType<typeof versionFields>>, "rules" | "costs"> & {
  readonly rules: string | null;
  readonly costs: string | null;
};

const inForce = alias(priceLists, "in_force");
const later = alias(priceLists, "later");
/** A version may have 512 KiB. Those beyond are read later. */
export const VERSIONS_A_READ = 8;

/** The versions that are in force at some moments, without those that the isolate knows. */
export const selectInForceAt = query((value: ValueOf<ListOfEnvironment & { moments: string; known: string }>) => {
  const versionAt = sql`(SELECT iif(${inForce.version} IN (SELECT value FROM json_each(${value("known")})), NULL, ${inForce.version})
    FROM ${priceLists} AS ${inForce}
    WHERE ${inForce.environmentId} = ${value("environmentId")} AND ${inForce.isDeleted} = 0
      AND ${inForce.effectiveAtMs} <= moment.value
    ORDER BY ${inForce.effectiveAtMs} DESC, ${inForce.version} DESC LIMIT 1)`;
  const wanted = sql`(SELECT number, row_number() OVER (ORDER BY number DESC) AS place
    FROM (SELECT DISTINCT ${versionAt} AS number FROM json_each(${value("moments")}) AS moment)) AS wanted`;
  const isRead = sql`wanted.place <= ${VERSIONS_A_READ}`;
  return drizzle
    .select({
      ...fields(priceLists, "version", "effectiveAtMs"),
      ...computed({
        rules: sql<string | null>`iif(${isRead}, ${priceLists.rules}, NULL)`,
        costs: sql<string | null>`iif(${isRead}, ${priceLists.costs}, NULL)`,
      }),
    })
    .from(wanted)
    .crossJoin(priceLists)
    .where(and(eq(priceLists.environmentId, value("environmentId")), sql`${priceLists.version} = wanted.number`));
});

/** The version that a reservation pins, beside the reservation's row. Nulls if it pins none, or the isolate knows it. */
export interface PinnedVersion {
  readonly priceVersion: number | null;
  readonly pinnedAtMs: number | null;
  readonly pinnedRules: string | null;
  readonly pinnedCosts: string | null;
}
export const pinnedVersionFields = () =>
  computed({
    pinnedAtMs: sql<number | null>`${priceLists.effectiveAtMs}`,
    pinnedRules: sql<string | null>`${priceLists.rules}`,
    pinnedCosts: sql<string | null>`${priceLists.costs}`,
  });
/** For a LEFT JOIN of reservations: only one row more than the index, however large the list is. */
export const isPinnedAndUnknown = (value: ValueOf<{ known: string }>) =>
  and(
    eq(priceLists.environmentId, reservations.environmentId),
    eq(priceLists.version, reservations.priceVersion),
    sql`${priceLists.version} NOT IN (SELECT value FROM json_each(${value("known")}))`,
  );

export const selectByNumber = query((value: ValueOf<ListOfEnvironment & { versions: string }>) =>
  drizzle
    .select(versionFields())
    .from(priceLists)
    .where(
      and(
        eq(priceLists.environmentId, value("environmentId")),
        sql`${priceLists.version} IN (SELECT value FROM json_each(${value("versions")}))`,
      ),
    )
    .limit(VERSIONS_A_READ),
);

/** The most rules that one read of a repair takes, as UTF-8. A version has at most an eighth of it. */
const REPAIR_BYTES_MAX = 4 * 1024 * 1024;
const REPAIR_VERSIONS_MAX = 500;

type AfterVersion = ListOfEnvironment & { fromMs: number; after: number; nowMs: number };
/** The next versions that took force after one, in this order, until now. Without costs: only the version that is found needs them. */
export const selectLaterVersions = query((value: ValueOf<AfterVersion>) => {
  const inOrder = sql`${later.effectiveAtMs}, ${later.version}`;
  // The texts are read after the versions are chosen, because a window function would copy each of them.
  const next = sql`(SELECT ${later.version} AS number, sum(octet_length(${later.rules})) OVER (ORDER BY ${inOrder}) AS read_so_far
    FROM ${priceLists} AS ${later}
    WHERE ${later.environmentId} = ${value("environmentId")} AND ${later.isDeleted} = 0
      AND (${inOrder}) > (${value("fromMs")}, ${value("after")}) AND ${later.effectiveAtMs} <= ${value("nowMs")}
    ORDER BY ${inOrder} LIMIT ${REPAIR_VERSIONS_MAX}) AS next`;
  return drizzle
    .select(fields(priceLists, "version", "effectiveAtMs", "rules"))
    .from(next)
    .crossJoin(priceLists)
    .where(
      and(
        sql`next.read_so_far <= ${REPAIR_BYTES_MAX}`,
        eq(priceLists.environmentId, value("environmentId")),
        sql`${priceLists.version} = next.number`,
      ),
    )
    .orderBy(priceLists.effectiveAtMs, priceLists.version);
});

/** The version in force at a moment: two rows. Without its list if the isolate knows it. */
export const selectInForceOnce = query((value: ValueOf<ListOfEnvironment & { atMs: number; known: string }>) => {
  const isKnown = sql`${priceLists.version} IN (SELECT value FROM json_each(${value("known")}))`;
  return drizzle
    .select({
      ...fields(priceLists, "version", "effectiveAtMs"),
      ...computed({
        rules: sql<string | null>`iif(${isKnown}, NULL, ${priceLists.rules})`,
        costs: sql<string | null>`iif(${isKnown}, NULL, ${priceLists.costs})`,
      }),
    })
    .from(priceLists)
    .where(
      and(
        eq(priceLists.environmentId, value("environmentId")),
        sql`${priceLists.isDeleted} = 0`,
        sql`${priceLists.effectiveAtMs} <= ${value("atMs")}`,
      ),
    )
    .orderBy(desc(priceLists.effectiveAtMs), desc(priceLists.version))
    .limit(1);
});
