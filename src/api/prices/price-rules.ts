import * as z from "zod";
import { priceAmount } from "../../books/amounts/amount.ts";
import { meterName, unit } from "../../books/amounts/amount-fields.ts";
import type { CostRule, MeterPrice } from "../../books/prices/price.ts";
import { freeText, identifier, mode, queryInteger, timestamp } from "../../http/fields.ts";
import { appId, EXAMPLE } from "../common.ts";

const AMOUNT_RULE = "must be 0 or more, with at most 12 decimals and 15 significant digits";
const ruleAmount = () =>
  z
    .number()
    .refine((number) => priceAmount(number) !== null, AMOUNT_RULE)
    .meta({ minimum: 0 });

const priceOfUnits = z.lazy(() =>
  z
    .strictObject({
      amount: ruleAmount().meta({ description: "The price of `units` of the meter, in the rule's unit.", example: 15 }),
      units: z.int().min(1).meta({ description: "How many of the meter cost `amount`.", example: 1_000_000 }),
    })
    .meta({ id: "PriceOfUnits" }),
);

const meterPrice = () =>
  z.union([ruleAmount(), priceOfUnits], {
    error: ({ input }) => (typeof input === "number" ? AMOUNT_RULE : "must be an amount, or `{ amount, units }`"),
  });

const priceCondition = z.lazy(() =>
  z
    .strictObject({
      meters: z
        .array(meterName())
        .min(1)
        .refine((names) => new Set(names).size === names.length, "must name each meter once")
        .meta({ description: "The meters whose sum is compared.", example: ["input", "cacheRead"] }),
      above: z
        .number()
        .min(0)
        .meta({ description: "The rule applies where the sum is above this number.", example: 200_000 }),
    })
    .meta({ id: "PriceCondition" }),
);

const conditionsAndPrices = () => ({
  event: identifier()
    .optional()
    .meta({ description: "The event. `*` matches any characters. Absent: every event.", example: "chat.*" }),
  model: identifier().optional().meta({
    description: "The model. `*` matches any characters. Absent: every model, and events without one.",
    example: "gpt-5-20*",
  }),
  when: priceCondition.optional().describe("Restricts the rule to events whose meters come to more than a number."),
  perEvent: ruleAmount()
    .optional()
    .meta({ description: "Added once an event. Without `per`, the rule takes any meters.", example: 0.5 }),
  per: z
    .record(meterName(), meterPrice())
    .refine((prices) => Object.keys(prices).length > 0, "must name at least one meter")
    .optional()
    .meta({
      description: "What each meter costs: an amount each, or `{ amount, units }`.",
      example: { input: { amount: 125, units: 1_000_000 }, output: { amount: 1_000, units: 1_000_000 } },
    }),
});

const hasPrice = ({
  perEvent,
  per,
}: {
  perEvent?: number | undefined;
  per?: Readonly<Record<string, MeterPrice>> | undefined;
}) => perEvent !== undefined || per !== undefined;
const PRICE_RULE = "must have `perEvent`, `per` or both";

const priceRule = z.lazy(() =>
  z
    .strictObject({
      ...conditionsAndPrices(),
      unit: unit.meta({ description: "The unit of its amounts.", example: "cents" }),
    })
    .refine(hasPrice, PRICE_RULE)
    .meta({ id: "PriceRule" }),
);
const costRule = z.lazy(() =>
  z.strictObject(conditionsAndPrices()).refine(hasPrice, PRICE_RULE).meta({ id: "CostRule" }),
);

const PRICE_RULES_MAX = 2_000;
/** Of rules and costs together, as JSON. */
const BYTES_MAX = 512 * 1024;

const ofRules = <Rule extends z.ZodType>(rule: Rule) => z.array(rule).max(PRICE_RULES_MAX);

const priceRules = z.lazy(() => ofRules(priceRule));
const costRules = z.lazy(() => ofRules(costRule));

/** A body with a price list (PR1, PR2). */
export const newPriceList = z.lazy(() =>
  z
    .strictObject({
      mode,
      rules: priceRules.describe(
        "The first rule of each unit that matches an event gives its quantity in that unit. Empty: no prices.",
      ),
      costs: costRules
        .nullable()
        .default([])
        .transform((costs) => costs ?? [])
        .describe("Your own costs of an event, in cents of your currency. The first rule that matches counts."),
      effectiveAt: timestamp.optional().meta({
        description: "When the version takes force; now if absent. Not in the past.",
        example: "2026-02-01T00:00:00Z",
      }),
      ifVersion: z.int().min(0).optional().meta({
        description:
          "The number of the newest version that you read; 0 for none. If there is a newer one, nothing is made.",
        example: 3,
      }),
      note: freeText()
        .nullable()
        .default(null)
        .meta({ description: "A note for those who read the versions.", example: "New prices of gpt-5" }),
    })
    .refine(
      ({ rules, costs }: { rules: readonly CostRule[]; costs: readonly CostRule[] }) =>
        new TextEncoder().encode(JSON.stringify({ rules, costs })).length <= BYTES_MAX,
      { message: "and costs must have at most 512 KiB of JSON together", path: ["rules"] },
    )
    .meta({ id: "SetPrices" }),
);

export const priceListParams = z.lazy(() =>
  z.object({
    appId,
    version: queryInteger(1, 10_000).describe("The number of the version."),
  }),
);

/** A version as it is returned. */
export const priceList = z.lazy(() =>
  z
    .strictObject({
      version: z.int().meta({ description: "Counts from 1.", example: 4 }),
      mode,
      effectiveAt: z
        .string()
        .meta({ format: "date-time", description: "When it takes force, or took it.", example: EXAMPLE.createdAt }),
      rules: priceRules.describe("Its rules. Their places count from 0."),
      costs: costRules.describe("Your own costs."),
      note: z.string().nullable().meta({ description: "The note.", example: "New prices of gpt-5" }),
      createdAt: z.string().meta({ format: "date-time", description: "When it was made.", example: EXAMPLE.createdAt }),
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
