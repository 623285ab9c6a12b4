import fc from "fast-check";
import { expect, it } from "vitest";
import { byCodePoints } from "../../src/lib/code-points.ts";

it("compares texts by their code points, as the bytes of UTF-8 compare", () => {
  const text = fc.string({ unit: fc.constantFrom("a", "b", "é", "\ud7ff", "\ue000", "ｚ", "😀", "😁", "\u{10ffff}") });
  fc.assert(
    fc.property(text, text, (a, b) => Math.sign(byCodePoints(a, b)) === Buffer.compare(Buffer.from(a), Buffer.from(b))),
  );
  expect(["😀", "ｚa", "ｚ", ""].toSorted(byCodePoints)).toEqual(["", "ｚ", "ｚa", "😀"]);
});
