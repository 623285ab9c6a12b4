import * as z from "zod";
import type { Steps } from "../../db/schema.ts";
import { anyDecimal, identifier, refuse } from "../../http/fields.ts";
import { amountMaxRule, type Quantities, UNITS, type Unit, usedSteps } from "./amount.ts";

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

/** Why a request's quantities may be a mistake (W16). Separate sets hold them, so that they do not change a request's hash. */
const quantitiesWithImpliedCount = new WeakSet<object>();
const roundedQuantities = new WeakSet<object>();

/** Returns whether quantities with other units have a `count` of 1 only by default. */
export const impliesCount = (read: Quantities): boolean => quantitiesWithImpliedCount.has(read);

/** Returns whether a quantity had to be rounded (C1). */
export const isRounded = (read: Quantities): boolean => roundedQuantities.has(read);

const COUNT_STEPS_DEFAULT = 1_000 as Steps;

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
    .transform((given): Quantities & { readonly count: Steps } => {
      const steps: { [U in Unit]?: Steps } & { count: Steps } = { count: COUNT_STEPS_DEFAULT };
      const sent = Object.values(given).filter((used) => used !== undefined);
      for (const of of UNITS) {
        const used = given[of];
        if (used !== undefined) steps[of] = used.steps;
      }
      const isFree = sent.length > 0 && sent.every((used) => used.steps === 0);
      const read = isFree ? { ...steps, isFree } : steps;
      if (given.count === undefined && sent.length > 0) quantitiesWithImpliedCount.add(read);
      if (sent.some((used) => used.isRounded)) roundedQuantities.add(read);
      return read;
    }),
);
