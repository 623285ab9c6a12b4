import fc from "fast-check";
import { expect, it } from "vitest";
import { nameKey } from "../../src/catalog/pack.ts";

it.each([
  ["Starter", "STARTER", true],
  ["Ärger", "äRGER", true],
  ["A\u0308rger", "ärger", true],
  ["Ｇｏｌｄ", "gold", true],
  ["ﬁne", "FINE", true],
  ["Pro²", "pro2", true],
  ["STRASSE", "straße", false],
  ["Gold", "Gold ", false],
  ["Gold", "Göld", false],
])("treats %s and %s as the same pack name: %s", (a, b, equal) => {
  expect(nameKey(a) === nameKey(b)).toBe(equal);
});

it("returns the key of a name unchanged", () => {
  fc.assert(fc.property(fc.string({ unit: "grapheme" }), (name) => nameKey(nameKey(name)) === nameKey(name)));
});
