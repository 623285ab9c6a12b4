import type { Minor } from "../../db/schema.ts";
import { assert } from "../../errors.ts";
import { ceilDivide, type Quantities, UNITS, type Unit } from "../amounts/amount.ts";
import { type Fraction, reduceFraction } from "../amounts/fraction.ts";
import { type MatchRule, rulesCover } from "../amounts/match.ts";

/** The fields of a balance that burn-down needs. */
export interface Spendable {
  readonly id: string;
  readonly unit: Unit;
  readonly rules: readonly MatchRule[];
  readonly priority: number;
  readonly remainingMinor: Minor;
  readonly grantedAtMs: number;
  /** NEVER_MS when it never expires. */
  readonly expiresAtMs: number;
}

/** The fields that the spending order needs. */
export interface Ordered extends Pick<Spendable, "id" | "priority" | "grantedAtMs" | "expiresAtMs"> {
  readonly rules: { readonly length: number };
}

export interface Usage {
  readonly event: string;
  readonly model?: string | undefined;
  readonly quantities: Quantities;
}

interface Leg<B extends Spendable = Spendable> {
  readonly balance: B;
  /** At least 1, and at most the balance's remaining amount. */
  readonly amountMinor: Minor;
}

export interface Payment<B extends Spendable = Spendable> {
  readonly legs: readonly Leg<B>[];
  /** The quantities that no balance covers, each rounded up to a step of its unit. Null when all quantities are covered. */
  readonly uncovered: Quantities | null;
  /** Set if further balances could pay, but the usage already has the maximum number of them. */
  readonly isCut?: true;
}

/** The most balances that pay for one usage. Their amounts of an event or a hold fit into a row of D1. */
export const LEGS_MAX = 10_000;

const compareValues = (a: number | string, b: number | string): number => (a < b ? -1 : a > b ? 1 : 0);

/**
 * Compares balances in spending order, which is also the order of lists (C13): by priority, then balances with rules first, then by
 * expiry, by grant and by id. No two balances are equal.
 */
export function spendingOrder(a: Ordered, b: Ordered): number {
  return (
    compareValues(a.priority, b.priority) ||
    compareValues(a.rules.length === 0 ? 1 : 0, b.rules.length === 0 ? 1 : 0) ||
    compareValues(a.expiresAtMs, b.expiresAtMs) ||
    compareValues(a.grantedAtMs, b.grantedAtMs) ||
    compareValues(a.id, b.id)
  );
}

/**
 * Divides one usage over balances, in the given order (U2). Each balance pays as much as it can, in its own unit. The rest of the
 * event is an exact fraction, which the next balances pay. Only the balance that pays the last part rounds up to a step.
 * At most `LEGS_MAX` balances pay; the rest is uncovered. The caller leaves out expired balances. This function skips balances that
 * are empty, in another unit or without a matching rule. No balance pays for a free usage (U1).
 */
export function burnDown<B extends Spendable>(balances: readonly B[], usage: Usage): Payment<B> {
  const usedUnits = UNITS.filter((unit) => (usage.quantities[unit] ?? 0) > 0);
  if (usedUnits.length === 0 || usage.quantities.isFree === true) return { legs: [], uncovered: null };

  const legs: Leg<B>[] = [];
  let left: Fraction = { numerator: 1n, denominator: 1n };
  let isCut = false;
  for (const balance of balances) {
    const quantity = BigInt(usage.quantities[balance.unit] ?? 0);
    if (quantity === 0n || balance.remainingMinor === 0) continue;
    if (!rulesCover(balance.rules, usage.event, usage.model)) continue;
    if (legs.length === LEGS_MAX) {
      isCut = true;
      break;
    }
    const remaining = BigInt(balance.remainingMinor);
    const needed = ceilDivide(quantity * left.numerator, left.denominator);
    if (needed <= remaining) {
      legs.push({ balance, amountMinor: Number(needed) as Minor });
      return { legs, uncovered: null };
    }
    legs.push({ balance, amountMinor: balance.remainingMinor });
    const numerator = left.numerator * quantity - remaining * left.denominator;
    assert(numerator > 0n, "a balance that is too small leaves a part of the event");
    left = reduceFraction({ numerator, denominator: left.denominator * quantity });
  }

  const uncovered: { [U in Unit]?: Minor } = {};
  for (const unit of usedUnits) {
    const part = ceilDivide(BigInt(usage.quantities[unit] ?? 0) * left.numerator, left.denominator);
    uncovered[unit] = Number(part) as Minor;
  }
  return { legs, uncovered, ...(isCut ? { isCut } : {}) };
}
