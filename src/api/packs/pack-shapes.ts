import * as z from "zod";
import { amountRule, toMinor } from "../../books/amounts/amount.ts";
import { matchRule, unit } from "../../books/amounts/amount-fields.ts";
import { PACK_BYTES_MAX } from "../../catalog/pack.ts";
import { anyNumber, displayName } from "../../http/fields.ts";
import { IS_REQUIRED } from "../../http/issue-text.ts";
import { lazy } from "../../http/lazy.ts";
import { time } from "../../http/output-fields.ts";
import { words } from "../../lib/words.ts";
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

export const packParams = lazy(() =>
  z.object({ appId, packId: z.string().meta(words("The id of the pack, `cpk_…`.", "cpk_1mVt9sD4gE6uXa8oPzJ2Rq")) }),
);

export const pack = lazy(() =>
  z
    .strictObject({
      packId: z.string().meta(words("The pack's id.", "cpk_1mVt9sD4gE6uXa8oPzJ2Rq")),
      packName: z.string().meta(words("The pack's name.", "Starter")),
      defaultExpiryDays: z.number().nullable().meta(words("Days until a granted balance expires. Null: never.", 365)),
      items: z
        .array(
          z
            .strictObject({
              packItemId: z
                .string()
                .meta(words("The id of the pack's item. Null for a pack without items.", "cpi_7hWk3yB5nC0eUi9fMvS4Lx")),
              amount: z.number().meta(words("The amount, in the unit.", 400)),
              unit,
              matches: z.array(matchRule).meta(words("The events that it pays for or counts. Empty: all events.")),
              priority: z.number().meta(words("Lower values are spent first.", 50)),
            })
            .meta({ id: "CreditPackItem" }),
        )
        .meta(words("The pack's items. Empty for a pack without items.")),
      unit: z.nullable(unit).meta(words("Null for a pack with items, as are `matches` and `priority`.", "tokens")),
      matches: z.array(matchRule).nullable().meta(words("The events that it pays for or counts. Empty: all events.")),
      priority: z.number().nullable().meta(words("Lower values are spent first.", 100)),
      createdAt: time.meta(words("When it was created.", "2026-01-15T12:00:00.000Z")),
      archivedAt: time
        .nullable()
        .meta(words("When it was archived. Null if it is not archived.", "2026-02-01T09:00:00.000Z")),
      version: z.int().meta(words("Grows by one with each change, archiving and restoring.", 1)),
    })
    .meta({ id: "CreditPack" }),
);

export const ITEMS_MAX = 100;

export const PACK_RULES_MAX = 100;

const PRIORITY_MAX = 1_000_000;

const EXPIRY_DAYS_MAX = 36_500;

export const packName = () =>
  displayName().meta(
    words("Unique among the application's packs that are not archived. Letter case does not matter.", "Starter"),
  );

/** Rejects items or rules whose JSON is too long, because the cron reads the packs of many users at once. */
const fitsPack = [
  (value: unknown) => new TextEncoder().encode(JSON.stringify(value)).length <= PACK_BYTES_MAX,
  `must have at most ${PACK_BYTES_MAX} bytes as JSON: use fewer or shorter match rules, such as a glob instead of a list of names`,
] as const;

const packMatches = lazy(() =>
  z
    .array(matchRule)
    .max(PACK_RULES_MAX, `must have at most ${PACK_RULES_MAX} rules`)
    .refine(...fitsPack),
);

const priority = () => z.int().min(-PRIORITY_MAX).max(PRIORITY_MAX).meta(words("Lower values are spent first.", 50));

export const defaultExpiryDays = () =>
  z
    .int()
    .min(1)
    .max(EXPIRY_DAYS_MAX)
    .nullish()
    .meta(words("Days until a granted balance expires, unless the grant says otherwise. Null: never.", 365));

export const itemFields = () => ({
  amount: anyNumber.meta(words("The amount of a grant, in the item's unit.", 400)),
  unit,
  matches: packMatches.default([]).meta(words("The events that it pays for. Empty: all events.")),
  priority: priority().default(100),
});

/** Rejects an amount that is not positive, or not exact in its unit. */
export function checkAmount(
  item: { amount: number; unit: z.infer<typeof unit> },
  context: z.core.$RefinementCtx,
): void {
  const reject = (message: string) => context.addIssue({ code: "custom", path: ["amount"], message });
  if (!(item.amount > 0)) reject("must be positive");
  else if (toMinor(item.unit, item.amount) === null) reject(amountRule(item.unit, item.amount));
}

export const itemListOf = <Item extends z.ZodType>(item: Item) =>
  z
    .array(item, {
      error: ({ input }) => (input === undefined ? `${IS_REQUIRED}: \`[]\` for a pack without items` : undefined),
    })
    .max(ITEMS_MAX, `must have at most ${ITEMS_MAX} items`)
    .refine(...fitsPack);

const WITHOUT_ITEMS = "Only for a pack without items.";

export const openAmountFields = () => ({
  unit: unit.optional().meta(words(WITHOUT_ITEMS, "tokens")),
  matches: packMatches.optional().meta(words(WITHOUT_ITEMS)),
  priority: priority()
    .optional()
    .meta(words(`${WITHOUT_ITEMS} Default 100.`, 100)),
});
