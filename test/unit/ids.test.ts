import { expect, it } from "vitest";
import { randomId } from "../../src/lib/ids.ts";

it("makes a prefix and 22 characters of base62, no two alike", () => {
  const ids = Array.from({ length: 10_000 }, () => randomId("crb_"));
  for (const id of ids) expect(id).toMatch(/^crb_[0-9A-Za-z]{22}$/);
  expect(new Set(ids).size).toBe(ids.length);
});

it("is random in every place: each takes every character", () => {
  const seen = Array.from({ length: 22 }, () => new Set<string>());
  for (let count = 0; count < 5_000; count++) {
    for (const [place, character] of [...randomId("")].entries()) seen[place]?.add(character);
  }
  expect(seen.map((characters) => characters.size)).toEqual(Array.from({ length: 22 }, () => 62));
});
