import * as z from "zod";
import { anyDecimal, identifier, refuse } from "../../http/fields.ts";
import { once } from "../../lib/once.ts";
import { amountMaxRule, meterOf, UNITS, type Unit, usedSteps } from "./amount.ts";
import { readGivenQuantities } from "./given-quantities.ts";
import { meterText } from "./meters.ts";

/** The quantities in a response: the units that the event has. */
export const quantitiesOutput = z.lazy(() =>
  z
    .strictObject({
      count: z.number().optional(),
      tokens: z.number().optional(),
      seconds: z.number().optional(),
      cents: z.number().optional(),
    })
    .meta({ id: "Quantities" }),
);

/** A sum of amounts, which may have more digits than a double. The TypeScript client has a type of its own for it. */
export const sumOutput = z.number().meta({ "x-sum": true });

/** Sums of quantities: the units that have some. */
export const summedQuantities = z.lazy(() =>
  z
    .strictObject({
      count: sumOutput.optional(),
      tokens: sumOutput.optional(),
      seconds: sumOutput.optional(),
      cents: sumOutput.optional(),
    })
    .meta({ id: "SummedQuantities" }),
);

/** The amount that one balance pays. */
export const debit = z.lazy(
  once(() =>
    z
      .strictObject({
        balanceId: z.string(),
        packId: z.string(),
        unit,
        amount: z.number(),
        remaining: z.number().describe("The balance after the debit."),
      })
      .meta({ id: "Debit" }),
  ),
);

export const unit = z.lazy(() => z.enum(UNITS).meta({ id: "Unit" }));

const rule = () =>
  z.strictObject(
    {
      event: identifier().optional().describe("An event name. `*` matches any characters."),
      model: identifier().optional().describe("A model name. `*` matches any characters."),
    },
    {
      error: ({ input }) =>
        typeof input === "string" ? 'must be an object, such as `{ "event": "chat.*" }`' : undefined,
    },
  );

export const matchRule = z.lazy(() =>
  rule()
    .refine(({ event, model }) => event !== undefined || model !== undefined, "must have an event, a model or both")
    .meta({ id: "MatchRule", minProperties: 1 }),
);

/** A used quantity in steps, and whether it had to be rounded (C1). */
const quantitySchema = (of: Unit) =>
  anyDecimal
    .transform(
      (decimal, context) =>
        usedSteps(of, decimal) ?? refuse(context, decimal.startsWith("-") ? "must not be negative" : amountMaxRule(of)),
    )
    .meta({ type: "number", minimum: 0 })
    .optional();

/** The form of a meter's name (PR3). */
export const meterName = () =>
  z
    .string()
    .regex(
      /^[a-z][A-Za-z0-9_]{0,39}$/,
      "must begin with a small letter, and have up to 40 letters, digits and underscores",
    );

const METERS_MAX = 20;

/** The meters of a usage, each as its shortest decimal (PR3). */
export const meters = z.lazy(() =>
  z
    .record(
      meterName(),
      anyDecimal
        .transform((decimal, context) => {
          const thousandths = meterOf(decimal);
          if (thousandths !== null) return meterText(thousandths);
          return refuse(context, decimal.startsWith("-") ? "must not be negative" : "must be at most 2^53");
        })
        .meta({ type: "number", minimum: 0 }),
    )
    .refine((sent) => Object.keys(sent).length <= METERS_MAX, `must have at most ${METERS_MAX} names`)
    .meta({ id: "Meters" }),
);

/** Meters in a response. */
export const metersOutput = z.lazy(() => z.record(z.string(), sumOutput).meta({ id: "SentMeters" }));

/** The fields of a response that say how its quantities came about. */
export const metersAndVersion = () => ({
  meters: metersOutput
    .nullable()
    .meta({ description: "The meters that were sent. Null if quantities were sent.", example: null }),
  priceVersion: z.int().nullable().meta({
    description: "The version of the price list that priced the meters. Null if quantities were sent.",
    example: null,
  }),
});

/** Amounts by unit, read as steps. `count` is 1 when it is absent, so it is always present (U1). */
export const quantities = z.lazy(() =>
  z
    .strictObject({
      count: quantitySchema("count"),
      tokens: quantitySchema("tokens"),
      seconds: quantitySchema("seconds"),
      cents: quantitySchema("cents"),
    })
    .meta({ id: "UsageQuantities" })
    .transform(readGivenQuantities),
);

/** The amount that a reservation holds of one balance. */
export const hold = z.lazy(
  once(() =>
    debit
      .unwrap()
      .extend({ remaining: z.number().describe("The balance after the hold.") })
      .meta({ id: "Hold" }),
  ),
);

export const heldAmount = z.lazy(() => hold.unwrap().omit({ remaining: true }).meta({ id: "HeldAmount" }));
