import fc from "fast-check";
import { expect, it } from "vitest";
import { nameKey } from "../../src/catalog/packs/pack.ts";

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
])("compares %s and %s as equal: %s", (a, b, equal) => {
  expect(nameKey(a) === nameKey(b)).toBe(equal);
});

it("is the same for a name and for its key", () => {
  fc.assert(fc.property(fc.string({ unit: "grapheme" }), (name) => nameKey(nameKey(name)) === nameKey(name)));
});
