import * as z from "zod";
import { amountRule, toSteps } from "../../books/amounts/amount.ts";
import { matchRule, unit } from "../../books/amounts/amount-fields.ts";
import { PACK_BYTES_MAX } from "../../catalog/pack.ts";
import { anyNumber, displayName } from "../../http/fields.ts";
import { time } from "../../http/output-fields.ts";
import { appId, EXAMPLE } from "../common.ts";

export const newPackItem = { amount: 400, unit: "tokens", matches: [{ event: "chat.*" }], priority: 50 };

export const packItem = { packItemId: EXAMPLE.packItemId, ...newPackItem };

export const examplePack = {
  packId: EXAMPLE.packId,
  packName: "Starter",
  defaultExpiryDays: 365,
  items: [packItem],
  unit: null,
  matches: null,
  priority: null,
  createdAt: EXAMPLE.createdAt,
  archivedAt: null,
  version: 1,
};

export const packParams = z.lazy(() =>
  z.object({ appId, packId: z.string().describe("The id of the pack, `cpk_…`.") }),
);

export const pack = z.lazy(() =>
  z
    .strictObject({
      packId: z.string(),
      packName: z.string(),
      defaultExpiryDays: z.number().nullable(),
      items: z.array(
        z
          .strictObject({
            packItemId: z.string(),
            amount: z.number(),
            unit,
            matches: z.array(matchRule),
            priority: z.number(),
          })
          .meta({ id: "CreditPackItem" }),
      ),
      unit: z.nullable(unit).describe("Null for a pack with items, as are `matches` and `priority`."),
      matches: z.array(matchRule).nullable(),
      priority: z.number().nullable(),
      createdAt: time,
      archivedAt: time.nullable(),
      version: z.int().describe("Grows by one with each change, archiving and restoring."),
    })
    .meta({ id: "CreditPack" }),
);

export const ITEMS_MAX = 100;

export const PACK_RULES_MAX = 100;

const PRIORITY_MAX = 1_000_000;

const EXPIRY_DAYS_MAX = 36_500;

export const packName = () =>
  displayName().describe("Unique among the application's packs that are not archived. Letter case does not matter.");

/** Refuses items or rules whose JSON is too long, because the cron reads the packs of many users at once. */
const fitsPack = [
  (value: unknown) => new TextEncoder().encode(JSON.stringify(value)).length <= PACK_BYTES_MAX,
  `must have at most ${PACK_BYTES_MAX} bytes as JSON: use fewer or shorter match rules, such as a glob instead of a list of names`,
] as const;

const packMatches = z.lazy(() =>
  z
    .array(matchRule)
    .max(PACK_RULES_MAX, `must have at most ${PACK_RULES_MAX} rules`)
    .refine(...fitsPack),
);

const priority = () => z.int().min(-PRIORITY_MAX).max(PRIORITY_MAX).describe("Lower values are spent first.");

export const defaultExpiryDays = () =>
  z
    .int()
    .min(1)
    .max(EXPIRY_DAYS_MAX)
    .nullish()
    .describe("Days until a granted balance expires, unless the grant says otherwise. Null: never.");

export const itemFields = () => ({
  amount: anyNumber.describe("The amount of a grant, in the item's unit."),
  unit,
  matches: packMatches.default([]).describe("The events that it pays for. Empty: all events."),
  priority: priority().default(100),
});

/** Refuses an amount that is not positive, or not exact in its unit. */
export function checkAmount(
  item: { amount: number; unit: z.infer<typeof unit> },
  context: z.core.$RefinementCtx,
): void {
  const refuse = (message: string) => context.addIssue({ code: "custom", path: ["amount"], message });
  if (!(item.amount > 0)) refuse("must be positive");
  else if (toSteps(item.unit, item.amount) === null) refuse(amountRule(item.unit, item.amount));
}

export const itemListOf = <Item extends z.ZodType>(item: Item) =>
  z
    .array(item)
    .max(ITEMS_MAX, `must have at most ${ITEMS_MAX} items`)
    .refine(...fitsPack);

const WITHOUT_ITEMS = "Only for a pack without items.";

export const legacyFields = () => ({
  unit: unit.optional().describe(WITHOUT_ITEMS),
  matches: packMatches.optional().describe(WITHOUT_ITEMS),
  priority: priority().optional().describe(`${WITHOUT_ITEMS} Default 100.`),
});
