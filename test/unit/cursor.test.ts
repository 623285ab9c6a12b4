import fc from "fast-check";
import { expect, it } from "vitest";
import { cutPage, decodeCursor, encodeCursor } from "../../src/lib/cursor.ts";
import { decodeBase64url, encodeBase64url } from "../../src/lib/encoding.ts";

const scope = [7, "user", ""] as const;

it("decodes a cursor to its position, for its own list only", async () => {
  const part = fc.oneof(fc.string(), fc.integer());
  await fc.assert(
    fc.asyncProperty(
      fc.integer({ min: 1, max: Number.MAX_SAFE_INTEGER }),
      fc.array(part, { maxLength: 4 }),
      fc.array(part, { maxLength: 4 }),
      async (position, own, other) => {
        const cursor = encodeCursor(position, own);
        expect(cursor).toMatch(/^[A-Za-z0-9_-]+$/);
        expect(decodeCursor(cursor, own)).toBe(position);
        if (JSON.stringify(own) !== JSON.stringify(other)) expect(decodeCursor(cursor, other)).toBeNull();
      },
    ),
  );
});

it("rejects a cursor with any one character changed, left out or added", async () => {
  const cursor = encodeCursor(1_234, scope);
  const alphabet = "ABCDEFGHIJKLMNOPQRSTUVWXYZabcdefghijklmnopqrstuvwxyz0123456789-_=+/ .";
  const altered = new Set<string>();
  for (let index = 0; index <= cursor.length; index++) {
    altered.add(cursor.slice(0, index) + cursor.slice(index + 1));
    for (const character of alphabet) {
      altered.add(cursor.slice(0, index) + character + cursor.slice(index + 1));
      altered.add(cursor.slice(0, index) + character + cursor.slice(index));
    }
  }
  altered.delete(cursor);
  for (const text of altered) expect(decodeCursor(text, scope), text).toBeNull();
});

it("rejects a cursor with inserted bytes that a text decoder would ignore", async () => {
  const bytes = decodeBase64url(encodeCursor(5, scope)) ?? new Uint8Array();
  const [check, position] = [bytes.slice(0, 9), bytes.slice(9)];
  for (const inserted of [[0xef, 0xbb, 0xbf], [0x20], [0x30], [0x2b], [0x00], [0xff]]) {
    expect(decodeCursor(encodeBase64url(new Uint8Array([...check, ...inserted, ...position])), scope)).toBeNull();
    expect(decodeCursor(encodeBase64url(new Uint8Array([...check, ...position, ...inserted])), scope)).toBeNull();
  }
});

it("rejects text that is not a cursor", async () => {
  for (const text of ["", "x", "5", "AAAA", "null", "🙂", "a".repeat(100_000)]) {
    expect(decodeCursor(text, scope)).toBeNull();
  }
});

it("cuts a page from its rows, and says after which row others follow", () => {
  expect(cutPage([1, 2, 3], 2)).toEqual({ page: [1, 2], last: 2 });
  expect(cutPage([1, 2], 2)).toEqual({ page: [1, 2], last: undefined });
  expect(cutPage([], 2)).toEqual({ page: [], last: undefined });
});
