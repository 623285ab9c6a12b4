import * as z from "zod";
import { endUserSetting } from "../auth/end-user-setting.ts";
import { MODES, SCOPES } from "../auth/scopes.ts";
import { amountRule, toSteps } from "../books/amounts/amount.ts";
import { matchRule, unit } from "../books/amounts/schemas.ts";
import { anyNumber, cursor, displayName, identifier, mode, pageLimit } from "../http/fields.ts";
import type { Scope } from "../runtime.ts";

export const kind = z.lazy(() =>
  z.enum(["secret", "publishable", "relay"]).meta({
    id: "KeyKind",
    description:
      "`secret`: for your backend. `publishable`: for browsers and apps. `relay`: for a service that forwards the events of others, such as " +
      "a reverse proxy or a customer-data platform; it sends analytics and nothing else.",
  }),
);

export const createAppInput = z.lazy(() =>
  z
    .strictObject({
      name: displayName(),
      database: z
        .string()
        .optional()
        .describe(
          "The database that permanently holds the application, such as `DB_1`. Default: the database for new applications.",
        ),
    })
    .meta({ id: "CreateApp" }),
);
export type CreateAppInput = z.infer<typeof createAppInput>;

export const createKeyInput = z.lazy(() =>
  z.strictObject({ kind, mode, name: displayName().optional() }).meta({
    id: "CreateApiKey",
  }),
);
export type CreateKeyInput = z.infer<typeof createKeyInput>;

export const setEndUserAuthInput = z.lazy(() =>
  z
    .strictObject({
      mode,
      setting: endUserSetting
        .meta({ id: "EndUserSetting" })
        .nullable()
        .describe("Null: publishable keys cannot read anything."),
    })
    .meta({ id: "SetEndUserAuth" }),
);
export type SetEndUserAuthInput = z.infer<typeof setEndUserAuthInput>;

export const ITEMS_MAX = 100;
/** The most bytes of a pack's items, or of its rules, as JSON: a batch may carry those of several packs. */
export const PACK_BYTES_MAX = 65_536;
export const PACK_RULES_MAX = 100;
const PRIORITY_MAX = 1_000_000;
const EXPIRY_DAYS_MAX = 36_500;

const packName = () =>
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
  else if (toSteps(item.unit, item.amount) === null) refuse(amountRule(item.unit, item.amount));
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
  z
    .array(item)
    .max(ITEMS_MAX, `must have at most ${ITEMS_MAX} items`)
    .refine(...fitsPack);

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

const APPS_MAX = 100;

export const scope = z.lazy(() =>
  z.enum(Object.keys(SCOPES) as [Scope, ...Scope[]]).meta({
    id: "Scope",
    description: Object.entries(SCOPES)
      .map(([name, meaning]) => `\`${name}\`: ${meaning}`)
      .join(" "),
  }),
);

/** Returns the schema of a list that is not empty and has no value twice. */
const scopeListOf = <Item extends z.ZodType>(item: Item, max: number) =>
  z
    .array(item)
    .min(1, "must not be empty")
    .max(max)
    .transform((values) => [...new Set(values)]);

export const createAdminKeyInput = z.lazy(() =>
  z
    .strictObject({
      name: displayName(),
      scopes: scopeListOf(scope, Object.keys(SCOPES).length).describe(
        "What the key allows. No scope includes another.",
      ),
      apps: scopeListOf(z.string(), APPS_MAX)
        .optional()
        .describe("The ids of its applications. Default: all, also later ones."),
      modes: scopeListOf(mode, MODES.length)
        .optional()
        .describe("Its modes. Default: both. Objects without a mode, such as packs, need both."),
    })
    .meta({ id: "CreateAdminKey" }),
);
export type CreateAdminKeyInput = z.infer<typeof createAdminKeyInput>;

/** A page of the audit entries that belong to no application. */
export const pageInput = z.lazy(() => z.object({ limit: pageLimit("entries"), cursor }));

export const listAuditInput = z.lazy(() =>
  z
    .object({
      limit: pageLimit("entries"),
      cursor,
      userId: identifier().optional().describe("Only actions about this user, of `mode`."),
      mode: mode.optional().describe("With `userId`: the mode that the user is in."),
    })
    .superRefine(({ userId, mode }, context) => {
      if (userId === undefined && mode !== undefined)
        context.addIssue({ code: "custom", path: ["userId"], message: "is required with `mode`" });
      if (userId !== undefined && mode === undefined)
        context.addIssue({ code: "custom", path: ["mode"], message: "is required with `userId`" });
    }),
);
export type ListAuditInput = z.infer<typeof pageInput> & Partial<z.infer<typeof listAuditInput>>;
