import * as z from "zod";
import { toSteps } from "../amounts/amount.ts";
import { matchRule, unit } from "../amounts/schemas.ts";
import { anyNumber, displayName, identifier } from "../http/fields.ts";

const ITEMS_MAX = 100;
const RULES_MAX = 100;
const PRIORITY_MAX = 1_000_000;
const EXPIRY_DAYS_MAX = 36_500;

const packName = displayName().describe("Unique among the application's packs that are not archived, in any case.");
const matches = z.array(matchRule).max(RULES_MAX, `must have at most ${RULES_MAX} rules`);
const priority = z
  .int("must be a whole number")
  .min(-PRIORITY_MAX, `must be at least -${PRIORITY_MAX}`)
  .max(PRIORITY_MAX, `must be at most ${PRIORITY_MAX}`)
  .describe("Lower pays first.");
const defaultExpiryDays = z
  .int("must be a whole number")
  .min(1, "must be at least 1")
  .max(EXPIRY_DAYS_MAX, `must be at most ${EXPIRY_DAYS_MAX}`)
  .nullish()
  .describe("How long balances last unless their grant says otherwise; null: for ever.");

const itemFields = {
  amount: anyNumber.describe("What a grant issues, in the item's unit."),
  unit,
  matches: matches.default([]).describe("What it pays for; none: anything."),
  priority: priority.default(100),
};

/** An amount that the unit holds exactly, and that is worth issuing. */
function checkAmount(item: { amount: number; unit: z.infer<typeof unit> }, context: z.RefinementCtx): void {
  const refuse = (message: string) => context.addIssue({ code: "custom", path: ["amount"], message });
  if (!(item.amount > 0)) refuse("must be positive");
  else if (toSteps(item.unit, item.amount) === null) {
    refuse("has more decimals than its unit, or is larger than it can hold");
  }
}

const newItem = z.strictObject(itemFields).superRefine(checkAmount);
const keptItem = z
  .strictObject({ packItemId: identifier().optional().describe("Keeps this item's identity."), ...itemFields })
  .superRefine(checkAmount);

const listOf = <Item extends z.ZodType>(item: Item) =>
  z.array(item).max(ITEMS_MAX, `must have at most ${ITEMS_MAX} items`);

const legacyFields = {
  unit: unit.optional().describe("Of a pack without items."),
  matches: matches.optional().describe("Of a pack without items."),
  priority: priority.optional().describe("Of a pack without items; 100 unless given."),
};
export const LEGACY_FIELDS = ["unit", "matches", "priority"] as const;

export const createPackInput = z
  .strictObject({ packName, defaultExpiryDays, items: listOf(newItem), ...legacyFields })
  .superRefine((pack, context) => {
    if (pack.items.length === 0 && pack.unit === undefined) {
      context.addIssue({ code: "custom", path: ["unit"], message: "is needed by a pack without items" });
    }
    if (pack.items.length === 0) return;
    for (const field of LEGACY_FIELDS) {
      if (pack[field] === undefined) continue;
      context.addIssue({ code: "custom", path: [field], message: "belongs to the items of a pack that has some" });
    }
  });
export type CreatePackInput = z.infer<typeof createPackInput>;

export const patchPackInput = z.strictObject({
  version: z
    .int("must be a whole number")
    .min(1, "must be at least 1")
    .optional()
    .describe("As the caller read it: if the pack has changed since, nothing is changed."),
  packName: packName.optional(),
  defaultExpiryDays,
  items: listOf(keptItem).optional().describe("The whole new list."),
  ...legacyFields,
});
export type PatchPackInput = z.infer<typeof patchPackInput>;
