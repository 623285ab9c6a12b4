/** Makes and deletes versions of an environment's price list (PR1). */

import { and, desc, eq, sql } from "drizzle-orm";
import { inEnvironmentOf, requireEnvironment } from "../../catalog/apps.ts";
import { insertAuditEntry, newAuditEntry } from "../../catalog/audit.ts";
import { attempt } from "../../db/attempt.ts";
import { drizzle, fields, hasRow, query, type ValueOf } from "../../db/query.ts";
import { environments, priceLists } from "../../db/schema.ts";
import { guardClock, guardSettingsSnapshot } from "../../db/settings-snapshot.ts";
import { batch } from "../../db/sql.ts";
import { invalid, PurserError } from "../../errors.ts";
import { warn } from "../../http/warnings.ts";
import type { AdminCtx, Mode } from "../../runtime.ts";
import { type CostRule, type MeterPrice, type PriceRule, unreachableRules } from "./price.ts";
import {
  isStanding,
  listFields,
  ofPriceLists,
  ofVersion,
  type PriceList,
  type PriceListRow,
  type PriceListsKey,
  presentPriceList,
  selectInForce,
  unknownVersion,
  type VersionKey,
} from "./price-lists.ts";

/** A version to make (PR1). */
export interface NewPriceList {
  readonly mode: Mode;
  readonly rules: readonly PriceRule[];
  readonly costs: readonly CostRule[];
  readonly note: string | null;
  /** When it takes force. If undefined, now. */
  readonly effectiveAt?: number | undefined;
  /** The number that the newest version must have; 0 for none. */
  readonly ifVersion?: number | undefined;
}

/** Returns a rule with its fields and meters in one order, so that equal rules have equal JSON. */
function inRuleOrder<Rule extends CostRule & { readonly unit?: string }>(rule: Rule) {
  const { event, model, when, unit, perEvent, per } = rule;
  const sorted = (prices: Readonly<Record<string, MeterPrice>>) =>
    Object.fromEntries(
      Object.entries(prices)
        .toSorted(([a], [b]) => (a < b ? -1 : 1))
        .map(([name, price]) => [
          name,
          typeof price === "number" ? price : { amount: price.amount, units: price.units },
        ]),
    );
  return {
    ...{ event, model },
    when: when && { meters: when.meters, above: when.above },
    ...{ unit, perEvent },
    per: per && sorted(per),
  };
}

const selectNewestVersion = query((value: ValueOf<PriceListsKey>) =>
  drizzle
    .select({ ...listFields(), ...fields(priceLists, "auditEntryId") })
    .from(priceLists)
    .where(and(ofPriceLists(value), isStanding))
    .orderBy(desc(priceLists.version))
    .limit(1),
);
const selectMade = query((value: ValueOf<PriceListsKey>) =>
  drizzle
    .select(fields(priceLists, "version"))
    .from(priceLists)
    .where(ofPriceLists(value))
    .orderBy(desc(priceLists.version))
    .limit(1),
);
const selectScheduled = query((value: ValueOf<PriceListsKey & { nowMs: number }>) =>
  drizzle
    .select(fields(priceLists, "version"))
    .from(priceLists)
    .where(and(ofPriceLists(value), isStanding, sql`${priceLists.effectiveAtMs} > ${value("nowMs")}`))
    .limit(1),
);
const selectByAuditEntry = query((value: ValueOf<PriceListsKey & { auditEntryId: string }>) =>
  drizzle
    .select(listFields())
    .from(priceLists)
    .where(and(ofPriceLists(value), eq(priceLists.auditEntryId, value("auditEntryId")))),
);
const selectStoredSettingsSnapshot = query((value: ValueOf<PriceListsKey>) =>
  drizzle
    .select(fields(environments, "settingsSnapshot"))
    .from(environments)
    .where(eq(environments.id, value("environmentId"))),
);
const insertVersion = query((value: ValueOf<VersionKey & PriceListRow & { auditEntryId: string }>) =>
  drizzle.insert(priceLists).values({
    environmentId: value("environmentId"),
    version: value("version"),
    effectiveAtMs: value("effectiveAtMs"),
    createdAtMs: value("createdAtMs"),
    note: value("note"),
    rules: value("rules"),
    costs: value("costs"),
    auditEntryId: value("auditEntryId"),
  }),
);

/** How many versions the settings snapshot of an environment names. Writes from memory find the version in force among them. */
const LATEST_MAX = 10;

/** Version 1, which stands or is deleted where an environment ever had a version. */
const isFirst = (value: ValueOf<PriceListsKey>) => and(ofPriceLists(value), sql`${priceLists.version} = 1`);

/** Copies the versions that take force last into the environment's settings snapshot, so that a write that was planned on others fails. */
const syncPrices = query((value: ValueOf<PriceListsKey>) => {
  const before = sql`coalesce(${environments.settingsSnapshot}, '{}')`;
  const latest = sql`(SELECT json_group_array(json_array(number, effective)) FROM (
    SELECT ${priceLists.version} AS number, ${priceLists.effectiveAtMs} AS effective FROM ${priceLists}
    WHERE ${ofPriceLists(value)} AND ${isStanding} ORDER BY 2 DESC, 1 DESC LIMIT ${LATEST_MAX}
  ))`;
  const counts = sql`(SELECT json_object(
    'made', max(${priceLists.version}), 'deleted', sum(${priceLists.isDeleted}), 'latest', json(${latest})
  ) FROM ${priceLists} WHERE ${ofPriceLists(value)})`;
  return drizzle
    .update(environments)
    .set({ settingsSnapshot: sql`json_set(${before}, '$.prices', ${counts})` })
    .where(and(eq(environments.id, value("environmentId")), hasRow(priceLists, isFirst(value))));
});

const auditPricesSet = insertAuditEntry();

const VERSIONS_MAX = 10_000;

/**
 * Makes a version of an environment's price list, or returns the newest one if it says the same (PR1). Throws `not_found`,
 * `changed_meanwhile` if the newest version is not `ifVersion`, and `invalid_request` for a moment that has passed and after
 * 10,000 versions.
 */
export async function setPrices(admin: AdminCtx, appId: string, input: NewPriceList): Promise<PriceList> {
  const { mode, note, ifVersion } = input;
  const rules = JSON.stringify(input.rules.map(inRuleOrder));
  const costs = JSON.stringify(input.costs.map(inRuleOrder));
  const entry = { appId, action: "prices.set" } as const;
  const { auditEntryId } = newAuditEntry(admin, { ...entry, target: "" });
  return attempt(admin, async () => {
    const environment = await requireEnvironment(admin, appId, mode);
    const environmentId = environment.id;
    const nowMs = inEnvironmentOf(admin, environment).now();
    const effectiveAtMs = input.effectiveAt ?? nowMs;
    const [[stored], [own], [newest], [made], [inForce], [scheduled]] = await batch(admin.db, [
      selectStoredSettingsSnapshot({ environmentId }),
      selectByAuditEntry({ environmentId, auditEntryId }),
      selectNewestVersion({ environmentId }),
      selectMade({ environmentId }),
      selectInForce({ environmentId, nowMs }),
      selectScheduled({ environmentId, nowMs }),
    ]);
    // The batch was stored, but its response was lost.
    if (own !== undefined) return presentPriceList(own, mode);
    requireVersion(ifVersion, newest?.version ?? 0);
    const isSame = newest?.rules === rules && newest.costs === costs && newest.note === note;
    const isSameTime =
      input.effectiveAt === undefined ? newest?.version === inForce?.version : newest?.effectiveAtMs === effectiveAtMs;
    const same = isSame && isSameTime ? newest : undefined;
    // A repeat may come after its `effectiveAt`.
    if (same === undefined && effectiveAtMs < nowMs)
      throw invalid("effectiveAt", "must not be in the past: a version prices what comes later");
    warnOfUnreachable(admin, input, effectiveAtMs === nowMs && scheduled !== undefined);
    if (same !== undefined) return presentPriceList(same, mode);
    const version = 1 + (made?.version ?? 0);
    if (version > VERSIONS_MAX)
      throw invalid("", `An environment may have ${VERSIONS_MAX} versions of its price list.`);
    const row = { version, effectiveAtMs, createdAtMs: nowMs, note, rules, costs };
    const audited = newAuditEntry(admin, { ...entry, target: `${version}`, details: { mode } });
    await batch(admin.db, [
      guardClock({ environmentId, clock: environment.clock }),
      // They tell of every version that was made or deleted since.
      guardSettingsSnapshot({ environmentId, settingsSnapshot: stored?.settingsSnapshot ?? null }),
      insertVersion({ environmentId, auditEntryId, ...row }),
      auditPricesSet({ ...audited, auditEntryId }),
      syncPrices({ environmentId }),
    ]);
    return presentPriceList(row, mode);
  });
}

function requireVersion(ifVersion: number | undefined, version: number): void {
  if (ifVersion === undefined || ifVersion === version) return;
  throw new PurserError("changed_meanwhile", "The price list was changed after this version was read.", {
    param: "ifVersion",
    details: { version },
  });
}

function warnOfUnreachable(admin: AdminCtx, { rules }: NewPriceList, isReplacedLater: boolean): void {
  if (unreachableRules(rules).length > 0) warn(admin, "price_rule_unreachable");
  if (isReplacedLater) warn(admin, "prices_scheduled");
}

type DeletionKey = VersionKey & { nowMs: number };
const isDeletable = (value: ValueOf<DeletionKey>) =>
  and(ofVersion(value), isStanding, sql`${priceLists.effectiveAtMs} > ${value("nowMs")}`);
const auditPricesDeleted = insertAuditEntry<DeletionKey>((value) => hasRow(priceLists, isDeletable(value)));
const markListDeleted = query((value: ValueOf<DeletionKey & { auditEntryId: string }>) =>
  drizzle
    .update(priceLists)
    .set({ isDeleted: true, auditEntryId: value("auditEntryId", priceLists.auditEntryId) })
    .where(isDeletable(value)),
);
const selectAnyVersion = query((value: ValueOf<VersionKey>) =>
  drizzle
    .select({ ...listFields(), ...fields(priceLists, "isDeleted", "auditEntryId") })
    .from(priceLists)
    .where(ofVersion(value)),
);

/** Deletes a version that is not yet in force, and returns it. Throws `not_found`, and `invalid_request` for others (PR1). */
export async function deletePriceList(admin: AdminCtx, appId: string, mode: Mode, version: number): Promise<PriceList> {
  const entry = newAuditEntry(admin, { appId, action: "prices.deleted", target: `${version}`, details: { mode } });
  const [, , , , [row]] = await attempt(admin, async () => {
    const environment = await requireEnvironment(admin, appId, mode);
    const nowMs = inEnvironmentOf(admin, environment).now();
    const key = { environmentId: environment.id, version };
    return batch(admin.db, [
      guardClock({ environmentId: environment.id, clock: environment.clock }),
      auditPricesDeleted({ ...entry, ...key, nowMs }),
      markListDeleted({ ...key, nowMs, auditEntryId: entry.auditEntryId }),
      syncPrices(key),
      selectAnyVersion(key),
    ]);
  });
  if (row?.isDeleted === true && row.auditEntryId === entry.auditEntryId) return presentPriceList(row, mode);
  if (row === undefined || row.isDeleted) throw unknownVersion();
  throw invalid("version", "has already taken force, so it stays. Make a new version instead");
}
