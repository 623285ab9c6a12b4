import fc from "fast-check";
import { expect, it } from "vitest";
import { exactNumber, parseExactJson, roundNumbers } from "../../src/lib/json.ts";

/** At most 15 digits, which a double always represents exactly. */
const digits = fc.bigInt({ min: 1n, max: 999_999_999_999_999n }).map(String);

it("parseExactJson returns a number when its double is exact, whatever zeros and exponent it is written with", () => {
  fc.assert(
    fc.property(digits, fc.nat(30), fc.integer({ min: -9, max: 9 }), (whole, zeros, exponent) => {
      const written = `${whole}.0${"0".repeat(zeros)}e${exponent}`;
      expect(exactNumber(written)).toBe(Number(written));
      expect(parseExactJson(written)).toBe(Number(written));
    }),
  );
});

it("parseExactJson returns a number for every valid amount of cents", () => {
  const minor = fc.oneof(fc.nat(), fc.integer({ min: 8_589_934_591_000_000, max: 8_589_934_592_000_000 }));
  fc.assert(
    fc.property(minor, (cents) => {
      const all = String(cents).padStart(7, "0");
      const written = `${all.slice(0, -6)}.${all.slice(-6)}00`;
      expect(parseExactJson(`{"cents":${written}}`)).toEqual({ cents: cents / 1_000_000 });
    }),
  );
});

it("parseExactJson returns a symbol with the digits when the double is not exact", () => {
  fc.assert(
    fc.property(digits, fc.integer({ min: 1, max: 9 }), fc.boolean(), (whole, last, isNegative) => {
      const written = `${isNegative ? "-" : ""}${whole}.${"0".repeat(16)}${last}`;
      const read = parseExactJson(`{"a":[${written}]}`) as { a: [symbol] };
      expect(typeof read.a[0]).toBe("symbol");
      expect(read.a[0].description).toBe(written);
      roundNumbers(read);
      expect(read).toEqual(JSON.parse(`{"a":[${written}]}`));
    }),
  );
});

it("parseExactJson finishes with long numbers, and with strings that look like numbers", () => {
  const zeros = "0".repeat(500_000);
  expect(exactNumber(`1${zeros}1e-500001`)).toBeTypeOf("symbol");
  expect(exactNumber(`0.${zeros}1`)).toBeTypeOf("symbol");
  parseExactJson(`["${"1.".repeat(250_000)}"]`);
  parseExactJson(`[${"1,".repeat(250_000)}1]`);
});

it("parseExactJson returns infinity above a double's range, keeps other values, and rejects invalid JSON", () => {
  expect(parseExactJson("[1e999,-1e999]")).toEqual([Infinity, -Infinity]);
  const text = '{"__proto__":{"s":"1.0000000000000001"},"n":null,"t":true,"l":1.0000000000000001}';
  const read = parseExactJson(text) as object;
  roundNumbers(read);
  expect(JSON.stringify(read)).toBe(JSON.stringify(JSON.parse(text)));
  expect(() => parseExactJson("[1.00000000000000000001")).toThrow(SyntaxError);
});

it("parseExactJson reads deeply nested values as JSON.parse does", () => {
  const deep = `{"note":"12345678901234567","nested":${"[".repeat(50_000)}${"]".repeat(50_000)}}`;
  expect(parseExactJson(deep)).toMatchObject({ note: "12345678901234567" });
});
