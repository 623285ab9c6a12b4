import { all, type Statement } from "../../db/sql.ts";
import { assert, invalid } from "../../errors.ts";
import { DAY_MS } from "../../lib/time.ts";
import type { TenantCtx } from "../../runtime.ts";
import { isUnstated } from "../amounts/given-quantities.ts";
import { meterThousandths } from "../amounts/meters.ts";
import { type CostRule, type MeteredUsage, type PriceRule, prepareCosts, preparePrices, priceUsage } from "./price.ts";
import {
  inForceBy,
  type PinnedVersion,
  type PriceVersion,
  selectByNumber,
  selectInForceAt,
  selectInForceOnce,
  selectLaterVersions,
  VERSIONS_A_READ,
  type VersionRow,
  versionMemoryOf,
} from "./price-versions.ts";
import { needsPrice, noPriceFor, type PricedUsage, priced, priceNotFound, type UnpricedUsage } from "./priced-usage.ts";

/** The account's state on which a price depends. */
interface PricesAtRead {
  readonly settingsSnapshot: string | null;
  readonly nowMs: number;
}

/** The number of the version that prices a usage, null if there is none, and whether a later version may be in force. */
export interface PriceBase {
  readonly version: number | null;
  readonly mayHaveLater: boolean;
}

/** How far back an event's own time chooses the version (PR5). */
const BACK_MS = 31 * DAY_MS;

/** Returns the moment whose version prices a usage: its own, if that is at most 31 days ago, else now (PR5). */
const pricedAt = (occurredAtMs: number | undefined, nowMs: number): number =>
  occurredAtMs !== undefined && occurredAtMs < nowMs && occurredAtMs >= nowMs - BACK_MS ? occurredAtMs : nowMs;

/** A usage for which the call must look for a later version, because this one has no price for it (PR5). */
interface Repair {
  readonly base: number | null;
  readonly usage: MeteredUsage;
  readonly key: string;
}

interface UnreadPrices {
  readonly versions: readonly number[];
  readonly repairs: readonly Repair[];
  readonly moments: readonly number[];
}

/** Versions that a decision needs, and that were not read. `withPrices` reads them and calls again. */
export class PricesUnread extends Error {
  readonly versions: readonly number[];
  readonly repairs: readonly Repair[];
  /** Times whose version in force is not known. */
  readonly moments: readonly number[];

  constructor({ versions = [], repairs = [], moments = [] }: Partial<UnreadPrices>) {
    super("Versions of the price list were not read.");
    this.versions = versions;
    this.repairs = repairs;
    this.moments = moments;
  }
}

/** Calls a verb with the prices of its environment, and again whenever it needs versions that it did not read. */
export async function withPrices<Answer>(
  ctx: TenantCtx,
  verb: (prices: Prices) => Promise<Answer>,
  prices: Prices = new Prices(ctx),
): Promise<Answer> {
  for (;;) {
    try {
      return await verb(prices);
    } catch (error) {
      if (!(error instanceof PricesUnread)) throw error;
      await prices.load(error);
    }
  }
}

const NO_VERSION: PriceBase = { version: null, mayHaveLater: false };

/** The prices of an environment, as one call reads them. It keeps the versions that it has seen until it ends. */
export class Prices {
  readonly #ctx: TenantCtx;
  readonly #versions: Map<number, PriceVersion>;
  /** When each version that it knows of took force. */
  readonly #effectiveAtMs: Map<number, number>;
  /** The later version that prices a usage, by the key of its repair; null for none. */
  readonly #repaired = new Map<string, number | null>();
  /** Whether the versions in force at the call's times were selected. */
  #isSelected = false;

  constructor(ctx: TenantCtx) {
    this.#ctx = ctx;
    this.#versions = new Map(versionMemoryOf(ctx.isolate).of(ctx));
    this.#effectiveAtMs = new Map([...this.#versions].map(([version, { effectiveAtMs }]) => [version, effectiveAtMs]));
  }

  /** The numbers of the versions that need not be read, as JSON. */
  get known(): string {
    return JSON.stringify([...this.#versions.keys()]);
  }

  /** Selects the versions for usages, those in force at their time. No statement for usages with quantities. */
  select(
    usages: readonly (UnpricedUsage & { readonly occurredAt?: number | undefined })[],
    nowMs: number,
  ): Statement<VersionRow>[] {
    const moments = usages.filter(needsPrice).map(({ occurredAt }) => pricedAt(occurredAt, nowMs));
    return moments.length === 0 ? [] : [this.#selectAt(moments)];
  }

  #selectAt(moments: readonly number[]): Statement<VersionRow> {
    this.#isSelected = true;
    const key = { environmentId: this.#ctx.environment.id, known: this.known };
    const different = [...new Set(moments)];
    const [only] = different;
    if (different.length === 1 && only !== undefined) return selectInForceOnce({ ...key, atMs: only });
    return selectInForceAt({ ...key, moments: JSON.stringify(different) });
  }

  /** Returns whether a decision from memory can know the version in force at each time of a usage that needs a price. */
  canRecall(
    settingsSnapshot: string | null,
    usages: readonly (UnpricedUsage & { readonly occurredAt?: number | undefined })[],
  ): boolean {
    const nowMs = this.#ctx.now();
    const needing = usages.filter(needsPrice);
    return needing.every(({ occurredAt }) => inForceBy(settingsSnapshot, pricedAt(occurredAt, nowMs)) !== undefined);
  }

  /** Returns whether a decision from memory can know the version in force now, which a hold pins. */
  canRecallNow(settingsSnapshot: string | null): boolean {
    return inForceBy(settingsSnapshot, this.#ctx.now()) !== undefined;
  }

  /** Takes the version that was read with a reservation. */
  takePinned({ priceVersion: version, pinnedAtMs, pinnedRules, pinnedCosts }: Partial<PinnedVersion>): void {
    if (version == null || pinnedAtMs == null) return;
    this.take([{ version, effectiveAtMs: pinnedAtMs, rules: pinnedRules ?? null, costs: pinnedCosts ?? null }]);
  }

  /** Takes the rows of a select. */
  take(rows: readonly VersionRow[] = []): void {
    for (const row of rows) {
      const { version, effectiveAtMs, rules, costs } = row;
      this.#effectiveAtMs.set(version, effectiveAtMs);
      if (this.#versions.has(version) || rules === null || costs === null) continue;
      const read = {
        ...{ version, effectiveAtMs },
        rules: preparePrices(JSON.parse(rules) as PriceRule[]),
        costs: prepareCosts(JSON.parse(costs) as CostRule[]),
      };
      this.#versions.set(version, read);
      versionMemoryOf(this.#ctx.isolate).add(this.#ctx, read, rules.length + costs.length);
    }
  }

  /**
   * Returns the version in force at a usage's time. Throws `PricesUnread` if neither the settings snapshot tells it nor `select` has
   * read it: the snapshot names few versions, and a hold with quantities selects none.
   */
  baseAt({ settingsSnapshot, nowMs }: PricesAtRead, occurredAt?: number | undefined): PriceBase {
    const atMs = pricedAt(occurredAt, nowMs);
    const listed = inForceBy(settingsSnapshot, atMs);
    if (listed === undefined && !this.#isSelected) throw new PricesUnread({ moments: [atMs] });
    const version = listed === undefined ? this.#latestAt(atMs) : listed;
    return { version, mayHaveLater: inForceBy(settingsSnapshot, nowMs) !== version };
  }

  /** Prices an event by the version in force at its time. */
  priceEvent(account: PricesAtRead, usage: UnpricedUsage & { readonly occurredAt?: number | undefined }): PricedUsage {
    return this.price(usage, needsPrice(usage) ? this.baseAt(account, usage.occurredAt) : NO_VERSION);
  }

  /** Returns the version that a reservation pins; null if there was none when it was made (PR5). */
  pinned({ settingsSnapshot, nowMs }: PricesAtRead, version: number | null): PriceBase {
    return { version, mayHaveLater: inForceBy(settingsSnapshot, nowMs) !== version };
  }

  /** The same for a read that has no settings snapshot. */
  readBaseAt(nowMs: number, occurredAt?: number | undefined): PriceBase {
    const atMs = pricedAt(occurredAt, nowMs);
    return { version: this.#latestAt(atMs), mayHaveLater: atMs < nowMs };
  }

  /** Of the versions in force at the moments that were selected, the one in force at one of these moments took force last. */
  #latestAt(atMs: number): number | null {
    const until = [...this.#effectiveAtMs].filter(([, effectiveAtMs]) => effectiveAtMs <= atMs);
    return until.toSorted(([a, aMs], [b, bMs]) => bMs - aMs || b - a)[0]?.[0] ?? null;
  }

  /**
   * Returns the quantities of a usage: those that were sent, or those that the version, or the first later one that has a price, gives
   * its meters. Throws `price_not_found`, `invalid_request` for meters that were forgotten or cost too much, and `PricesUnread`.
   */
  price(usage: UnpricedUsage, { version: base, mayHaveLater }: PriceBase): PricedUsage {
    const { event, model, quantities, meters } = usage;
    if (meters === undefined) {
      assert(quantities !== undefined, "a usage has meters or quantities");
      if (isUnstated(quantities) && base !== null) this.#requireNoMeters(this.#read(base), usage);
      return { quantities, meters: null, priceVersion: null, costMinor: null, rules: [] };
    }
    const metered: MeteredUsage = { event, model, meters: meterThousandths(meters) };
    const version = base === null ? null : this.#read(base);
    const price = version === null ? noPriceFor(metered) : priceUsage(version.rules, metered);
    if (price.kind !== "missing" || !mayHaveLater) return priced(usage, meters, metered, version, price);
    const key = JSON.stringify([base, event, model, meters]);
    const found = this.#repaired.get(key);
    if (found === undefined) throw new PricesUnread({ repairs: [{ base, usage: metered, key }] });
    if (found === null) throw priceNotFound(usage, price);
    const later = this.#read(found);
    return priced(usage, meters, metered, later, priceUsage(later.rules, metered));
  }

  #read(version: number): PriceVersion {
    const read = this.#versions.get(version);
    if (read === undefined) throw new PricesUnread({ versions: [version] });
    return read;
  }

  /** A rule of `count` would price a usage that only implies its `count` of 1, so its meters were forgotten (PR3). */
  #requireNoMeters({ rules }: PriceVersion, { event, model }: UnpricedUsage): void {
    if (!rules.count.some(({ matches }) => matches({ event, model, meters: new Map() }))) return;
    throw invalid(
      "meters",
      "are required, because the price list has a rule of `count` for this event: send its meters",
    );
  }

  /** Reads what a decision needed. */
  async load({ versions, repairs, moments }: PricesUnread): Promise<void> {
    const { db, environment } = this.#ctx;
    if (moments.length > 0) this.take(await all(db, this.#selectAt(moments)));
    for (let at = 0; at < versions.length; at += VERSIONS_A_READ) {
      const some = JSON.stringify(versions.slice(at, at + VERSIONS_A_READ));
      this.take(await all(db, selectByNumber({ environmentId: environment.id, versions: some })));
    }
    for (const [base, some] of Map.groupBy(repairs, (repair) => repair.base)) await this.#findLater(base, some);
  }

  /** Finds the first later version that prices each usage. It keeps no other version, because there may be thousands. */
  async #findLater(base: number | null, repairs: readonly Repair[]): Promise<void> {
    const { db, environment } = this.#ctx;
    const nowMs = this.#ctx.now();
    let last = base === null ? { effectiveAtMs: -1, version: 0 } : this.#read(base);
    let open = repairs;
    while (open.length > 0) {
      const position = { fromMs: last.effectiveAtMs, after: last.version, nowMs };
      const rows = await all(db, selectLaterVersions({ environmentId: environment.id, ...position }));
      for (const row of rows) {
        if (open.length === 0) break;
        const rules = preparePrices(JSON.parse(row.rules) as PriceRule[]);
        const isPriced = ({ usage }: Repair) => priceUsage(rules, usage).kind !== "missing";
        for (const { key } of open.filter(isPriced)) this.#repaired.set(key, row.version);
        open = open.filter(({ key }) => !this.#repaired.has(key));
        last = row;
      }
      if (rows.length === 0) break;
    }
    for (const { key } of open) this.#repaired.set(key, null);
  }
}
