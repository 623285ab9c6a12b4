import * as z from "zod";
import type { Steps } from "../db/schema.ts";
import { anyNumber, identifier } from "../http/fields.ts";
import { type Quantities, toSteps, UNITS, type Unit } from "./amount.ts";

export const unit = z.enum(UNITS);

export const matchRule = z
  .strictObject({ event: identifier().optional(), model: identifier().optional() })
  .refine((rule) => rule.event !== undefined || rule.model !== undefined, "must name an event, a model or both")
  .meta({ id: "MatchRule", minProperties: 1 });

function amountOf(of: Unit) {
  return anyNumber
    .transform((amount, context) => {
      const steps = amount >= 0 ? toSteps(of, amount) : null;
      if (steps !== null) return steps;
      context.addIssue({
        code: "custom",
        message: "must not be negative, nor have more decimals or be larger than its unit holds",
      });
      return z.NEVER;
    })
    .meta({ type: "number", minimum: 0 });
}

const COUNT_STEPS_DEFAULT = 1_000 as Steps;

/** Amounts by unit, read as steps; `count` is 1 when absent, so it is always there (U1). */
export const quantities = z
  .strictObject({
    count: amountOf("count").optional(),
    tokens: amountOf("tokens").optional(),
    seconds: amountOf("seconds").optional(),
    cents: amountOf("cents").optional(),
  })
  .transform((given): Quantities & { readonly count: Steps } => {
    const read: { [U in Unit]?: Steps } & { count: Steps } = { count: COUNT_STEPS_DEFAULT };
    for (const each of UNITS) {
      const steps = given[each];
      if (steps !== undefined) read[each] = steps;
    }
    return read;
  });

/** Quantities as they go out: the units that are carried. */
export const quantitiesOutput = z
  .strictObject({
    count: z.number().optional(),
    tokens: z.number().optional(),
    seconds: z.number().optional(),
    cents: z.number().optional(),
  })
  .meta({ id: "Quantities" });
