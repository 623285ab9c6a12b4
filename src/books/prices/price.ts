import type { Minor } from "../../db/schema.ts";
import {
  amountMinorMax,
  ceilDivide,
  METER_MINOR_A_UNIT,
  MINOR_A_UNIT,
  type Quantities,
  toFraction,
  UNITS,
  type Unit,
} from "../amounts/amount.ts";
import { type Fraction, ZERO } from "../amounts/fraction.ts";
import { globTest } from "../amounts/match.ts";

/** The price of `units` of a meter, or of one where only an amount stands. */
export type MeterPrice = number | { readonly amount: number; readonly units: number };

/** The parts of a rule that price lists and lists of costs have in common (PR2, PR8). */
export interface CostRule {
  readonly event?: string | undefined;
  readonly model?: string | undefined;
  /** The rule matches only where the sum of these meters is above a number. */
  readonly when?: { readonly meters: string[]; readonly above: number } | undefined;
  /** Added once an event. */
  readonly perEvent?: number | undefined;
  /** Without it, the rule takes any meters. */
  readonly per?: Readonly<Record<string, MeterPrice>> | undefined;
}

/** A rule of a price list, as it is sent and stored (PR2). */
export interface PriceRule extends CostRule {
  readonly unit: Unit;
}

/** The meters of an event, in thousandths (PR3). */
export type Meters = ReadonlyMap<string, bigint>;

/** The parts of an event on which its price depends. */
export interface MeteredUsage {
  readonly event: string;
  readonly model?: string | undefined;
  readonly meters: Meters;
}

export type Price =
  /** `rules` has the place in the list of the rule that gave the quantity of each unit. */
  | {
      readonly kind: "priced";
      readonly quantities: Quantities;
      readonly rules: readonly { readonly unit: Unit; readonly rule: number }[];
    }
  /** The list has no price for `meters`. `unit` is null where no rule matches (PR4). */
  | { readonly kind: "missing"; readonly unit: Unit | null; readonly meters: readonly string[] }
  /** A quantity is above its unit's largest amount (C1). */
  | { readonly kind: "too_large"; readonly unit: Unit };

interface PreparedRule<Rule extends CostRule> {
  readonly rule: Rule;
  /** Its place in the list. */
  readonly index: number;
  readonly matches: (usage: MeteredUsage) => boolean;
}

/** A list of costs whose globs are prepared for many events. */
export type PreparedCosts = readonly PreparedRule<CostRule>[];
/** A price list whose globs are prepared for many events, by unit. */
export type PreparedPrices = Readonly<Record<Unit, readonly PreparedRule<PriceRule>[]>>;

/** Prepares valid costs. */
export const prepareCosts = (costs: readonly CostRule[]): PreparedCosts => costs.map(prepareRule);

const prepareRule = <Rule extends CostRule>(rule: Rule, index: number): PreparedRule<Rule> => ({
  ...{ rule, index },
  matches: matchTest(rule),
});

/** Prepares valid rules of a price list. */
export function preparePrices(rules: readonly PriceRule[]): PreparedPrices {
  const prepared = rules.map(prepareRule);
  const ofUnit = (unit: Unit) => prepared.filter(({ rule }) => rule.unit === unit);
  return { count: ofUnit("count"), tokens: ofUnit("tokens"), seconds: ofUnit("seconds"), cents: ofUnit("cents") };
}

function matchTest({ event, model, when }: CostRule): (usage: MeteredUsage) => boolean {
  const matchesEvent = event === undefined ? null : globTest(event);
  const matchesModel = model === undefined ? null : globTest(model);
  return (usage) =>
    (matchesEvent === null || matchesEvent(usage.event)) &&
    (matchesModel === null || (usage.model !== undefined && matchesModel(usage.model))) &&
    (when === undefined || isAbove(when, usage.meters));
}

function isAbove({ meters: names, above }: NonNullable<CostRule["when"]>, meters: Meters): boolean {
  const { numerator, denominator } = exactly(above);
  const sum = names.reduce((total, name) => total + (meters.get(name) ?? 0n), 0n);
  return sum * denominator > numerator * METER_MINOR_A_UNIT;
}

/** Numbers of rules are checked when a version is made. */
const exactly = (amount: number | undefined): Fraction => toFraction(amount ?? 0) ?? ZERO;

/**
 * Returns what an event costs by a list of rules. Of each unit the first rule that matches gives the quantity, rounded up once to a
 * step. A quantity of 0 is left out unless all are 0: the event is free (PR3, PR4). Pure.
 */
export function priceUsage(rules: PreparedPrices, usage: MeteredUsage): Price {
  const found = UNITS.flatMap((unit) => {
    const first = rules[unit].find(({ matches }) => matches(usage));
    return first === undefined ? [] : [{ unit, ...first }];
  });
  if (found.length === 0) return { kind: "missing", unit: null, meters: usedMeters(usage) };
  const quantities: { [U in Unit]?: Minor } = {};
  let tooLarge: Unit | null = null;
  for (const { unit, rule } of found) {
    const meters = unpricedMeters(rule, usage);
    if (meters.length > 0) return { kind: "missing", unit, meters };
    const minor = calculateQuantity(unit, rule, usage.meters);
    if (minor === null) tooLarge ??= unit;
    else quantities[unit] = minor;
  }
  if (tooLarge !== null) return { kind: "too_large", unit: tooLarge };
  const applied = found.map(({ unit, index }) => ({ unit, rule: index }));
  return { kind: "priced", quantities: withoutZeros(quantities), rules: applied };
}

function withoutZeros(quantities: { readonly [U in Unit]?: Minor }): Quantities {
  const positive = Object.entries(quantities).filter(([, minor]) => minor > 0);
  return positive.length === 0 ? { ...quantities, isFree: true } : Object.fromEntries(positive);
}

/**
 * Returns what an event costs the operator, in minor units of cents, by the first rule that matches. Null where none matches, the rule does
 * not name a meter that was used, or the cost is above the largest amount (PR8). Pure.
 */
export function costUsage(costs: PreparedCosts, usage: MeteredUsage): Minor | null {
  const first = costs.find(({ matches }) => matches(usage));
  if (first === undefined || unpricedMeters(first.rule, usage).length > 0) return null;
  return calculateQuantity("cents", first.rule, usage.meters);
}

const usedMeters = ({ meters }: MeteredUsage): string[] =>
  [...meters].filter(([, minor]) => minor > 0n).map(([name]) => name);

/** Returns the used meters that a rule does not name. */
const unpricedMeters = ({ per }: CostRule, usage: MeteredUsage): string[] =>
  per === undefined ? [] : usedMeters(usage).filter((name) => !Object.hasOwn(per, name));

/** Returns the exact sum of a rule in minor units of a unit, rounded up once. Null above the unit's largest amount. */
function calculateQuantity(unit: Unit, { perEvent, per = {} }: CostRule, meters: Meters): Minor | null {
  let { numerator, denominator } = exactly(perEvent);
  for (const [name, price] of Object.entries(per)) {
    const { amount, units } = typeof price === "number" ? { amount: price, units: 1 } : price;
    const each = exactly(amount);
    const divisor = each.denominator * BigInt(units) * METER_MINOR_A_UNIT;
    numerator = numerator * divisor + each.numerator * (meters.get(name) ?? 0n) * denominator;
    denominator *= divisor;
  }
  const minor = ceilDivide(numerator * BigInt(MINOR_A_UNIT[unit]), denominator);
  return minor > BigInt(amountMinorMax[unit]) ? null : (Number(minor) as Minor);
}

/** A rule that no event reaches, because an earlier rule of its unit matches whatever it matches. */
export interface UnreachableRule {
  readonly rule: number;
  readonly coveredBy: number;
}

/** Returns the rules of a list that no event reaches, each with the first rule that covers it (PR2). Pure. */
export function unreachableRules(rules: readonly PriceRule[]): UnreachableRule[] {
  const covers = rules.map(coverTest);
  return rules.flatMap((rule, index) => {
    const coveredBy = covers.findIndex(
      (covering, earlier) => earlier < index && rules[earlier]?.unit === rule.unit && covering(rule),
    );
    return coveredBy === -1 ? [] : [{ rule: index, coveredBy }];
  });
}

/** Returns a test whether a rule matches whatever another one matches. A glob covers another one if it matches its text. */
function coverTest({ event, model, when }: CostRule): (other: CostRule) => boolean {
  const coversEvent = event === undefined ? null : globTest(event);
  const coversModel = model === undefined ? null : globTest(model);
  return (other) =>
    (coversEvent === null || coversEvent(other.event ?? "*")) &&
    (coversModel === null || (other.model !== undefined && coversModel(other.model))) &&
    (when === undefined || (other.when !== undefined && isWider(when, other.when)));
}

function isWider(wide: NonNullable<CostRule["when"]>, narrow: NonNullable<CostRule["when"]>): boolean {
  return narrow.above >= wide.above && narrow.meters.every((name) => wide.meters.includes(name));
}
