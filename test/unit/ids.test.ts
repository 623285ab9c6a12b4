import { expect, it } from "vitest";
import { randomId } from "../../src/lib/ids.ts";

it("returns the prefix and 22 base62 characters, different each time", () => {
  const ids = Array.from({ length: 10_000 }, () => randomId("crb_"));
  for (const id of ids) expect(id).toMatch(/^crb_[0-9A-Za-z]{22}$/);
  expect(new Set(ids).size).toBe(ids.length);
});

it("uses every base62 character at every position", () => {
  const seen = Array.from({ length: 22 }, () => new Set<string>());
  for (let count = 0; count < 5_000; count++) {
    for (const [place, character] of [...randomId("")].entries()) seen[place]?.add(character);
  }
  expect(seen.map((characters) => characters.size)).toEqual(Array.from({ length: 22 }, () => 62));
});
