import { expect, it } from "vitest";
import { testRules } from "../../src/catalog/insert-pack.ts";
import { makeBody, readDraft, ruleLists } from "../../src/dashboard/pack-draft.ts";

/** The form of a pack with this number of items, and this number of rules for each. */
function formOf(items: number, rules: number): Record<string, string> {
  const form: Record<string, string> = { packName: "Pack", kind: "items", "try.event": "chat" };
  for (let item = 0; item < items; item++) {
    // The numbers have gaps and count down.
    const prefix = `items.${3 * (items - item)}.`;
    form[`${prefix}amount`] = `${items - item}`;
    form[`${prefix}unit`] = "tokens";
    for (let rule = 0; rule < rules; rule++) form[`${prefix}rules.${2 * rule}.event`] = `e${rule}`;
  }
  return form;
}

it("the form of a pack is read in the order of its numbers, without its empty rows", () => {
  const form = {
    ...formOf(3, 2),
    "items.5.amount": "",
    "items.5.unit": "tokens",
    "rules.0.event": "",
    "rules.1.model": "m",
  };
  const draft = readDraft(form);
  expect(draft.items.map((item) => item.amount)).toEqual(["1", "2", "3"]);
  expect(draft.items[0]?.rules.map((rule) => rule.event)).toEqual(["e0", "e1"]);
  expect(readDraft({ ...form, kind: "open-amount", unit: "cents" })).toMatchObject({
    kind: "open-amount",
    rules: [{ event: "", model: "m" }],
  });
  expect(makeBody(draft)).toMatchObject({ packName: "Pack", items: [{ amount: 1 }, { amount: 2 }, { amount: 3 }] });
});

it("the form of a pack of the largest pack is read, and all its rules are tested", () => {
  const form = formOf(100, 100);
  const lists = ruleLists(readDraft(form));
  const verdicts = lists.map(({ rules }) => testRules(rules, "a.".repeat(100), undefined));
  expect(verdicts).toHaveLength(100);
  expect(lists.at(-1)?.rules).toHaveLength(100);
});

it.each([
  ["101 items", formOf(101, 1), "items"],
  ["101 rules", formOf(1, 101), "rules"],
  ["8,000 items", formOf(8_000, 1), "items"],
])("the form of a pack with %s is refused", (_, form, param) => {
  expect(() => readDraft(form)).toThrow(expect.objectContaining({ code: "invalid_request", param }));
});
