import { Buffer } from "node:buffer";
import fc from "fast-check";
import { expect, it } from "vitest";
import { decodeBase64url, encodeBase64url } from "../../src/lib/encoding.ts";

it("encodes as RFC 4648 says, without padding, and decodes its own output", () => {
  fc.assert(
    fc.property(fc.uint8Array({ maxLength: 100 }), (bytes) => {
      const text = encodeBase64url(bytes);
      expect(text).toBe(Buffer.from(bytes).toString("base64url"));
      expect(decodeBase64url(text)).toEqual(bytes);
    }),
  );
});

it("decodes only one text to each value", () => {
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

it("rejects a last character whose unused bits are not zero: of 64 characters, 16 can end 32 bytes", () => {
  const text = encodeBase64url(new Uint8Array(32).fill(7));
  const alphabet = "ABCDEFGHIJKLMNOPQRSTUVWXYZabcdefghijklmnopqrstuvwxyz0123456789-_";
  const accepted = [...alphabet].filter((last) => decodeBase64url(text.slice(0, -1) + last) !== null);
  expect(accepted).toHaveLength(16);
  expect(accepted).toContain(text.slice(-1));
});
