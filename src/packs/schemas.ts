import * as z from "zod/mini";
import { about, described } from "#described";
import { amountRule, toSteps } from "../amounts/amount.ts";
import { matchRule, unit } from "../amounts/schemas.ts";
import { anyNumber, displayName, identifier } from "../http/fields.ts";

export const ITEMS_MAX = 100;
export const RULES_MAX = 100;
const PRIORITY_MAX = 1_000_000;
const EXPIRY_DAYS_MAX = 36_500;

const packName = described(
  displayName(),
  about("Unique among the application's packs that are not archived. Letter case does not matter."),
);
const matches = z.array(matchRule).check(z.maxLength(RULES_MAX, `must have at most ${RULES_MAX} rules`));
const priority = described(
  z.int().check(z.minimum(-PRIORITY_MAX), z.maximum(PRIORITY_MAX)),
  about("Lower values are spent first."),
);
const defaultExpiryDays = described(
  z.nullish(z.int().check(z.minimum(1), z.maximum(EXPIRY_DAYS_MAX))),
  about("Days until a granted balance expires, unless the grant says otherwise. Null: never."),
);

const itemFields = {
  amount: described(anyNumber, about("The amount of a grant, in the item's unit.")),
  unit,
  matches: described(z._default(matches, []), about("The events that it pays for. Empty: all events.")),
  priority: z._default(priority, 100),
};

/** The amount must be positive, and exact in its unit. */
function checkAmount(item: { amount: number; unit: z.infer<typeof unit> }, context: z.core.$RefinementCtx): void {
  const refuse = (message: string) => context.addIssue({ code: "custom", path: ["amount"], message });
  if (!(item.amount > 0)) refuse("must be positive");
  else if (toSteps(item.unit, item.amount) === null) refuse(amountRule(item.unit));
}

const newItem = described(
  z.strictObject(itemFields).check(z.superRefine(checkAmount)),
  about({ id: "CreateCreditPackItem" }),
);
const keptItem = described(
  z
    .strictObject({
      packItemId: described(
        z.optional(identifier()),
        about("The id of an existing item, to keep it. Without it the item is new."),
      ),
      ...itemFields,
    })
    .check(z.superRefine(checkAmount)),
  about({ id: "UpdateCreditPackItem" }),
);

const listOf = <Item extends z.ZodMiniType>(item: Item) =>
  z.array(item).check(z.maxLength(ITEMS_MAX, `must have at most ${ITEMS_MAX} items`));

const WITHOUT_ITEMS = "Only for a pack without items.";
const legacyFields = {
  unit: described(z.optional(unit), about(WITHOUT_ITEMS)),
  matches: described(z.optional(matches), about(WITHOUT_ITEMS)),
  priority: described(z.optional(priority), about(`${WITHOUT_ITEMS} Default 100.`)),
};
export const LEGACY_FIELDS = ["unit", "matches", "priority"] as const;

const newPack = z.strictObject({ packName, defaultExpiryDays, items: listOf(newItem), ...legacyFields });
export const createPackInput = described(
  newPack.check(
    z.superRefine((pack, context) => {
      if (pack.items.length === 0 && pack.unit === undefined) {
        context.addIssue({ code: "custom", path: ["unit"], message: "is required for a pack without items" });
      }
      if (pack.items.length === 0) return;
      for (const field of LEGACY_FIELDS) {
        if (pack[field] === undefined) continue;
        context.addIssue({ code: "custom", path: [field], message: "is allowed only for a pack without items" });
      }
    }),
  ),
  about({ id: "CreateCreditPack" }),
);
export type CreatePackInput = z.infer<typeof createPackInput>;

export const patchPackInput = described(
  z.strictObject({
    version: described(
      z.optional(z.int().check(z.minimum(1))),
      about("The version that you read. If the pack was changed after that, the update is refused."),
    ),
    packName: z.optional(packName),
    defaultExpiryDays,
    items: described(z.optional(listOf(keptItem)), about("The whole new list of items.")),
    ...legacyFields,
  }),
  about({ id: "UpdateCreditPack" }),
);
export type PatchPackInput = z.infer<typeof patchPackInput>;
