import fc from "fast-check";
import { describe, expect, it } from "vitest";
import { amountMinorMax, meterOf, priceAmount, UNITS, type Unit } from "../../src/books/amounts/amount.ts";
import {
  type CostRule,
  costUsage,
  type MeteredUsage,
  type PriceRule,
  prepareCosts,
  preparePrices,
  priceUsage,
  unreachableRules,
} from "../../src/books/prices/price.ts";

const usage = (event: string, model: string | undefined, meters: Readonly<Record<string, number>>): MeteredUsage => ({
  ...{ event, model },
  meters: new Map(Object.entries(meters).map(([name, value]) => [name, meterOf(`${value}`) ?? -1n])),
});
const price = (rules: readonly PriceRule[], used: MeteredUsage) => priceUsage(preparePrices(rules), used);
const cost = (rules: readonly CostRule[], used: MeteredUsage) => costUsage(prepareCosts(rules), used);
const cents = (amount: number) => ({ cents: Math.round(amount * 1e6) });
const million = (amount: number) => ({ amount, units: 1_000_000 });

describe("price lists as vendors publish them, priced by hand", () => {
  const rules: PriceRule[] = [
    // $1.25 a million input tokens, $0.125 cached, $10 output, in cents.
    { model: "gpt-5", unit: "cents", per: { input: million(125), cacheRead: million(12.5), output: million(1000) } },
    // Two cache lives and a dearer price for prompts above 200,000 tokens.
    {
      ...{ model: "claude-sonnet-4-*", unit: "cents" },
      when: { meters: ["input", "cacheRead", "cacheWrite", "cacheWrite1h"], above: 200_000 },
      per: {
        ...{ input: million(600), cacheRead: million(60), cacheWrite: million(750), cacheWrite1h: million(1200) },
        output: million(2250),
      },
    },
    {
      ...{ model: "claude-sonnet-4-*", unit: "cents" },
      per: {
        ...{ input: million(300), cacheRead: million(30), cacheWrite: million(375), cacheWrite1h: million(600) },
        output: million(1500),
      },
    },
    { event: "image.*", unit: "count", perEvent: 4 },
    { event: "speech", unit: "cents", perEvent: 0.01, per: { seconds: { amount: 0.6, units: 60 } } },
  ];

  it("charges each token once, by its own meter", () => {
    const used = usage("chat", "gpt-5", { input: 1_200, cacheRead: 34_000, output: 567 });
    // 0.15 + 0.425 + 0.567
    expect(price(rules, used)).toEqual({
      kind: "priced",
      quantities: cents(1.142),
      rules: [{ unit: "cents", rule: 0 }],
    });
  });

  it("charges a long prompt's dearer price for the whole request, from the first token above the limit", () => {
    const meters = { input: 100_000, cacheRead: 90_000, cacheWrite: 6_000, cacheWrite1h: 4_000, output: 1_000 };
    // 30 + 2.7 + 2.25 + 2.4 + 1.5 at exactly 200,000; 60.0006 + 5.4 + 4.5 + 4.8 + 2.25 with a token more.
    expect(price(rules, usage("chat", "claude-sonnet-4-5", meters))).toMatchObject({
      ...{ quantities: cents(38.85), rules: [{ unit: "cents", rule: 2 }] },
    });
    expect(price(rules, usage("chat", "claude-sonnet-4-5", { ...meters, input: 100_001 }))).toMatchObject({
      ...{ quantities: cents(76.9506), rules: [{ unit: "cents", rule: 1 }] },
    });
  });

  it("charges a flat price whatever the meters, also without any", () => {
    for (const meters of [{}, { images: 3, anything: 7 }]) {
      expect(price(rules, usage("image.made", undefined, meters))).toMatchObject({ quantities: { count: 4_000 } });
    }
  });

  it("adds the price of the event to the exact seconds, and rounds up once", () => {
    // 0.01 + 61.5 * 0.01 = 0.625; of 0.001 seconds: 0.01 + 0.00001.
    expect(price(rules, usage("speech", "tts", { seconds: 61.5 }))).toMatchObject({ quantities: cents(0.625) });
    expect(price(rules, usage("speech", "tts", { seconds: 0.001 }))).toMatchObject({ quantities: cents(0.01001) });
  });

  it("gives a quantity of each unit that has a rule, each by its own first rule", () => {
    const both: PriceRule[] = [
      ...rules,
      { model: "gpt-*", unit: "tokens", per: { input: 1, cacheRead: 0.1, output: 8 } },
    ];
    expect(price(both, usage("chat", "gpt-5", { input: 10, output: 1 }))).toMatchObject({
      quantities: { tokens: 18_000, cents: 2_250 },
      rules: [
        { unit: "tokens", rule: 5 },
        { unit: "cents", rule: 0 },
      ],
    });
  });
});

describe("what a list has no price for", () => {
  const rules: PriceRule[] = [
    { event: "chat", unit: "cents", per: { input: 1, output: 2 } },
    { event: "chat", unit: "count", per: { output: 1 } },
    { event: "search", unit: "tokens", perEvent: 1 },
  ];

  it("is all used meters where no rule matches", () => {
    const missing = { kind: "missing", unit: null, meters: ["b", "a"] };
    expect(price(rules, usage("draw", "m", { b: 1, zero: 0, a: 0.5 }))).toEqual(missing);
    expect(price([], usage("chat", "m", { input: 1 }))).toEqual({ ...missing, meters: ["input"] });
  });

  it("is the meters above 0 that the rule does not name, of the first unit with a gap", () => {
    expect(price(rules, usage("chat", "m", { input: 5, output: 1 }))).toEqual({
      ...{ kind: "missing", unit: "count", meters: ["input"] },
    });
    expect(price(rules.slice(0, 1), usage("chat", "m", { input: 5, toString: 1, cacheRead: 0 }))).toEqual({
      ...{ kind: "missing", unit: "cents", meters: ["toString"] },
    });
  });

  it("includes an event without a model where each rule names one, even `*`", () => {
    expect(price([{ model: "*", unit: "count", perEvent: 1 }], usage("e", undefined, {}))).toMatchObject({
      kind: "missing",
    });
    expect(price([{ model: "*", unit: "count", perEvent: 1 }], usage("e", "", {}))).toMatchObject({ kind: "priced" });
  });

  it("is told before a quantity of another unit that is too large", () => {
    const large: PriceRule[] = [
      { unit: "count", perEvent: 1e13 },
      { unit: "cents", per: { input: 1 } },
    ];
    expect(price(large, usage("e", "m", { output: 1 }))).toEqual({
      kind: "missing",
      unit: "cents",
      meters: ["output"],
    });
    expect(price(large, usage("e", "m", { input: 1 }))).toEqual({ kind: "too_large", unit: "count" });
  });
});

it("a price of 0 is free where the list says so in every unit, and is left out beside another unit", () => {
  const free: PriceRule = { unit: "cents", per: { input: 0 } };
  expect(price([free], usage("e", "m", { input: 5 }))).toMatchObject({ quantities: { cents: 0, isFree: true } });
  expect(price([free], usage("e", "m", {}))).toMatchObject({ quantities: { cents: 0, isFree: true } });
  const both = [free, { unit: "count", perEvent: 1 } as const];
  expect(price(both, usage("e", "m", { input: 5 }))).toMatchObject({ quantities: { count: 1_000 } });
});

const costs: CostRule[] = [
  { model: "m", when: { meters: ["input"], above: 10 }, per: { input: 2 } },
  { model: "m", per: { input: 1, output: 3 } },
];
it.each([
  ["the first rule that matches", usage("e", "m", { input: 11 }), 22_000_000],
  ["the next, where the first one's condition does not hold", usage("e", "m", { input: 10, output: 1 }), 13_000_000],
  ["null where no rule matches", usage("e", "n", { input: 1 }), null],
  ["null where the rule does not name a meter", usage("e", "m", { input: 11, output: 1 }), null],
  ["null above the largest amount", usage("e", "m", { input: 5e9 }), null],
  ["the largest amount", usage("e", "m", { input: 8_589_934_592 / 2 }), 8_589_934_592_000_000],
])("costs is %s", (_, used, minor) => {
  expect(cost(costs, used)).toBe(minor);
});

/** Prices in another way: all numbers as whole numbers of 10^-30, sums by long division, globs by backtracking. */
const SCALE = 30;
const scaled = (number: number): bigint => {
  const [mantissa = "0", power = "0"] = `${number}`.split("e");
  const [whole = "0", decimals = ""] = mantissa.split(".");
  const shift = SCALE + Number(power) - decimals.length;
  return shift < 0 ? 0n : BigInt(whole + decimals) * 10n ** BigInt(shift);
};
function isMatch(glob: string, name: string): boolean {
  if (glob === "") return name === "";
  if (glob[0] === "*") return isMatch(glob.slice(1), name) || (name !== "" && isMatch(glob, name.slice(1)));
  return name !== "" && glob[0] === name[0] && isMatch(glob.slice(1), name.slice(1));
}
function modelOf(
  rules: readonly PriceRule[],
  event: string,
  model: string | undefined,
  meters: Record<string, number>,
) {
  const has = (name: string) => (Object.hasOwn(meters, name) ? (meters[name] ?? 0) : 0);
  const quantities: Record<string, bigint> = {};
  const gaps: Record<string, string[]> = {};
  for (const rule of rules) {
    if (rule.unit in quantities || rule.unit in gaps) continue;
    if (rule.event !== undefined && !isMatch(rule.event, event)) continue;
    if (rule.model !== undefined && (model === undefined || !isMatch(rule.model, model))) continue;
    if (rule.when !== undefined) {
      const sum = rule.when.meters.reduce((all, name) => all + scaled(has(name)), 0n);
      if (sum <= scaled(rule.when.above)) continue;
    }
    const named = rule.per;
    const gap =
      named === undefined ? [] : Object.keys(meters).filter((name) => has(name) > 0 && !Object.hasOwn(named, name));
    if (gap.length > 0) {
      gaps[rule.unit] = gap;
      continue;
    }
    const terms = Object.entries(named ?? {}).map(([name, each]) => {
      const { amount, units } = typeof each === "number" ? { amount: each, units: 1 } : each;
      return { top: scaled(amount) * scaled(has(name)), bottom: BigInt(units) * 10n ** BigInt(SCALE) };
    });
    const bottom = terms.reduce((product, term) => product * term.bottom, 1n);
    const top = terms.reduce(
      (sum, term) => sum + term.top * (bottom / term.bottom),
      scaled(rule.perEvent ?? 0) * bottom,
    );
    const per = bottom * 10n ** BigInt(SCALE - (rule.unit === "cents" ? 6 : 3));
    quantities[rule.unit] = top / per + (top % per === 0n ? 0n : 1n);
  }
  return { quantities, gaps };
}

const names = ["input", "output", "cacheRead", "constructor"];
const glob = fc.array(fc.constantFrom("a", "b", "*"), { maxLength: 4 }).map((parts) => parts.join(""));
const amount = fc.oneof(
  fc.integer({ min: 0, max: 999_999_999 }).map((n) => Number(`${n}e-12`)),
  fc.integer({ min: 0, max: 99_999 }).map((n) => Number(`${n}e-3`)),
  fc.integer({ min: 0, max: 20 }),
);
const meterPrice = fc.oneof(
  amount,
  fc.record({ amount, units: fc.constantFrom(1, 3, 7, 60, 1_000, 1_000_000, 2 ** 53 - 1) }),
);
const meter = fc.oneof(
  fc.integer({ min: 0, max: 1_000 }),
  fc.integer({ min: 0, max: 2 ** 53 - 1 }),
  fc.integer({ min: 0, max: 999_999 }).map((n) => Number(`${n}e-3`)),
);
const rule: fc.Arbitrary<PriceRule> = fc
  .record(
    {
      ...{ event: glob, model: glob, perEvent: amount },
      unit: fc.constantFrom(...UNITS),
      per: fc.dictionary(fc.constantFrom(...names), meterPrice, { minKeys: 1 }),
      when: fc.record({
        meters: fc.uniqueArray(fc.constantFrom(...names), { minLength: 1 }),
        above: fc.oneof(meter, fc.constant(0)),
      }),
    },
    { requiredKeys: ["unit"] },
  )
  .filter(({ per, perEvent }) => per !== undefined || perEvent !== undefined);
const used = fc.record({
  event: fc.constantFrom("", "a", "ab", "ba", "bb"),
  model: fc.option(fc.constantFrom("a", "b", "aab"), { nil: undefined }),
  meters: fc.dictionary(fc.constantFrom(...names), meter),
});

it("priceOf equals an independent model for random lists and meters up to 2^53, with twelve decimals", () => {
  const seen = { priced: 0, missing: 0, too_large: 0 };
  fc.assert(
    fc.property(fc.array(rule, { maxLength: 8 }), used, (rules, { event, model, meters }) => {
      const found = price(rules, usage(event, model, meters));
      const { quantities, gaps } = modelOf(rules, event, model, meters);
      seen[found.kind]++;
      const units = Object.keys({ ...quantities, ...gaps });
      const firstGap = UNITS.find((unit) => unit in gaps);
      const large = UNITS.find((unit) => (quantities[unit] ?? 0n) > BigInt(amountMinorMax[unit]));
      if (units.length === 0 || firstGap !== undefined) {
        const all = Object.keys(meters).filter((name) => (meters[name] ?? 0) > 0);
        const unit = firstGap ?? null;
        expect(found).toEqual({ kind: "missing", unit, meters: firstGap === undefined ? all : gaps[firstGap] });
      } else if (large !== undefined) {
        expect(found).toEqual({ kind: "too_large", unit: large });
      } else {
        const positive = Object.entries(quantities).filter(([, minor]) => minor > 0n);
        const kept = positive.length === 0 ? Object.entries(quantities) : positive;
        const expected = Object.fromEntries(kept.map(([unit, minor]) => [unit, Number(minor)]));
        const free = positive.length === 0 ? { isFree: true } : {};
        expect(found).toMatchObject({ kind: "priced", quantities: { ...expected, ...free } });
        expect(Object.keys(found.kind === "priced" ? found.quantities : {}).toSorted()).toEqual(
          Object.keys({ ...expected, ...free }).toSorted(),
        );
      }
    }),
    { numRuns: 3_000 },
  );
  for (const count of Object.values(seen)) expect(count).toBeGreaterThan(20);
});

it("unreachableRules names only rules that no event reaches", () => {
  fc.assert(
    fc.property(fc.array(rule, { maxLength: 8 }), fc.array(used, { minLength: 1, maxLength: 8 }), (rules, events) => {
      const unreachable = new Set(unreachableRules(rules).map((one) => one.rule));
      for (const { event, model, meters } of events) {
        const found = price(rules, usage(event, model, meters));
        const reached = found.kind === "priced" ? found.rules.map((one) => one.rule) : [];
        expect(reached.filter((index) => unreachable.has(index))).toEqual([]);
      }
    }),
    { numRuns: 1_000 },
  );
});

it.each<[string, PriceRule, PriceRule, boolean]>([
  ["any event before a named one", { unit: "cents", perEvent: 1 }, { event: "a", unit: "cents", perEvent: 1 }, true],
  ["a named event before any", { event: "a", unit: "cents", perEvent: 1 }, { unit: "cents", perEvent: 1 }, false],
  ["another unit", { unit: "count", perEvent: 1 }, { unit: "cents", perEvent: 1 }, false],
  [
    "a wider glob",
    { model: "gpt-5*", unit: "cents", perEvent: 1 },
    { model: "gpt-5-20*", unit: "cents", perEvent: 1 },
    true,
  ],
  [
    "a narrower glob",
    { model: "gpt-5-20*", unit: "cents", perEvent: 1 },
    { model: "gpt-5*", unit: "cents", perEvent: 1 },
    false,
  ],
  [
    "`*`, which no event without a model matches",
    { model: "*", unit: "cents", perEvent: 1 },
    { unit: "cents", perEvent: 1 },
    false,
  ],
  [
    "a lower condition",
    { unit: "cents", perEvent: 1, when: { meters: ["a", "b"], above: 5 } },
    { unit: "cents", perEvent: 1, when: { meters: ["a"], above: 5 } },
    true,
  ],
  [
    "a higher condition",
    { unit: "cents", perEvent: 1, when: { meters: ["a"], above: 6 } },
    { unit: "cents", perEvent: 1, when: { meters: ["a"], above: 5 } },
    false,
  ],
  [
    "a condition before none",
    { unit: "cents", perEvent: 1, when: { meters: ["a"], above: 0 } },
    { unit: "cents", perEvent: 1 },
    false,
  ],
])("unreachableRules judges a rule behind %s", (_, first, second, isUnreachable) => {
  expect(unreachableRules([first, second])).toEqual(isUnreachable ? [{ rule: 1, coveredBy: 0 }] : []);
});

it.each([
  ["1", 1_000n],
  ["0.0001", 1n],
  ["-0", 0n],
  ["0.30000000000000004", 300n],
  ["1e3", 1_000_000n],
  ["9007199254740992", 9_007_199_254_740_992_000n],
  ["9007199254740993", null],
  ["-1", null],
  ["1e999999999", null],
  ["NaN", null],
])("meters and amounts of rules reads a meter of %s in thousandths", (text, value) => {
  expect(meterOf(text)).toBe(value);
});

it.each<[number, readonly [bigint, bigint] | null]>([
  [0, [0n, 1n]],
  [1e-12, [1n, 10n ** 12n]],
  [0.123456789012, [123_456_789_012n, 10n ** 12n]],
  [1e20, [10n ** 20n, 1n]],
  [1e-13, null],
  [1.0000000000001, null],
  [1234567890123456, null],
  [-1, null],
  [Number.NaN, null],
  [Number.POSITIVE_INFINITY, null],
])("meters and amounts of rules reads an amount of %s of a rule", (number, parts) => {
  const read = priceAmount(number);
  expect(read && [read.numerator, read.denominator]).toEqual(parts);
});

it("meters and amounts of rules has the units of amounts in the order in which gaps are told", () => {
  expect(UNITS satisfies readonly Unit[]).toEqual(["count", "tokens", "seconds", "cents"]);
});
