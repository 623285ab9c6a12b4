import { Buffer } from "node:buffer";
import fc from "fast-check";
import { expect, it } from "vitest";
import { decodeBase64url, encodeBase64url } from "../../src/lib/encoding.ts";

it("writes what RFC 4648 writes, without padding, and reads it back", () => {
  fc.assert(
    fc.property(fc.uint8Array({ maxLength: 100 }), (bytes) => {
      const text = encodeBase64url(bytes);
      expect(text).toBe(Buffer.from(bytes).toString("base64url"));
      expect(decodeBase64url(text)).toEqual(bytes);
    }),
  );
});

it("accepts one spelling of a value: no two texts give the same bytes", () => {
  fc.assert(
    fc.property(fc.string({ unit: fc.constantFrom(..."ABCxyz019-_+/= \n."), maxLength: 12 }), (text) => {
      const bytes = decodeBase64url(text);
      if (bytes !== null) expect(encodeBase64url(bytes)).toBe(text);
    }),
    { numRuns: 5_000 },
  );
});

it.each(["A", "AAAAA", "AA==", "AAA=", "AA A", "AA\n", "A+AA", "A/AA", "AB", "AAB", "Ä", "AAA.", "AAA\0"])(
  "refuses %j: padding, white space, other alphabets, stray bits, impossible lengths",
  (text) => {
    expect(decodeBase64url(text)).toBeNull();
  },
);

it("refuses three of the four spellings of a 32-byte value's last character", () => {
  const text = encodeBase64url(new Uint8Array(32).fill(7));
  const alphabet = "ABCDEFGHIJKLMNOPQRSTUVWXYZabcdefghijklmnopqrstuvwxyz0123456789-_";
  const spellings = [...alphabet].filter((last) => decodeBase64url(text.slice(0, -1) + last) !== null);
  expect(spellings).toHaveLength(16);
  expect(spellings).toContain(text.slice(-1));
});
