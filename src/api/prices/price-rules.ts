import * as z from "zod";
import { priceAmount } from "../../books/amounts/amount.ts";
import { meterName, unit } from "../../books/amounts/amount-fields.ts";
import type { CostRule, MeterPrice } from "../../books/prices/price.ts";
import { freeText, identifier, mode, queryInteger, timestamp } from "../../http/fields.ts";
import { lazy } from "../../http/lazy.ts";
import { words } from "../../lib/words.ts";
import { appId, EXAMPLE } from "../common.ts";

const AMOUNT_RULE = "must be 0 or more, with at most 12 decimals and 15 significant digits";
const ruleAmount = () =>
  z
    .number()
    .refine((number) => priceAmount(number) !== null, AMOUNT_RULE)
    .meta({ minimum: 0 });

const priceOfUnits = lazy(() =>
  z
    .strictObject({
      amount: ruleAmount().meta(words("The price of `units` of the meter, in the rule's unit.", 15)),
      units: z.int().min(1).meta(words("How many of the meter cost `amount`.", 1_000_000)),
    })
    .meta({ id: "PriceOfUnits" }),
);

const meterPrice = () =>
  z.union([ruleAmount(), priceOfUnits], {
    error: ({ input }) => (typeof input === "number" ? AMOUNT_RULE : "must be an amount, or `{ amount, units }`"),
  });

const priceCondition = lazy(() =>
  z
    .strictObject({
      meters: z
        .array(meterName())
        .min(1)
        .refine((names) => new Set(names).size === names.length, "must name each meter once")
        .meta(words("The meters whose sum is compared.", ["input", "cacheRead"])),
      above: z.number().min(0).meta(words("The rule applies where the sum is above this number.", 200_000)),
    })
    .meta({ id: "PriceCondition" }),
);

const conditionsAndPrices = () => ({
  event: identifier().optional().meta(words("The event. `*` matches any characters. Absent: every event.", "chat.*")),
  model: identifier()
    .optional()
    .meta(words("The model. `*` matches any characters. Absent: every model, and events without one.", "gpt-5-20*")),
  when: priceCondition.optional().meta(words("Restricts the rule to events whose meters come to more than a number.")),
  perEvent: ruleAmount().optional().meta(words("Added once an event. Without `per`, the rule takes any meters.", 0.5)),
  per: z
    .record(meterName(), meterPrice())
    .refine((prices) => Object.keys(prices).length > 0, "must name at least one meter")
    .optional()
    .meta(
      words("What each meter costs: an amount each, or `{ amount, units }`.", {
        input: { amount: 125, units: 1_000_000 },
        output: { amount: 1_000, units: 1_000_000 },
      }),
    ),
});

const hasPrice = ({
  perEvent,
  per,
}: {
  perEvent?: number | undefined;
  per?: Readonly<Record<string, MeterPrice>> | undefined;
}) => perEvent !== undefined || per !== undefined;
const PRICE_RULE = "must have `perEvent`, `per` or both";

const priceRule = lazy(() =>
  z
    .strictObject({
      ...conditionsAndPrices(),
      unit: unit.meta(words("The unit of its amounts.", "cents")),
    })
    .refine(hasPrice, PRICE_RULE)
    .meta({ id: "PriceRule" }),
);
const costRule = lazy(() =>
  z.strictObject(conditionsAndPrices()).refine(hasPrice, PRICE_RULE).meta({ id: "CostRule" }),
);

const PRICE_RULES_MAX = 2_000;
/** Of rules and costs together, as JSON. */
const BYTES_MAX = 512 * 1024;

const ofRules = <Rule extends z.ZodType>(rule: Rule) => z.array(rule).max(PRICE_RULES_MAX);

const priceRules = lazy(() => ofRules(priceRule));
const costRules = lazy(() => ofRules(costRule));

/** A body with a price list (PR1, PR2). */
export const newPriceList = lazy(() =>
  z
    .strictObject({
      mode,
      rules: priceRules.meta(
        words("The first rule of each unit that matches an event gives its quantity in that unit. Empty: no prices."),
      ),
      costs: costRules
        .nullable()
        .default([])
        .transform((costs) => costs ?? [])
        .meta(words("Your own costs of an event, in cents of your currency. The first rule that matches counts.")),
      effectiveAt: timestamp
        .optional()
        .meta(words("When the version takes force; now if absent. Not in the past.", "2026-02-01T00:00:00Z")),
      ifVersion: z
        .int()
        .min(0)
        .optional()
        .meta(
          words(
            "The number of the newest version that you read; 0 for none. If there is a newer one, nothing is made.",
            3,
          ),
        ),
      note: freeText()
        .nullable()
        .default(null)
        .meta(words("A note for those who read the versions.", "New prices of gpt-5")),
    })
    .refine(
      ({ rules, costs }: { rules: readonly CostRule[]; costs: readonly CostRule[] }) =>
        new TextEncoder().encode(JSON.stringify({ rules, costs })).length <= BYTES_MAX,
      { message: "and costs must have at most 512 KiB of JSON together", path: ["rules"] },
    )
    .meta({ id: "SetPrices" }),
);

export const priceListParams = lazy(() =>
  z.object({
    appId,
    version: queryInteger(1, 10_000).meta(words("The number of the version.", 4)),
  }),
);

/** A version as it is returned. */
export const priceList = lazy(() =>
  z
    .strictObject({
      version: z.int().meta(words("Counts from 1.", 4)),
      mode,
      effectiveAt: z
        .string()
        .meta({ format: "date-time", ...words("When it takes force, or took it.", EXAMPLE.createdAt) }),
      rules: priceRules.meta(words("Its rules. Their places count from 0.")),
      costs: costRules.meta(words("Your own costs.")),
      note: z.string().nullable().meta(words("The note.", "New prices of gpt-5")),
      createdAt: z.string().meta({ format: "date-time", ...words("When it was made.", EXAMPLE.createdAt) }),
    })
    .meta({ id: "PriceList" }),
);

export const examplePriceList = {
  version: 4,
  mode: "live",
  effectiveAt: EXAMPLE.createdAt,
  rules: [
    {
      model: "gpt-5-20*",
      unit: "cents",
      per: {
        input: { amount: 125, units: 1_000_000 },
        cacheRead: { amount: 12.5, units: 1_000_000 },
        output: { amount: 1_000, units: 1_000_000 },
      },
    },
    { event: "image.created", unit: "cents", perEvent: 4 },
  ],
  costs: [],
  note: null,
  createdAt: EXAMPLE.createdAt,
} as const;
