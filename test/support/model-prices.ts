import { fits, fromMinor, UNITS, type Unit, type Use, usedMinor } from "./model-amounts.ts";

/** A price of `units` of a meter. All numbers of the model's rules are whole, so that sums stay exact. */
type MeterPrice = Readonly<{ amount: number; units: number }>;
export type PriceRule = Readonly<{
  unit: Unit;
  event?: string;
  model?: string;
  when?: Readonly<{ meters: readonly string[]; above: number }>;
  perEvent?: number;
  per?: Readonly<Record<string, MeterPrice>>;
}>;

/** A request for a version of the price list (PR1). `effectiveAt` is null for now. */
export interface PricesRequest {
  readonly rules: readonly PriceRule[];
  readonly costs: readonly Omit<PriceRule, "unit">[];
  readonly effectiveAt: number | null;
}
type Version = Readonly<{ version: number; atMs: number; rules: readonly PriceRule[]; costs: PricesRequest["costs"] }>;

type Missing = Readonly<{ event: string; model: string | null; meters: readonly string[]; unit?: Unit }>;
/** The price of a usage, or why there is none. */
export type Priced = { readonly use: Use } | { readonly rejection: { status: number; code: string; body?: Missing } };

const SCALE: Readonly<Record<Unit, bigint>> = { count: 1_000n, tokens: 1_000n, seconds: 1_000n, cents: 1_000_000n };
const MONTH_MS = 31 * 86_400_000;

/** The sum of a rule in minor units, rounded up once. */
function minorOf(
  unit: Unit,
  { perEvent = 0, per = {} }: Omit<PriceRule, "unit">,
  meters: Readonly<Record<string, number>>,
) {
  const terms = Object.entries(per).map(([name, { amount, units }]) => ({
    top: BigInt(amount) * usedMinor("count", `${meters[name] ?? 0}`),
    bottom: BigInt(units) * 1_000n,
  }));
  const bottom = terms.reduce((product, term) => product * term.bottom, 1n);
  const whole = terms.reduce((sum, term) => sum + (term.top * bottom) / term.bottom, BigInt(perEvent) * bottom);
  return (whole * SCALE[unit] + bottom - 1n) / bottom;
}

const isMatch = (
  { event = "*", model, when }: Omit<PriceRule, "unit">,
  use: Use,
  meters: Readonly<Record<string, number>>,
) =>
  fits(event, use.event) &&
  (model === undefined || fits(model, use.model)) &&
  (when === undefined || when.meters.reduce((sum, name) => sum + (meters[name] ?? 0), 0) > when.above);

/** A model of price lists (PR1 to PR5, PR8). It keeps every version, and finds the one in force anew for each usage. */
export function createPrices(clock: { now: () => number }) {
  const versions: Version[] = [];
  const until = (atMs: number) =>
    versions.filter((each) => each.atMs <= atMs).toSorted((a, b) => a.atMs - b.atMs || a.version - b.version);
  const inForce = (atMs = clock.now()): number | null => until(atMs).at(-1)?.version ?? null;
  const used = (meters: Readonly<Record<string, number>>) =>
    Object.keys(meters).filter((name) => (meters[name] ?? 0) > 0);
  /** The quantities by one version, or the meters that it does not price. */
  const quantitiesBy = ({ rules }: Pick<Version, "rules">, use: Use, meters: Readonly<Record<string, number>>) => {
    const found = UNITS.flatMap((unit) => rules.find((rule) => rule.unit === unit && isMatch(rule, use, meters)) ?? []);
    if (found.length === 0) return { meters: used(meters) };
    for (const { unit, per } of found) {
      const gap = per === undefined ? [] : used(meters).filter((name) => !(name in per));
      if (gap.length > 0) return { meters: gap, unit };
    }
    const all = found.map((rule) => [rule.unit, minorOf(rule.unit, rule, meters)] as const);
    const some = all.filter(([, minor]) => minor > 0n);
    const shown = (some.length === 0 ? all : some).map(([unit, minor]) => [unit, fromMinor(unit, minor)] as const);
    return { quantities: Object.fromEntries(shown) };
  };
  return {
    inForce,
    set({ rules, costs, effectiveAt }: PricesRequest): { status: number; code?: string; body?: object } {
      const newest = versions.at(-1);
      const atMs = effectiveAt ?? clock.now();
      const says = (list: Pick<Version, "rules" | "costs">) => JSON.stringify([list.rules, list.costs]);
      const isSameTime = effectiveAt === null ? newest?.version === inForce() : newest?.atMs === atMs;
      const isSame = newest !== undefined && says(newest) === says({ rules, costs }) && isSameTime;
      if (isSame) return { status: 200, body: { version: newest.version } };
      if (atMs < clock.now()) return { status: 400, code: "invalid_request" };
      const version = versions.length + 1;
      versions.push({ version, atMs, rules, costs });
      return { status: 200, body: { version } };
    },
    /** A usage with the quantities of its price. `pinned` is the version that a hold pins; undefined for a usage of its own. */
    price(use: Use, occurredAt: string | undefined, pinned?: number | null): Priced {
      const now = clock.now();
      const ownMs = Date.parse(occurredAt ?? "") || now;
      const base = pinned === undefined ? inForce(ownMs < now && ownMs >= now - MONTH_MS ? ownMs : now) : pinned;
      const listed = until(now);
      const from = base === null ? 0 : listed.findIndex(({ version }) => version === base);
      if (use.meters === undefined) {
        const isUnstated = Object.keys(use.quantities ?? {}).length === 0;
        const forgot =
          isUnstated &&
          base !== null &&
          listed[from]?.rules.some((rule) => rule.unit === "count" && isMatch(rule, use, {}));
        return forgot ? { rejection: { status: 400, code: "invalid_request" } } : { use };
      }
      const { meters } = use;
      for (const each of listed.slice(from)) {
        const { quantities } = quantitiesBy(each, use, meters);
        if (quantities !== undefined) return { use: { ...use, quantities, priceVersion: each.version } };
      }
      const at = listed[from];
      const gap = base === null || at === undefined ? { meters: used(meters) } : quantitiesBy(at, use, meters);
      const { event, model = null } = use;
      const body = { event, model, meters: gap.meters ?? [], ...(gap.unit && { unit: gap.unit }) };
      return { rejection: { status: 404, code: "price_not_found", body } };
    },
    /** The cost of a priced usage to the operator, in minor units of cents. Null if no rule says it (PR8). */
    cost({ meters, priceVersion, ...use }: Use): bigint | null {
      const version = versions.find((each) => each.version === priceVersion);
      if (meters === undefined || version === undefined) return null;
      const first = version.costs.find((rule) => isMatch(rule, use, meters));
      const hasAll = first !== undefined && used(meters).every((name) => first.per === undefined || name in first.per);
      return hasAll ? minorOf("cents", first, meters) : null;
    },
  };
}
