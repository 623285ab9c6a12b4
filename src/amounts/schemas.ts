import * as z from "zod";
import type { Steps } from "../db/schema.ts";
import { anyNumber, identifier } from "../http/fields.ts";
import { amountRule, type Quantities, toSteps, UNITS, type Unit } from "./amount.ts";

export const unit = z.enum(UNITS).meta({ id: "Unit" });

export const matchRule = z
  .strictObject({
    event: identifier().optional().describe("An event name. `*` matches any characters."),
    model: identifier().optional().describe("A model name. `*` matches any characters."),
  })
  .refine((rule) => rule.event !== undefined || rule.model !== undefined, "must have an event, a model or both")
  .meta({ id: "MatchRule", minProperties: 1 });

function amountOf(of: Unit) {
  return anyNumber
    .transform((amount, context) => {
      const steps = amount >= 0 ? toSteps(of, amount) : null;
      if (steps !== null) return steps;
      context.addIssue({ code: "custom", message: amount < 0 ? "must not be negative" : amountRule(of) });
      return z.NEVER;
    })
    .meta({ type: "number", minimum: 0 });
}

const COUNT_STEPS_DEFAULT = 1_000 as Steps;

/** Amounts by unit, read as steps. `count` is 1 when it is absent, so it is always there (U1). */
export const quantities = z
  .strictObject({
    count: amountOf("count").optional(),
    tokens: amountOf("tokens").optional(),
    seconds: amountOf("seconds").optional(),
    cents: amountOf("cents").optional(),
  })
  .meta({ id: "UsageQuantities" })
  .transform((given): Quantities & { readonly count: Steps } => {
    const read: { [U in Unit]?: Steps } & { count: Steps } = { count: COUNT_STEPS_DEFAULT };
    for (const each of UNITS) {
      const steps = given[each];
      if (steps !== undefined) read[each] = steps;
    }
    return read;
  });

/** Quantities of a response: the units that the event has. */
export const quantitiesOutput = z
  .strictObject({
    count: z.number().optional(),
    tokens: z.number().optional(),
    seconds: z.number().optional(),
    cents: z.number().optional(),
  })
  .meta({ id: "Quantities" });
