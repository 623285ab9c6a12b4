import type { PackOutput } from "../packs/responses.ts";
import { type Form, numberField, textField } from "./form.ts";

/** A pack as texts, as they were typed into the form, valid or not. */
export interface PackDraft {
  readonly packName: string;
  readonly defaultExpiryDays: string;
  readonly kind: "items" | "legacy";
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

export function draftOf(pack: PackOutput): PackDraft {
  return {
    packName: pack.packName,
    defaultExpiryDays: asText(pack.defaultExpiryDays),
    kind: pack.items.length > 0 ? "items" : "legacy",
    items: pack.items.map((item) => ({
      packItemId: item.packItemId,
      amount: asText(item.amount),
      unit: item.unit,
      priority: asText(item.priority),
      rules: asRules(item.matches),
    })),
    unit: pack.unit ?? "tokens",
    priority: asText(pack.priority),
    rules: asRules(pack.matches ?? []),
  };
}

/** The numbers at `{n}` in names such as `items.{n}.amount`, in order. Removed rows leave gaps. */
function indices(form: Form, pattern: RegExp): number[] {
  const found = Object.keys(form).map((name) => pattern.exec(name)?.[1]);
  return [...new Set(found.filter((text) => text !== undefined).map(Number))].sort((a, b) => a - b);
}

/** The rules of one list, without its empty rows. */
function readRules(form: Form, prefix: string): RuleDraft[] {
  const pattern = new RegExp(`^${prefix.replaceAll(".", "\\.")}rules\\.(\\d+)\\.(?:event|model)$`);
  return indices(form, pattern)
    .map((index) => ({
      event: form[`${prefix}rules.${index}.event`] ?? "",
      model: form[`${prefix}rules.${index}.model`] ?? "",
    }))
    .filter((rule) => rule.event !== "" || rule.model !== "");
}

export function readDraft(form: Form): PackDraft {
  const items = indices(form, /^items\.(\d+)\.amount$/).map((index) => {
    const field = (name: string) => form[`items.${index}.${name}`] ?? "";
    return {
      packItemId: field("packItemId"),
      amount: field("amount"),
      unit: field("unit"),
      priority: field("priority"),
      rules: readRules(form, `items.${index}.`),
    };
  });
  return {
    packName: form.packName ?? "",
    defaultExpiryDays: form.defaultExpiryDays ?? "",
    kind: form.kind === "legacy" ? "legacy" : "items",
    // An empty row is not an item.
    items: items.filter((item) => item.packItemId !== "" || item.amount !== "" || item.rules.length > 0),
    unit: form.unit ?? "",
    priority: form.priority ?? "",
    rules: readRules(form, ""),
  };
}

const matchesOf = (rules: readonly RuleDraft[]) =>
  rules.map((rule) => ({ event: textField({ ...rule }, "event"), model: textField({ ...rule }, "model") }));

/** The draft as a request body of the API, for the schema to validate. */
export function bodyOf(draft: PackDraft): unknown {
  const common = {
    packName: draft.packName,
    defaultExpiryDays: numberField({ days: draft.defaultExpiryDays }, "days") ?? null,
  };
  if (draft.kind === "legacy") {
    const priority = numberField({ ...draft, items: "", rules: "" }, "priority");
    return { ...common, items: [], unit: draft.unit, matches: matchesOf(draft.rules), priority: priority ?? 100 };
  }
  return {
    ...common,
    items: draft.items.map((item) => ({
      ...(item.packItemId === "" ? {} : { packItemId: item.packItemId }),
      amount: numberField({ amount: item.amount }, "amount") ?? Number.NaN,
      unit: item.unit,
      priority: numberField({ priority: item.priority }, "priority") ?? 100,
      matches: matchesOf(item.rules),
    })),
  };
}

/** Every list of rules in the draft, with the name of its part of the form. */
export function ruleLists(draft: PackDraft): { name: string; rules: ReturnType<typeof matchesOf> }[] {
  if (draft.kind === "legacy") return [{ name: "The pack", rules: matchesOf(draft.rules) }];
  return draft.items.map((item, index) => ({
    name: `Item ${index + 1}, ${item.amount || "?"} ${item.unit}`,
    rules: matchesOf(item.rules),
  }));
}
