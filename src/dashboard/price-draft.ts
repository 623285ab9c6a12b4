import type * as z from "zod";
import { newPriceList } from "../api/prices/price-rules.ts";
import type { CostRule, MeterPrice, PriceRule } from "../books/prices/price.ts";
import { invalid, PurserError } from "../errors.ts";
import { rejectionOfIssues } from "../http/issue-text.ts";
import { type Form, formsOfRows, numberField, textField, timeField } from "./form.ts";

/** A rule of a price list as texts of a form. `place` orders the rows. */
export interface PriceDraft {
  readonly place: string;
  readonly event: string;
  readonly model: string;
  readonly when: string;
  readonly unit: string;
  readonly perEvent: string;
  readonly per: string;
}

/** The two lists of a form. */
const DRAFT_LISTS = ["rules", "costs"] as const;
type DraftList = (typeof DRAFT_LISTS)[number];

/** A price list as a form has it. */
export interface ListDraft extends Readonly<Record<DraftList, readonly PriceDraft[]>> {
  readonly effectiveAt: string;
  readonly note: string;
  /** The newest version when the form was opened. */
  readonly ifVersion: string;
}

const priceText = (price: MeterPrice): string =>
  typeof price === "number" ? `${price}` : `${price.amount} for ${price.units}`;

/** Returns the prices of meters as a person types them: `input 125 for 1000000, output 0.001`. */
export const metersText = (per: Readonly<Record<string, MeterPrice>> = {}): string =>
  Object.entries(per)
    .map(([meter, price]) => `${meter} ${priceText(price)}`)
    .join(", ");

/** Returns a condition as a person types it: `input + cacheRead above 200000`. */
export const conditionText = (when: CostRule["when"]): string =>
  when === undefined ? "" : `${when.meters.join(" + ")} above ${when.above}`;

/** Returns a stored rule as a row of the form. */
const draftOfRule = (rule: CostRule & { readonly unit?: string }, index: number): PriceDraft => ({
  place: `${index + 1}`,
  ...{ event: rule.event ?? "", model: rule.model ?? "", when: conditionText(rule.when), unit: rule.unit ?? "cents" },
  ...{ perEvent: rule.perEvent === undefined ? "" : `${rule.perEvent}`, per: metersText(rule.per) },
});

const isBlank = ({ event, model, when, perEvent, per }: PriceDraft): boolean =>
  [event, model, when, perEvent, per].every((text) => text.trim() === "");

/** Reads the rows of one list in the order of their places. Leaves out blank rows, so that emptying a row removes it. */
function readRuleRows(form: Form, list: DraftList): PriceDraft[] {
  const placeOf = ({ place }: PriceDraft): number => Number(place) || Number.POSITIVE_INFINITY;
  return formsOfRows(form, list)
    .map(
      ({ place = "", event = "", model = "", when = "", unit = "", perEvent = "", per = "" }): PriceDraft => ({
        ...{ place, event, model, when, unit, perEvent, per },
      }),
    )
    .filter((row) => !isBlank(row))
    .sort((a, b) => placeOf(a) - placeOf(b) || 0)
    .map((row, index) => ({ ...row, place: `${index + 1}` }));
}

/** Returns the number of a version or of rows in a form. Undefined for other texts. */
export const givenNumber = (text = ""): number | undefined => (/^\d{1,5}$/.test(text) ? Number(text) : undefined);

/** Reads the form. */
export const readListDraft = (form: Form): ListDraft => ({
  ...{ rules: readRuleRows(form, "rules"), costs: readRuleRows(form, "costs") },
  ...{ effectiveAt: form.effectiveAt ?? "", note: form.note ?? "", ifVersion: form.ifVersion ?? "" },
});

const WHEN = /^\s*(\w+(?:\s*\+\s*\w+)*)\s+above\s+(\S+)\s*$/;
const METER_PRICE = /^\s*(\w+)[\s:=]+(\S+?)(?:\s*(?:\/|\bfor\b|\bper\b)\s*(\S+))?\s*$/;

function readWhen(text: string, param: string): object {
  const [, meters, above = ""] = WHEN.exec(text) ?? [];
  if (meters === undefined)
    throw invalid(param, "must be meters and a number, such as `input + cacheRead above 200000`");
  return { meters: meters.split("+").map((name) => name.trim()), above: numberField({ above }, "above", param) };
}

function readMeterPrices(text: string, param: string): object {
  const parts = text.split(/,\s+|[;\n]+/).filter((part) => part.trim() !== "");
  const prices = parts.map((part) => {
    const [, name, amount = "", units] = METER_PRICE.exec(part) ?? [];
    if (name === undefined)
      throw invalid(param, "must be names and prices, such as `input 125 for 1000000, output 0.001`");
    const price = numberField({ amount }, "amount", param);
    return [name, units === undefined ? price : { amount: price, units: numberField({ units }, "units", param) }];
  });
  const names = prices.map(([name]) => name);
  if (new Set(names).size < names.length) throw invalid(param, "must name each meter once");
  return Object.fromEntries(prices);
}

/** Returns a row as the API's rule. */
function readRule(row: PriceDraft, list: DraftList, index: number): object {
  const at = `${list}[${index}]`;
  const text = (name: "event" | "model") => textField({ ...row }, name);
  return {
    ...{ event: text("event"), model: text("model") },
    ...(row.when.trim() === "" ? {} : { when: readWhen(row.when, `${at}.when`) }),
    ...(list === "rules" ? { unit: row.unit } : {}),
    perEvent: numberField({ ...row }, "perEvent", `${at}.perEvent`),
    ...(row.per.trim() === "" ? {} : { per: readMeterPrices(row.per, `${at}.per`) }),
  };
}

export type NewList = z.output<ReturnType<typeof newPriceList.unwrap>>;

/** The list that a form asks for, or why it cannot be made: a rejection for each row that has one. */
export type CheckedDraft =
  | { readonly list: NewList; readonly rejections?: undefined }
  | { readonly list?: undefined; readonly rejections: readonly PurserError[] };

/** Checks a draft by the API's own schema. */
export function checkDraft(draft: ListDraft, mode: "live" | "test"): CheckedDraft {
  const rejections: PurserError[] = [];
  const tried = <T>(work: () => T): T | undefined => {
    try {
      return work();
    } catch (error) {
      if (!(error instanceof PurserError)) throw error;
      rejections.push(error);
      return undefined;
    }
  };
  const listOf = (list: DraftList) => draft[list].map((row, index) => tried(() => readRule(row, list, index)));
  const body = {
    ...{ mode, rules: listOf("rules"), costs: listOf("costs") },
    effectiveAt: timeField({ effectiveAt: draft.effectiveAt }, "effectiveAt"),
    note: draft.note === "" ? null : draft.note,
    ifVersion: Number(draft.ifVersion || 0),
  };
  const result = newPriceList.unwrap().safeParse(body);
  if (result.success) return { list: result.data };
  const unread = new Set(rejections.map(({ param = "" }) => rowOf(param)));
  const found = result.error.issues.map((issue) => rejectionOfIssues([issue], "form"));
  return { rejections: [...rejections, ...found.filter(({ param = "" }) => !unread.has(rowOf(param)))] };
}

/** Returns the row that an argument belongs to: `rules[3]` for `rules[3].per.input`. */
const rowOf = (param: string): string => /^\w+\[\d+\]/.exec(param)?.[0] ?? param;

/** Returns the stored rules of a version as the rows of a form. */
export const draftOfList = (
  list: { readonly rules: readonly PriceRule[]; readonly costs: readonly CostRule[] },
  rest: Omit<ListDraft, DraftList>,
): ListDraft => ({ rules: list.rules.map(draftOfRule), costs: list.costs.map(draftOfRule), ...rest });
