import * as fc from "fast-check";
import { expect, it } from "vitest";
import { findKey, isAdminKey, keyHint, readKey, withoutKeys, writeAdminKey, writeKey } from "../../src/db/key-form.ts";
import { crc32, DIGITS, fromBase62, toBase62 } from "../../src/lib/encoding.ts";
import { randomId } from "../../src/lib/ids.ts";
import { times } from "../support/minor.ts";

const keys = fc
  .record({
    kind: fc.constantFrom("secret", "publishable", "relay"),
    mode: fc.constantFrom("live", "test"),
    id: fc.integer({ min: 1, max: 2 ** 40 }),
    database: fc.integer({ min: 0, max: 9 }),
  })
  .map(({ kind, mode, id, database }) => {
    const environment = { id, appId: `${randomId("app_")}${database}`, mode, database } as const;
    return { kind, environment, text: writeKey(kind, environment, randomId("")) } as const;
  });

it("a key contains its kind and its environment", () => {
  fc.assert(
    fc.property(keys, ({ kind, environment, text }) => {
      expect(readKey(text)).toEqual({ kind, environment });
    }),
  );
});

it("a key is invalid with any one character mistyped, left out, doubled or swapped with its neighbour", () => {
  fc.assert(
    fc.property(keys, fc.nat(), fc.nat(), ({ text }, place, digit) => {
      const at = 8 + (place % (text.length - 8));
      const other = DIGITS.charAt(digit % DIGITS.length);
      const swapped = `${text.slice(0, at)}${text.charAt(at + 1)}${text.charAt(at)}${text.slice(at + 2)}`;
      const flawed = [
        `${text.slice(0, at)}${other}${text.slice(at + 1)}`,
        `${text.slice(0, at)}${text.slice(at + 1)}`,
        `${text.slice(0, at)}${text.charAt(at)}${text.slice(at)}`,
        swapped,
      ];
      for (const each of flawed) if (each !== text) expect(readKey(each)).toBeNull();
    }),
  );
});

it("a key is invalid without a correct checksum", () => {
  for (const text of ["", "sk_live_", randomId("sk_live_"), `sk_live_${"0".repeat(52)}`, "sk_prod_x", "Bearer"]) {
    expect(readKey(text)).toBeNull();
  }
});

it("an administration key is invalid with any one character mistyped, left out or doubled, and is not an application's key", () => {
  const text = writeAdminKey(randomId(""));
  expect([isAdminKey(text), readKey(text)]).toEqual([true, null]);
  for (let at = 0; at < text.length; at++) {
    const other = text.charAt(at) === "x" ? "y" : "x";
    const [before, after] = [text.slice(0, at), text.slice(at + 1)];
    for (const flawed of [before + other + after, before + after, before + text.charAt(at) + text.slice(at)]) {
      expect([flawed, isAdminKey(flawed)]).toEqual([flawed, false]);
    }
  }
});

it("an administration key is shorter than every admin token", () => {
  expect(writeAdminKey(randomId("")).length).toBeLessThan(32);
});

const adminKey = writeAdminKey(randomId(""));
const letters = fc.stringMatching(/^[0-9A-Za-z_ "]{0,80}$/);

it("a text has each key replaced by its hint, wherever keys stand in it, also one after another", () => {
  fc.assert(
    fc.property(fc.array(fc.tuple(letters, keys)), letters, (parts, rest) => {
      const text = parts.map(([before, key]) => `${before}${key.text}`).join("");
      const cut = withoutKeys(`${text}${adminKey}${rest}`);
      for (const [, key] of parts) expect(cut).not.toContain(key.text);
      expect(cut).not.toContain(adminKey);
      expect(cut).toContain(keyHint(adminKey));
      expect(withoutKeys(cut)).toBe(cut);
    }),
  );
});

it("a text has a key replaced whose first letters are another key's last ones", () => {
  const app = `app_${"a".repeat(22)}0`;
  const other = writeKey("secret", { id: 1, appId: app, mode: "live" }, "o".repeat(22));
  const ending = times(10_000, (n) =>
    writeKey("secret", { id: 1, appId: app, mode: "live" }, `${n}`.padStart(22, "r")),
  ).find((text) => text.endsWith("sk"));
  expect(ending).toBeDefined();
  expect(withoutKeys(`${ending}${other.slice("sk".length)}`)).toBe(`${keyHint(ending ?? "")}${keyHint(other)}`);
});

it("a text stays as it is where a key's checksum is wrong, or a key is cut", () => {
  fc.assert(
    fc.property(keys, letters, ({ text }, before) => {
      const last = text.endsWith("0") ? "1" : "0";
      const made = `${before}!${text.slice(0, -1)}${last} ${adminKey.slice(0, -1)}`;
      expect(withoutKeys(made)).toBe(made);
    }),
  );
});

it("a text of JSON has keys replaced inside of its strings and names, and is otherwise unchanged", () => {
  fc.assert(
    fc.property(keys, fc.string(), ({ text }, other) => {
      const sent = { [`${other}"\n${text}`]: [other, "\\", `\r${text}`] };
      const expected = { [withoutKeys(`${other}"\n${text}`)]: [withoutKeys(other), "\\", `\r${keyHint(text)}`] };
      expect(JSON.parse(withoutKeys(JSON.stringify(sent)))).toEqual(expected);
      expect(withoutKeys(JSON.stringify([other]))).toBe(JSON.stringify([withoutKeys(other)]));
    }),
  );
});

it("a text names the first key that stands alone in it and has a correct checksum", () => {
  fc.assert(
    fc.property(keys, keys, ({ text: first }, { text: second }) => {
      const made = `${first.slice(0, -1)}${first.endsWith("0") ? "1" : "0"}`;
      expect(findKey(`{"a":"${made}","token":"${first}","b":"${second}"}`)).toBe(first);
      expect(findKey(`{"token":"${made}"}`)).toBeNull();
    }),
  );
});

it("the encodings of keys return every number unchanged from base62, and NaN for malformed text", () => {
  fc.assert(fc.property(fc.maxSafeNat(), (value) => fromBase62(toBase62(value)) === value));
  expect([fromBase62(""), fromBase62("a-b"), fromBase62("z".repeat(20))]).toEqual([NaN, NaN, NaN]);
});

it("the encodings of keys compute the standard CRC-32", () => {
  expect(crc32("123456789")).toBe(0xcbf43926);
});
