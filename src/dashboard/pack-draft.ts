import { ITEMS_MAX, PACK_RULES_MAX } from "../api/packs/pack-shapes.ts";
import type { PackOutput } from "../catalog/pack.ts";
import { invalid } from "../errors.ts";
import { type Form, numberField, textField } from "./form.ts";
import { amountText } from "./format.tsx";

/** A pack as the texts typed into the form, valid or not. */
export interface PackDraft {
  readonly packName: string;
  readonly defaultExpiryDays: string;
  readonly kind: "items" | "open-amount";
  readonly items: readonly ItemDraft[];
  readonly unit: string;
  readonly priority: string;
  readonly rules: readonly RuleDraft[];
}

export interface ItemDraft {
  readonly packItemId: string;
  readonly amount: string;
  readonly unit: string;
  readonly priority: string;
  readonly rules: readonly RuleDraft[];
}

export interface RuleDraft {
  readonly event: string;
  readonly model: string;
}

export const blankItem: ItemDraft = { packItemId: "", amount: "", unit: "tokens", priority: "", rules: [] };
export const blankPack: PackDraft = {
  packName: "",
  defaultExpiryDays: "",
  kind: "items",
  items: [blankItem],
  unit: "tokens",
  priority: "",
  rules: [],
};

const asText = (value: number | null): string => (value === null ? "" : String(value));
const asRules = (rules: readonly { event?: string | undefined; model?: string | undefined }[]): RuleDraft[] =>
  rules.map((rule) => ({ event: rule.event ?? "", model: rule.model ?? "" }));

export function makeDraft(pack: PackOutput): PackDraft {
  return {
    packName: pack.packName,
    defaultExpiryDays: asText(pack.defaultExpiryDays),
    kind: pack.items.length > 0 ? "items" : "open-amount",
    items: pack.items.map((item) => ({
      packItemId: item.packItemId,
      amount: amountText(item.amount),
      unit: item.unit,
      priority: asText(item.priority),
      rules: asRules(item.matches),
    })),
    unit: pack.unit ?? "tokens",
    priority: asText(pack.priority),
    rules: asRules(pack.matches ?? []),
  };
}

/** `items.{n}.{field}`, `items.{n}.rules.{n}.{field}` or `rules.{n}.{field}`. */
const FIELD = /^(?:items\.(\d{1,6})\.)?(?:(rules)\.(\d{1,6})\.)?([A-Za-z]+)$/;

interface Row {
  readonly fields: Map<string, string>;
  readonly rules: Map<number, Map<string, string>>;
}

/** Returns the rows of the form by their numbers: one for each item, and one for the pack, whose number is null. */
function readRows(form: Form): ReadonlyMap<number | null, Row> {
  const rows = new Map<number | null, Row>();
  for (const [name, text] of Object.entries(form)) {
    const [, item, rules, rule, field = ""] = FIELD.exec(name) ?? [];
    const index = item === undefined ? null : Number(item);
    const row: Row = rows.get(index) ?? { fields: new Map(), rules: new Map() };
    rows.set(index, row);
    if (rules === undefined) row.fields.set(field, text);
    else row.rules.set(Number(rule), (row.rules.get(Number(rule)) ?? new Map()).set(field, text));
  }
  return rows;
}

/** Returns entries in the order of their numbers. Removed rows leave gaps. */
const inOrder = <Entry>(rows: ReadonlyMap<number, Entry>): Entry[] =>
  [...rows].sort(([a], [b]) => a - b).map(([, entry]) => entry);

/** Returns the rules of one list, without its empty rows. */
function readRules(row: Row | undefined): RuleDraft[] {
  const rules = row === undefined ? [] : inOrder(row.rules);
  const given = rules
    .map((fields) => ({ event: fields.get("event") ?? "", model: fields.get("model") ?? "" }))
    .filter((rule) => rule.event !== "" || rule.model !== "");
  if (given.length > PACK_RULES_MAX) throw invalid("rules", `must have at most ${PACK_RULES_MAX} rules`);
  return given;
}

/** Reads the draft. Throws `invalid_request` for more items or rules than a pack may have. */
export function readDraft(form: Form): PackDraft {
  const rows = readRows(form);
  const itemRows = new Map([...rows].flatMap(([index, row]) => (index === null ? [] : [[index, row] as const])));
  const items = inOrder(itemRows).flatMap((row) => {
    const field = (name: string) => row.fields.get(name) ?? "";
    const item = {
      packItemId: field("packItemId"),
      amount: field("amount"),
      unit: field("unit"),
      priority: field("priority"),
      rules: readRules(row),
    };
    // An empty row is not an item. Without the script, a checkbox removes a row.
    return row.fields.has("amount") &&
      field("remove") !== "yes" &&
      (item.packItemId !== "" || item.amount !== "" || item.rules.length > 0)
      ? [item]
      : [];
  });
  if (items.length > ITEMS_MAX) throw invalid("items", `must have at most ${ITEMS_MAX} items`);
  return {
    packName: form.packName ?? "",
    defaultExpiryDays: form.defaultExpiryDays ?? "",
    kind: form.kind === "open-amount" ? "open-amount" : "items",
    items,
    unit: form.unit ?? "",
    priority: form.priority ?? "",
    rules: readRules(rows.get(null)),
  };
}

const matchesOf = (rules: readonly RuleDraft[]) =>
  rules.map((rule) => ({ event: textField({ ...rule }, "event"), model: textField({ ...rule }, "model") }));

/** Returns the draft as a request body of the API, for the schema to validate. */
export function makeBody(draft: PackDraft): object {
  const common = {
    packName: draft.packName,
    defaultExpiryDays: numberField({ ...draft, items: "", rules: "" }, "defaultExpiryDays") ?? null,
  };
  if (draft.kind === "open-amount") {
    const priority = numberField({ ...draft, items: "", rules: "" }, "priority");
    return { ...common, items: [], unit: draft.unit, matches: matchesOf(draft.rules), priority: priority ?? 100 };
  }
  if (draft.items.length === 0) {
    throw invalid("items[0].amount", "An item needs an amount. For a pack without items choose “Variable amount”.");
  }
  return {
    ...common,
    items: draft.items.map((item, index) => ({
      ...(item.packItemId === "" ? {} : { packItemId: item.packItemId }),
      amount: numberField({ amount: item.amount }, "amount", `items[${index}].amount`),
      unit: item.unit,
      priority: numberField({ priority: item.priority }, "priority", `items[${index}].priority`) ?? 100,
      matches: matchesOf(item.rules),
    })),
  };
}

/** Returns every list of rules in the draft, with the name of its part of the form. */
export function ruleLists(draft: PackDraft): { name: string; rules: ReturnType<typeof matchesOf> }[] {
  if (draft.kind === "open-amount") return [{ name: "The pack", rules: matchesOf(draft.rules) }];
  return draft.items.map((item, index) => ({
    name: `Item ${index + 1}, ${item.amount || "?"} ${item.unit}`,
    rules: matchesOf(item.rules),
  }));
}
