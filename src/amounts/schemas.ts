import * as z from "zod/mini";
import { about, described } from "#described";
import type { Steps } from "../db/schema.ts";
import { anyNumber, identifier, readAs } from "../http/fields.ts";
import { amountRule, type Quantities, toSteps, UNITS, type Unit } from "./amount.ts";

export const unit = described(z.enum(UNITS), about({ id: "Unit" }));

const rule = z.strictObject({
  event: described(z.optional(identifier()), about("An event name. `*` matches any characters.")),
  model: described(z.optional(identifier()), about("A model name. `*` matches any characters.")),
});
export const matchRule = described(
  rule.check(
    z.refine(({ event, model }) => event !== undefined || model !== undefined, "must have an event, a model or both"),
  ),
  about({ id: "MatchRule", minProperties: 1 }),
);

function amountOf(of: Unit) {
  const steps = readAs(
    anyNumber,
    (amount, refuse): Steps =>
      (amount >= 0 ? toSteps(of, amount) : null) ?? refuse(amount < 0 ? "must not be negative" : amountRule(of)),
  );
  return z.optional(described(steps, about({ type: "number", minimum: 0 })));
}

const COUNT_STEPS_DEFAULT = 1_000 as Steps;

/** Amounts by unit, read as steps. `count` is 1 when it is absent, so it is always there (U1). */
export const quantities = readAs(
  described(
    z.strictObject({
      count: amountOf("count"),
      tokens: amountOf("tokens"),
      seconds: amountOf("seconds"),
      cents: amountOf("cents"),
    }),
    about({ id: "UsageQuantities" }),
  ),
  (given): Quantities & { readonly count: Steps } => {
    const read: { [U in Unit]?: Steps } & { count: Steps } = { count: COUNT_STEPS_DEFAULT };
    for (const each of UNITS) {
      const steps = given[each];
      if (steps !== undefined) read[each] = steps;
    }
    return read;
  },
);
