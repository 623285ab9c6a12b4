import * as z from "zod";
import { amountRule, toSteps } from "../../books/amounts/amount.ts";
import { matchRule, unit } from "../../books/amounts/schemas.ts";
import { anyNumber, displayName, identifier } from "../../http/fields.ts";

export const ITEMS_MAX = 100;
export const RULES_MAX = 100;
const PRIORITY_MAX = 1_000_000;
const EXPIRY_DAYS_MAX = 36_500;

const packName = () =>
  displayName().describe("Unique among the application's packs that are not archived. Letter case does not matter.");
const packMatches = z.lazy(() => z.array(matchRule).max(RULES_MAX, `must have at most ${RULES_MAX} rules`));
const priority = () => z.int().min(-PRIORITY_MAX).max(PRIORITY_MAX).describe("Lower values are spent first.");
const defaultExpiryDays = () =>
  z
    .int()
    .min(1)
    .max(EXPIRY_DAYS_MAX)
    .nullish()
    .describe("Days until a granted balance expires, unless the grant says otherwise. Null: never.");

const itemFields = () => ({
  amount: anyNumber.describe("The amount of a grant, in the item's unit."),
  unit,
  matches: packMatches.default([]).describe("The events that it pays for. Empty: all events."),
  priority: priority().default(100),
});

/** Refuses an amount that is not positive, or not exact in its unit. */
function checkAmount(item: { amount: number; unit: z.infer<typeof unit> }, context: z.core.$RefinementCtx): void {
  const refuse = (message: string) => context.addIssue({ code: "custom", path: ["amount"], message });
  if (!(item.amount > 0)) refuse("must be positive");
  else if (toSteps(item.unit, item.amount) === null) refuse(amountRule(item.unit));
}

const newItem = z.lazy(() =>
  z.strictObject(itemFields()).superRefine(checkAmount).meta({ id: "CreateCreditPackItem" }),
);
const keptItem = z.lazy(() =>
  z
    .strictObject({
      packItemId: identifier()
        .optional()
        .describe("The id of an existing item, to keep it. Without it the item is new."),
      ...itemFields(),
    })
    .superRefine(checkAmount)
    .meta({ id: "UpdateCreditPackItem" }),
);

const itemListOf = <Item extends z.ZodType>(item: Item) =>
  z.array(item).max(ITEMS_MAX, `must have at most ${ITEMS_MAX} items`);

const WITHOUT_ITEMS = "Only for a pack without items.";
const legacyFields = () => ({
  unit: unit.optional().describe(WITHOUT_ITEMS),
  matches: packMatches.optional().describe(WITHOUT_ITEMS),
  priority: priority().optional().describe(`${WITHOUT_ITEMS} Default 100.`),
});
export const LEGACY_FIELDS = ["unit", "matches", "priority"] as const;

const newPack = () =>
  z.strictObject({
    packName: packName(),
    defaultExpiryDays: defaultExpiryDays(),
    items: itemListOf(newItem),
    ...legacyFields(),
  });
export const createPackInput = z.lazy(() =>
  newPack()
    .superRefine((pack, context) => {
      if (pack.items.length === 0 && pack.unit === undefined) {
        context.addIssue({ code: "custom", path: ["unit"], message: "is required for a pack without items" });
      }
      if (pack.items.length === 0) return;
      for (const field of LEGACY_FIELDS) {
        if (pack[field] === undefined) continue;
        context.addIssue({ code: "custom", path: [field], message: "is allowed only for a pack without items" });
      }
    })
    .meta({ id: "CreateCreditPack" }),
);
export type CreatePackInput = z.infer<typeof createPackInput>;

export const patchPackInput = z.lazy(() =>
  z
    .strictObject({
      version: z
        .int()
        .min(1)
        .optional()
        .describe("The version that you read. If the pack was changed after that, the update is refused."),
      packName: packName().optional(),
      defaultExpiryDays: defaultExpiryDays(),
      items: itemListOf(keptItem).optional().describe("The whole new list of items."),
      ...legacyFields(),
    })
    .meta({ id: "UpdateCreditPack" }),
);
export type PatchPackInput = z.infer<typeof patchPackInput>;
