import fc from "fast-check";
import { expect, it } from "vitest";
import { compareLists } from "../../src/books/prices/compare-lists.ts";
import type { PriceRule } from "../../src/books/prices/price.ts";

const flat = (model: string, perEvent: number): PriceRule => ({ model, unit: "cents", perEvent });
const kindsOf = (before: readonly PriceRule[], after: readonly PriceRule[]) =>
  compareLists(before, after).map(({ kind, rule, before, after }) => [kind, rule.model, before, after]);

it("compareLists names added, removed and changed rules, with the prices that differ", () => {
  const chat: PriceRule = {
    model: "a",
    unit: "cents",
    perEvent: 1,
    per: { input: 1, output: { amount: 2, units: 3 } },
  };
  const dearer: PriceRule = { ...chat, per: { input: 1, output: { amount: 4, units: 3 }, images: 5 } };
  expect(compareLists([chat, flat("b", 1)], [dearer, flat("c", 1)])).toEqual([
    {
      ...{ kind: "changed", rule: dearer, before: 0, after: 0 },
      prices: [
        { name: "output", before: { amount: 2, units: 3 }, after: { amount: 4, units: 3 } },
        { name: "images", before: null, after: 5 },
      ],
    },
    { kind: "added", rule: flat("c", 1), before: null, after: 1, prices: [] },
    { kind: "removed", rule: flat("b", 1), before: 1, after: null, prices: [] },
  ]);
});

it("compareLists finds a changed price of an event, and one that is gone", () => {
  const [change] = compareLists([{ unit: "cents", perEvent: 1, per: { a: 1 } }], [{ unit: "cents", per: { a: 1 } }]);
  expect(change).toMatchObject({ kind: "changed", prices: [{ name: null, before: 1, after: null }] });
});

it("compareLists calls a rule of another event, model, condition or unit another rule", () => {
  const before: PriceRule = { event: "e", model: "m", unit: "cents", perEvent: 1 };
  const others: PriceRule[] = [
    { ...before, event: "f" },
    { ...before, model: "n" },
    { ...before, unit: "tokens" },
    { ...before, when: { meters: ["a"], above: 1 } },
  ];
  for (const after of others) {
    expect(compareLists([before], [after]).map(({ kind }) => kind)).toEqual(["added", "removed"]);
  }
});

it("compareLists says which rules moved, and does not call those moved that only have others before them", () => {
  const [a, b, c, d] = [flat("a", 1), flat("b", 1), flat("c", 1), flat("d", 1)] as const;
  expect(kindsOf([a, b, c], [b, c])).toEqual([["removed", "a", 0, null]]);
  expect(kindsOf([a, b, c], [d, a, b, c])).toEqual([["added", "d", null, 0]]);
  expect(kindsOf([a, b, c, d], [d, a, b, c])).toEqual([["moved", "d", 3, 0]]);
  expect(kindsOf([a, b], [b, a])).toEqual([["moved", "b", 1, 0]]);
});

it("compareLists compares equal rules in their order, and finds nothing in equal lists", () => {
  const [one, two] = [flat("a", 1), flat("a", 2)];
  expect(compareLists([one, two], [one, two])).toEqual([]);
  expect(kindsOf([one, two], [one])).toEqual([["removed", "a", 1, null]]);
});

it("compareLists makes the new list of the old one, for random lists", () => {
  const rule = fc.record({
    ...{ model: fc.constantFrom("a", "b", "c", "d"), unit: fc.constantFrom("cents" as const, "count" as const) },
    perEvent: fc.integer({ min: 0, max: 3 }),
  });
  const lists = fc.array(rule, { maxLength: 8 });
  fc.assert(
    fc.property(lists, lists, (before, after) => {
      const changes = compareLists(before, after);
      const gone = new Set(changes.flatMap(({ before, kind }) => (kind === "changed" ? [] : (before ?? []))));
      const made = new Map(changes.flatMap(({ after, rule }) => (after === null ? [] : [[after, rule] as const])));
      // The rules that were kept fill the places that no change names.
      const changed = new Set(changes.flatMap(({ before }) => before ?? []));
      const kept = before.filter((_, place) => !changed.has(place));
      const again = Array.from({ length: after.length }, (_, place) => made.get(place) ?? kept.shift());
      expect(again).toEqual(after);
      expect(kept).toEqual([]);
      expect(gone.size).toBeLessThanOrEqual(before.length);
    }),
  );
});
