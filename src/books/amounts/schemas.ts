import * as z from "zod";
import type { Steps } from "../../db/schema.ts";
import { anyNumber, identifier, refuse } from "../../http/fields.ts";
import { amountRule, type Quantities, toSteps, UNITS, type Unit } from "./amount.ts";

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

const amountSchema = (of: Unit) =>
  anyNumber
    .transform(
      (amount, context): Steps =>
        (amount >= 0 ? toSteps(of, amount) : null) ??
        refuse(context, amount < 0 ? "must not be negative" : amountRule(of)),
    )
    .meta({ type: "number", minimum: 0 })
    .optional();

/**
 * The quantities that were read from an object with other units and no `count`. A separate set holds them, so that they do not
 * change a request's hash.
 */
const quantitiesWithImpliedCount = new WeakSet<object>();

/** Returns whether quantities with other units have a `count` of 1 only by default. */
export const impliesCount = (read: Quantities): boolean => quantitiesWithImpliedCount.has(read);

const COUNT_STEPS_DEFAULT = 1_000 as Steps;

/** Amounts by unit, read as steps. `count` is 1 when it is absent, so it is always present (U1). */
export const quantities = z.lazy(() =>
  z
    .strictObject({
      count: amountSchema("count"),
      tokens: amountSchema("tokens"),
      seconds: amountSchema("seconds"),
      cents: amountSchema("cents"),
    })
    .meta({ id: "UsageQuantities" })
    .transform((given): Quantities & { readonly count: Steps } => {
      const read: { [U in Unit]?: Steps } & { count: Steps } = { count: COUNT_STEPS_DEFAULT };
      for (const unit of UNITS) {
        const steps = given[unit];
        if (steps !== undefined) read[unit] = steps;
      }
      if (given.count === undefined && Object.keys(given).length > 0) quantitiesWithImpliedCount.add(read);
      return read;
    }),
);
