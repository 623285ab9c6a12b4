import fc from "fast-check";
import { expect, it } from "vitest";
import { amountMinorMax, type Quantities, UNITS, type Unit } from "../../src/books/amounts/amount.ts";
import { NEVER_MS } from "../../src/books/ledger/balance.ts";
import { burnDown, type Spendable, spendingOrder } from "../../src/books/ledger/burn-down.ts";
import { minor } from "../support/minor.ts";

const some = <T>(...values: [T, ...T[]]) => fc.constantFrom(...values);

const spendable = (remaining: fc.Arbitrary<number>): fc.Arbitrary<Spendable> =>
  fc.record({
    id: fc.string({ minLength: 1, maxLength: 3 }),
    unit: fc.constantFrom(...UNITS),
    rules: some<Spendable["rules"]>([], [{ event: "chat" }], [{ event: "image" }], [{ model: "m" }]),
    priority: some(1, 100, 200),
    remainingMinor: remaining.map(minor),
    grantedAtMs: some(1, 2, 3),
    expiresAtMs: some(5, 6, NEVER_MS),
  });

/** Balances with different ids. */
const balancesOf = (remaining: fc.Arbitrary<number>, maxLength = 8) =>
  fc.uniqueArray(spendable(remaining), { selector: (balance) => balance.id, maxLength });

it("spendingOrder is a strict total order", () => {
  fc.assert(
    fc.property(balancesOf(fc.constant(1)), (balances) => {
      for (const a of balances) {
        expect(spendingOrder(a, a)).toBe(0);
        for (const b of balances) {
          if (a !== b) expect(spendingOrder(a, b)).not.toBe(0);
          expect(Math.sign(spendingOrder(a, b)) + Math.sign(spendingOrder(b, a))).toBe(0);
          for (const c of balances) {
            if (spendingOrder(a, b) < 0 && spendingOrder(b, c) < 0) expect(spendingOrder(a, c)).toBeLessThan(0);
          }
        }
      }
    }),
  );
});

it("spendingOrder gives the same order for any input order", () => {
  fc.assert(
    fc.property(
      balancesOf(fc.constant(1)).chain((balances) =>
        fc.tuple(fc.constant(balances), fc.shuffledSubarray(balances, { minLength: balances.length })),
      ),
      ([balances, shuffled]) => {
        expect(shuffled.toSorted(spendingOrder)).toEqual(balances.toSorted(spendingOrder));
      },
    ),
  );
});

it("spendingOrder sorts by priority, then rules before none, then expiry (never last), age and id", () => {
  const base: Spendable = {
    id: "m",
    unit: "count",
    rules: [{ event: "chat" }],
    priority: 100,
    remainingMinor: minor(1),
    grantedAtMs: 10,
    expiresAtMs: 1_000,
  };
  // Each balance comes after the previous one, although every later criterion would reverse them.
  const inOrder: Spendable[] = [
    { ...base, priority: 99, rules: [], expiresAtMs: NEVER_MS, grantedAtMs: 99, id: "z" },
    { ...base, expiresAtMs: 999, grantedAtMs: 99, id: "z" },
    { ...base, grantedAtMs: 9, id: "z" },
    { ...base, id: "Z" },
    { ...base, id: "a" },
    base,
    { ...base, grantedAtMs: 11, id: "a" },
    { ...base, expiresAtMs: NEVER_MS, grantedAtMs: 1, id: "a" },
    { ...base, rules: [], expiresAtMs: 1, grantedAtMs: 1, id: "a" },
    { ...base, priority: 101, expiresAtMs: 1, grantedAtMs: 1, id: "a" },
  ];
  expect(inOrder.toReversed().toSorted(spendingOrder)).toEqual(inOrder);
});

const upTo = (max: number) => fc.integer({ min: 0, max }).map(minor);
const quantities: fc.Arbitrary<Quantities> = fc.record(
  {
    count: upTo(50),
    tokens: fc.oneof(upTo(50), upTo(amountMinorMax.tokens)),
    seconds: upTo(50),
    cents: fc.oneof(upTo(50), upTo(amountMinorMax.cents)),
  },
  { requiredKeys: [] },
);
const remaining = fc.oneof(fc.integer({ min: 0, max: 30 }), fc.integer({ min: 0, max: amountMinorMax.cents }));
const usage = fc.record({ event: some("chat", "other"), model: some<string | undefined>(undefined, "m"), quantities });

const ceil = (dividend: bigint, divisor: bigint): bigint => (dividend + divisor - 1n) / divisor;

const covers = (balance: Spendable, event: string, model: string | undefined): boolean =>
  balance.rules.length === 0 ||
  balance.rules.some((rule) => (rule.event ?? event) === event && (rule.model === undefined || rule.model === model));

it("burnDown takes at least one step and never more than the remaining amount, from matching balances, in the given order", () => {
  fc.assert(
    fc.property(balancesOf(remaining), usage, (balances, used) => {
      const { legs } = burnDown(balances, used);
      const places = legs.map((leg) => balances.indexOf(leg.balance));
      expect(places).toEqual([...new Set(places)].sort((a, b) => a - b));
      for (const { balance, amountMinor } of legs) {
        expect(amountMinor).toBeGreaterThanOrEqual(1);
        expect(amountMinor).toBeLessThanOrEqual(balance.remainingMinor);
        expect(Number.isSafeInteger(amountMinor)).toBe(true);
        expect(used.quantities[balance.unit] ?? 0).toBeGreaterThan(0);
        expect(covers(balance, used.event, used.model)).toBe(true);
      }
    }),
    { numRuns: 3_000 },
  );
});

it("burnDown covers the event exactly: payments and rest add up to the whole, and only the last payer rounds up", () => {
  fc.assert(
    fc.property(balancesOf(remaining), usage, (balances, used) => {
      const { legs, uncovered } = burnDown(balances, used);
      const carried = UNITS.filter((unit) => (used.quantities[unit] ?? 0) > 0);
      if (carried.length === 0) {
        expect({ legs, uncovered }).toEqual({ legs: [], uncovered: null });
        return;
      }
      // All units have one common denominator, so that this test does not have to reduce fractions.
      const quantity = (unit: Unit) => BigInt(used.quantities[unit] ?? 0);
      const whole = carried.reduce((product, unit) => product * quantity(unit), 1n);
      let left = whole;
      const before = uncovered === null ? legs.slice(0, -1) : legs;
      for (const { balance, amountMinor } of before) {
        expect(amountMinor).toBe(balance.remainingMinor);
        left -= (BigInt(amountMinor) * whole) / quantity(balance.unit);
      }
      expect(left > 0n).toBe(true);
      const share = (unit: Unit) => Number(ceil(quantity(unit) * left, whole));
      if (uncovered !== null) {
        expect(uncovered).toEqual(Object.fromEntries(carried.map((unit) => [unit, share(unit)])));
        return;
      }
      const last = legs.at(-1);
      expect(last?.amountMinor).toBe(share(last?.balance.unit ?? "count"));
    }),
    { numRuns: 3_000 },
  );
});

it("burnDown leaves a part uncovered only when every balance that may pay is empty", () => {
  fc.assert(
    fc.property(balancesOf(remaining), usage, (balances, used) => {
      const { legs, uncovered } = burnDown(balances, used);
      if (uncovered === null) return;
      const payers = balances.filter(
        (balance) =>
          balance.remainingMinor > 0 &&
          (used.quantities[balance.unit] ?? 0) > 0 &&
          covers(balance, used.event, used.model),
      );
      expect(legs.map((leg) => leg.balance)).toEqual(payers);
    }),
    { numRuns: 3_000 },
  );
});

it("burnDown debits the exact amount when the event has one unit: nothing is rounded", () => {
  fc.assert(
    fc.property(
      balancesOf(remaining),
      fc.integer({ min: 1, max: amountMinorMax.cents }).map(minor),
      (balances, cents) => {
        const all = balances.map((balance) => ({ ...balance, unit: "cents" as const, rules: [] }));
        const { legs, uncovered } = burnDown(all, { event: "chat", quantities: { cents } });
        const paid = legs.reduce((sum, leg) => sum + BigInt(leg.amountMinor), 0n);
        expect(paid + BigInt(uncovered?.cents ?? 0)).toBe(BigInt(cents));
      },
    ),
  );
});

const balance = (id: string, unit: Unit, remainingMinor: number): Spendable => ({
  id,
  unit,
  rules: [],
  priority: 100,
  remainingMinor: minor(remainingMinor),
  grantedAtMs: 1,
  expiresAtMs: NEVER_MS,
});

it("burnDown passes the rest of an event to the next balance in proportion, across units", () => {
  // Half of the tokens are paid, so half of the cents are left: 5 of 10.
  const balances = [balance("a", "tokens", 500), balance("b", "cents", 1_000)];
  const { legs, uncovered } = burnDown(balances, {
    event: "chat",
    quantities: { tokens: minor(1_000), cents: minor(10) },
  });
  expect(legs.map((leg) => leg.amountMinor)).toEqual([500, 5]);
  expect(uncovered).toBeNull();
});

it("burnDown keeps a fraction exact until the last payer, which alone rounds up", () => {
  // 1 of 3 tokens, then 1 of 3 seconds: a third of 100 cents is left, 33 1/3.
  const balances = [balance("a", "tokens", 1), balance("b", "seconds", 1), balance("c", "cents", 1_000)];
  const { legs } = burnDown(balances, {
    event: "chat",
    quantities: { tokens: minor(3), seconds: minor(3), cents: minor(100) },
  });
  expect(legs.map((leg) => leg.amountMinor)).toEqual([1, 1, 34]);
  const short = burnDown(balances.slice(0, 2), {
    event: "chat",
    quantities: { tokens: minor(3), seconds: minor(3), cents: minor(100) },
  });
  expect(short.uncovered).toEqual({ tokens: 1, seconds: 1, cents: 34 });
});

it("burnDown skips balances that are empty, do not match, or whose unit is absent or 0, and pays nothing for an empty event", () => {
  const unmatched = { ...balance("b", "count", 9), rules: [{ event: "image" }] };
  const balances = [balance("a", "count", 0), unmatched, balance("c", "seconds", 9), balance("d", "count", 9)];
  const { legs } = burnDown(balances, { event: "chat", quantities: { count: minor(2), seconds: minor(0) } });
  expect(legs).toEqual([{ balance: balances[3], amountMinor: 2 }]);
  expect(burnDown(balances, { event: "chat", quantities: { count: minor(0) } })).toEqual({
    legs: [],
    uncovered: null,
  });
  expect(burnDown([], { event: "chat", quantities: { count: minor(2), cents: minor(0) } }).uncovered).toEqual({
    count: 2,
  });
});
