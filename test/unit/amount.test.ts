import fc from "fast-check";
import { expect, it } from "vitest";
import {
  amountMinorMax,
  fromMinor,
  presentQuantities,
  toMinor,
  UNITS,
  type Unit,
  usedMinor,
} from "../../src/books/amounts/amount.ts";
import { quantities } from "../../src/books/amounts/amount-fields.ts";
import { parseExactJson } from "../../src/lib/json.ts";
import { minor as inMinor } from "../support/minor.ts";
import { usedMinor as modelSteps } from "../support/model-amounts.ts";

const decimalsOf: Record<Unit, number> = { count: 3, tokens: 3, seconds: 3, cents: 6 };
const unit = fc.constantFrom(...UNITS);

/** Writes minor units as a decimal without floating-point arithmetic. */
function written(of: Unit, minor: number): string {
  const digits = String(Math.abs(minor)).padStart(decimalsOf[of] + 1, "0");
  const whole = digits.slice(0, -decimalsOf[of]);
  const fraction = digits.slice(-decimalsOf[of]).replace(/0+$/, "");
  return `${minor < 0 ? "-" : ""}${whole}${fraction === "" ? "" : `.${fraction}`}`;
}

const unitAndMinor = unit.chain((of) =>
  fc.tuple(
    fc.constant(of),
    fc
      .oneof(
        fc.integer({ min: -amountMinorMax[of], max: amountMinorMax[of] }),
        fc.integer({ min: 0, max: 2_000_000 }),
        fc.integer({ min: amountMinorMax[of] - 2_000_000, max: amountMinorMax[of] }),
      )
      .map(inMinor),
  ),
);

it("an amount is unchanged by conversion from JSON to minor units and back, for every value that its unit allows", () => {
  fc.assert(
    fc.property(unitAndMinor, ([of, minor]) => {
      const text = written(of, minor);
      expect(toMinor(of, JSON.parse(text))).toBe(minor);
      expect(Number(JSON.stringify(fromMinor(of, minor)))).toBe(Number(text));
      expect(toMinor(of, JSON.parse(JSON.stringify(fromMinor(of, minor))))).toBe(minor);
    }),
    { numRuns: 5_000 },
  );
});

it("an amount is printed as its exact decimal, without an exponent", () => {
  fc.assert(
    fc.property(unitAndMinor, ([of, minor]) => {
      // JavaScript prints numbers below 1e-6 with an exponent, but no unit has a step that small.
      expect(JSON.stringify(fromMinor(of, minor))).toBe(written(of, minor));
    }),
    { numRuns: 5_000 },
  );
});

it("an amount is a different number for every step, up to the unit's maximum", () => {
  fc.assert(
    fc.property(unitAndMinor, ([of, minor]) => {
      if (minor < amountMinorMax[of]) expect(fromMinor(of, inMinor(minor + 1))).toBeGreaterThan(fromMinor(of, minor));
    }),
    { numRuns: 5_000 },
  );
});

it("an amount is rejected with more decimals than its unit has", () => {
  fc.assert(
    fc.property(unit, fc.integer({ min: 0, max: 1_000_000 }), fc.integer({ min: 1, max: 9 }), (of, whole, last) => {
      const text = `${whole}.${"0".repeat(decimalsOf[of])}${last}`;
      expect(toMinor(of, JSON.parse(text))).toBeNull();
      expect(toMinor(of, -JSON.parse(text))).toBeNull();
    }),
  );
});

it("an amount is rejected outside the unit's range, positive or negative", () => {
  for (const of of UNITS) {
    const max = fromMinor(of, inMinor(amountMinorMax[of]));
    expect(toMinor(of, max)).toBe(amountMinorMax[of]);
    expect(toMinor(of, -max)).toBe(-amountMinorMax[of]);
    for (const beyond of [
      max + 0.01,
      max + 1,
      max * 2,
      2 ** 53 - 1,
      2 ** 53,
      2 ** 53 + 2,
      1e20,
      1e21,
      1e100,
      1.7e308,
    ]) {
      expect(toMinor(of, beyond)).toBeNull();
      expect(toMinor(of, -beyond)).toBeNull();
    }
  }
  expect(fromMinor("cents", inMinor(amountMinorMax.cents))).toBe(8_589_934_592);
  expect(fromMinor("tokens", inMinor(amountMinorMax.tokens))).toBe(8_796_093_022_208);
});

it("an amount is rejected when it is NaN or infinite", () => {
  for (const of of UNITS) {
    for (const none of [Number.NaN, JSON.parse("1e999"), JSON.parse("-1e999")]) expect(toMinor(of, none)).toBeNull();
  }
});

it("an amount is converted as exact decimal arithmetic converts it, for any double", () => {
  fc.assert(
    fc.property(unit, fc.double({ noNaN: true, noDefaultInfinity: true }), (of, amount) => {
      // The shortest decimal as a fraction: digits / 10^places, or digits · 10^-places.
      const [mantissa = "", exponent = "0"] = String(amount).split("e");
      const [whole = "", fraction = ""] = mantissa.split(".");
      const digits = BigInt(whole + fraction);
      const places = fraction.length - Number(exponent) - decimalsOf[of];
      const [dividend, divisor] = places > 0 ? [digits, 10n ** BigInt(places)] : [digits * 10n ** BigInt(-places), 1n];
      const minor = dividend / divisor;
      const size = minor < 0n ? -minor : minor;
      const fits = dividend % divisor === 0n && size <= BigInt(amountMinorMax[of]);
      expect(toMinor(of, amount)).toBe(fits ? Number(minor) : null);
    }),
    { numRuns: 5_000 },
  );
});

it.each([
  ["cents", "1e-6", 1],
  ["cents", "1e-7", null],
  ["cents", "1.5e-6", null],
  ["cents", "0.000001", 1],
  ["cents", "0.30000000000000004", null],
  ["cents", "0.3", 300_000],
  ["count", "1e-3", 1],
  ["count", "1e-4", null],
  ["count", "5e-324", null],
  ["count", "0.001", 1],
  ["count", "1e3", 1_000_000],
  ["count", "0", 0],
  ["count", "-0", 0],
  ["count", "-0.0", 0],
  ["count", "-1.5", -1_500],
  ["count", "9007199254740993", null],
  ["tokens", "8796093022208", 8_796_093_022_208_000],
  ["tokens", "8796093022208.001", null],
  ["tokens", "8796093022207.999", 8_796_093_022_207_999],
  ["cents", "8589934591.999999", 8_589_934_591_999_999],
] as const)("an amount in %s, written %s, is %s minor units (null: refused)", (of, text, minor) => {
  const read = toMinor(of, JSON.parse(text));
  expect(read).toBe(minor);
  expect(Object.is(read, -0)).toBe(false);
});

it("an amount is added exactly: 0.1 + 0.2 is 0.3", () => {
  for (const of of UNITS) {
    expect(fromMinor(of, inMinor((toMinor(of, 0.1) ?? 0) + (toMinor(of, 0.2) ?? 0)))).toBe(0.3);
  }
});

it("presentQuantities returns every given quantity, including zero, in the order of the units", () => {
  expect(presentQuantities({})).toEqual({});
  expect(presentQuantities({ cents: inMinor(1_500_000), count: inMinor(0) })).toEqual({ count: 0, cents: 1.5 });
  const one = inMinor(1);
  expect(Object.keys(presentQuantities({ tokens: one, seconds: one, cents: one, count: one }))).toEqual([...UNITS]);
});

/** Decimals that a program may send: doubles of every kind, sums of short decimals, and more digits than a double has. */
const digits = fc.oneof(
  fc.double({ min: 0, noNaN: true, noDefaultInfinity: true }).map(String),
  fc.double({ min: 0, max: 1e13, noNaN: true }).map(String),
  fc.double({ min: 0, max: 1e-300, noNaN: true }).map(String),
  fc.float({ min: 0, noNaN: true, noDefaultInfinity: true }).map(String),
  fc.array(fc.integer({ min: 1, max: 99_999 }), { minLength: 1, maxLength: 12 }).map((list) => {
    return String(list.reduce((sum, each) => sum + each / 1_000, 0));
  }),
  fc
    .tuple(fc.bigInt({ min: 0n, max: 10n ** 40n }), fc.integer({ min: 0, max: 60 }))
    .map(([n, places]) =>
      `${n}`.padStart(places + 1, "0").replace(new RegExp(`(?=\\d{${places}}$)`), places ? "." : ""),
    ),
  fc
    .tuple(fc.integer({ min: 0, max: 10 ** 15 }), fc.integer({ min: -450, max: 30 }), fc.constantFrom("e", "E", "e+"))
    .map(([n, exponent, e]) => `${n}${exponent < 0 ? "e" : e}${exponent}`),
  fc.constantFrom(
    ...[
      "0",
      "-0",
      "-0.000",
      "0e9",
      "1e21",
      "1e-7",
      "5e-324",
      "1e-400",
      "1.7976931348623157e308",
      "2.2250738585072014e-308",
    ],
    ...["0.30000000000000004", "0.1000000000000000055511151231257827", "8796093022208.0001", "9007199254740993"],
  ),
);

/** Compares two decimals, one of which may have an exponent, as fractions. */
function isSameDecimal(a: string, b: string): boolean {
  const [[n, p], [m, q]] = [a, b].map((text) => {
    const [mantissa = "", exponent = "0"] = text.replace(/^-/, "").toLowerCase().split("e");
    const [whole = "", fraction = ""] = mantissa.split(".");
    return [BigInt(whole + fraction), BigInt(exponent) - BigInt(fraction.length)];
  }) as [[bigint, bigint], [bigint, bigint]];
  return p < q ? n === m * 10n ** (q - p) : n * 10n ** (p - q) === m;
}

it("a used quantity is rounded to 15 digits and then up to a step, exactly, as fractions of big integers are, for decimals of every kind", () => {
  fc.assert(
    fc.property(unit, digits, (of, text) => {
      const minor = modelSteps(of, text.replace(/^-/, ""));
      const isRounded = () => !isSameDecimal(written(of, Number(minor)), text);
      expect(usedMinor(of, text)).toEqual(
        minor > BigInt(amountMinorMax[of]) ? null : { minor: Number(minor), isRounded: isRounded() },
      );
    }),
    { numRuns: 20_000 },
  );
});

it("a used quantity is the same from the JSON of a request, whose numbers keep their digits", () => {
  fc.assert(
    fc.property(unit, digits, (of, text) => {
      const read = quantities.safeParse(parseExactJson(`{"${of}":${text}}`));
      const used = usedMinor(of, text);
      expect(read.success ? read.data[of] : null).toBe(used === null ? null : used.minor);
    }),
    { numRuns: 5_000 },
  );
});

it("a used quantity is never less than what was sent, but for the noise beyond 15 digits", () => {
  fc.assert(
    fc.property(unit, fc.double({ min: 0, max: 1e9, noNaN: true }), (of, amount) => {
      const minor = usedMinor(of, String(amount))?.minor ?? 0;
      expect(fromMinor(of, inMinor(minor))).toBeGreaterThanOrEqual(amount * (1 - 1e-14));
    }),
  );
});

it("a used quantity takes away the noise of sums of floats", () => {
  expect(usedMinor("cents", String(0.1 + 0.2))).toEqual({ minor: 300_000, isRounded: true });
  expect(usedMinor("cents", "0.3")).toEqual({ minor: 300_000, isRounded: false });
  let sum = 0;
  for (let count = 0; count < 1_000; count++) sum += 0.1;
  expect(usedMinor("tokens", String(sum))?.minor).toBe(100_000);
});

it("a used quantity is unchanged if it is a whole number of minor units, also with 16 digits", () => {
  expect(usedMinor("tokens", "8796093022207.123")).toEqual({ minor: 8_796_093_022_207_123, isRounded: false });
  expect(usedMinor("tokens", "1.50000000000000000000")).toEqual({ minor: 1_500, isRounded: false });
});

it("a used quantity is rejected when it is negative or not a number, even with a million digits", () => {
  for (const text of ["-1", "-1e-400", "NaN", "Infinity", "", "1e", ".5"]) expect(usedMinor("cents", text)).toBeNull();
  const million = "9".repeat(1_000_000);
  expect(usedMinor("cents", million)).toBeNull();
  expect(usedMinor("cents", `0.${million}`)).toEqual({ minor: 1_000_000, isRounded: true });
  expect(usedMinor("cents", `1e-${million}`)).toEqual({ minor: 1, isRounded: true });
  expect(usedMinor("cents", `1e${million}`)).toBeNull();
});
