import type { CostRule, MeterPrice } from "./price.ts";

/** Compares two versions of a price list, rule by rule. Pure. */

type AnyRule = CostRule & { readonly unit?: string | undefined };

/** A price that differs between two rules. Null where a rule has none. `name` is null for the price of an event. */
export interface PriceChange {
  readonly name: string | null;
  readonly before: MeterPrice | null;
  readonly after: MeterPrice | null;
}

/** A rule of one list or of both. Places count from 0; a place is null in a list that has no such rule. */
export interface RuleChange<Rule extends AnyRule> {
  readonly kind: "added" | "removed" | "changed" | "moved";
  readonly rule: Rule;
  readonly before: number | null;
  readonly after: number | null;
  readonly prices: readonly PriceChange[];
}

/** The part of a rule that says what it prices. Rules with the same part are compared with each other, in their order. */
const subjectOf = ({ event, model, when, unit }: AnyRule): string => JSON.stringify([unit, event, model, when]);

const isSamePrice = (a: MeterPrice | null, b: MeterPrice | null): boolean => JSON.stringify(a) === JSON.stringify(b);

function changedPrices(before: AnyRule, after: AnyRule): PriceChange[] {
  const names = new Set([...Object.keys(before.per ?? {}), ...Object.keys(after.per ?? {})]);
  const prices = [
    { name: null, before: before.perEvent ?? null, after: after.perEvent ?? null },
    ...[...names].map((name) => ({ name, before: before.per?.[name] ?? null, after: after.per?.[name] ?? null })),
  ];
  return prices.filter((price) => !isSamePrice(price.before, price.after));
}

/** The places of a longest list of pairs that are in the same order in both lists. The others have moved. */
function placesInOrder(places: readonly number[]): ReadonlySet<number> {
  // The last place of the best list of each length, and the list itself.
  const ends: (readonly number[])[] = [];
  for (const place of places) {
    const at = ends.findIndex((list) => (list.at(-1) ?? -1) > place);
    const length = at === -1 ? ends.length : at;
    ends[length] = [...(length === 0 ? [] : (ends[length - 1] ?? [])), place];
  }
  return new Set(ends.at(-1));
}

/**
 * Returns how a list became another one: the rules that were added, removed, changed in their prices, or moved. The new list's rules
 * come first, in its order, then those that were removed.
 */
export function compareLists<Rule extends AnyRule>(
  before: readonly Rule[],
  after: readonly Rule[],
): RuleChange<Rule>[] {
  const open = Map.groupBy(before.keys(), (place) => subjectOf(before[place] as Rule));
  const pairs = after.map((rule) => open.get(subjectOf(rule))?.shift() ?? null);
  const kept = placesInOrder(pairs.filter((place) => place !== null));
  const changes = after.flatMap((rule, place): RuleChange<Rule>[] => {
    const earlier = pairs[place] ?? null;
    const old = earlier === null ? undefined : before[earlier];
    if (old === undefined || earlier === null) return [{ kind: "added", rule, before: null, after: place, prices: [] }];
    const prices = changedPrices(old, rule);
    const found = { rule, before: earlier, after: place, prices };
    if (prices.length > 0) return [{ kind: "changed", ...found }];
    return kept.has(earlier) ? [] : [{ kind: "moved", ...found }];
  });
  const removed = [...open.values()].flat().toSorted((a, b) => a - b);
  return [
    ...changes,
    ...removed.map((place) => ({
      ...{ kind: "removed" as const, rule: before[place] as Rule },
      ...{ before: place, after: null, prices: [] },
    })),
  ];
}
