import { ITEMS_MAX, PACK_RULES_MAX } from "../api/packs/pack-shapes.ts";
import type { PackOutput } from "../catalog/pack.ts";
import { invalid } from "../errors.ts";
import { type Form, formsOfRows, numberField, textField } from "./form.ts";
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

/** Returns the rules of a pack or an item, without its empty rows. */
function readRules(form: Form): RuleDraft[] {
  const given = formsOfRows(form, "rules")
    .map(({ event = "", model = "" }) => ({ event, model }))
    .filter((rule) => rule.event !== "" || rule.model !== "");
  if (given.length > PACK_RULES_MAX) throw invalid("rules", `must have at most ${PACK_RULES_MAX} rules`);
  return given;
}

/** Reads the draft. Throws `invalid_request` for more items or rules than a pack may have. */
export function readDraft(form: Form): PackDraft {
  const items = formsOfRows(form, "items").flatMap((row) => {
    const { packItemId = "", amount = "", unit = "", priority = "", remove } = row;
    const item = { packItemId, amount, unit, priority, rules: readRules(row) };
    // An empty row is not an item. Without the script, a checkbox removes a row.
    const isGiven = packItemId !== "" || amount !== "" || item.rules.length > 0;
    return isGiven && remove !== "yes" && row.amount !== undefined ? [item] : [];
  });
  if (items.length > ITEMS_MAX) throw invalid("items", `must have at most ${ITEMS_MAX} items`);
  const { packName = "", defaultExpiryDays = "", kind, unit = "", priority = "" } = form;
  return {
    ...{ packName, defaultExpiryDays, items, unit, priority },
    kind: kind === "open-amount" ? "open-amount" : "items",
    rules: readRules(form),
  };
}

const matchesOf = (rules: readonly RuleDraft[]) =>
  rules.map((rule) => ({ event: textField({ ...rule }, "event"), model: textField({ ...rule }, "model") }));

/** Returns the draft as a request body of the API, for the schema to validate. */
export function makeBody(draft: PackDraft): object {
  const common = {
    packName: draft.packName,
    defaultExpiryDays: numberField({ defaultExpiryDays: draft.defaultExpiryDays }, "defaultExpiryDays") ?? null,
  };
  if (draft.kind === "open-amount") {
    const priority = numberField({ priority: draft.priority }, "priority");
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
