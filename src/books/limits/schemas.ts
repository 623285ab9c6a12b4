import * as z from "zod";
import type { Steps } from "../../db/schema.ts";
import { anyNumber, displayName, mode } from "../../http/fields.ts";
import { amountRule, toSteps, type Unit } from "../amounts/amount.ts";
import { matchRule, unit } from "../amounts/schemas.ts";
import { EVERY } from "../ledger/calendar.ts";

const RULES_MAX = 100;
/** Bounds the rules' size, because every write for a user reads the rules of all limits of the environment. */
const RULES_CHARACTERS_MAX = 4_000;

export const every = z.lazy(() => z.enum(EVERY).meta({ id: "UsageLimitWindow" }));
const matches = z.lazy(() =>
  z
    .array(matchRule)
    .max(RULES_MAX, `must have at most ${RULES_MAX} rules`)
    .refine(
      (rules) => JSON.stringify(rules).length <= RULES_CHARACTERS_MAX,
      `must have at most ${RULES_CHARACTERS_MAX} characters of JSON`,
    ),
);
const limitName = () => displayName().describe("Unique among the limits of the mode. Letter case does not matter.");
export const amountOfWindow = () =>
  anyNumber.describe("The amount that a user may use in a window, in the limit's unit; 0 or more.");

/** The error text for an amount of a unit, to follow the field's name. Null when the amount is valid. */
function amountFlaw(unit: Unit, amount: number): string | null {
  if (amount < 0) return "must not be negative";
  return toSteps(unit, amount) === null ? amountRule(unit, amount) : null;
}

/** The amount in steps of the unit, or an error text. */
export function readAmount(unit: Unit, amount: number): { readonly steps: Steps } | { readonly flaw: string } {
  const flaw = amountFlaw(unit, amount);
  const steps = toSteps(unit, amount);
  return flaw !== null || steps === null ? { flaw: flaw ?? amountRule(unit, amount) } : { steps };
}

export const createLimitInput = z.lazy(() =>
  z
    .strictObject({
      mode,
      name: limitName(),
      matches: matches.default([]).describe("The events that it counts. Empty: all events."),
      unit,
      amount: amountOfWindow(),
      every: every.describe("The length of a window. Windows follow the calendar in UTC; weeks begin on Monday."),
    })
    .superRefine(({ unit, amount }, context) => {
      const flaw = amountFlaw(unit, amount);
      if (flaw !== null) context.addIssue({ code: "custom", path: ["amount"], message: flaw });
    })
    .meta({ id: "CreateUsageLimit" }),
);
export type CreateLimitInput = z.infer<typeof createLimitInput>;

export const changeLimitInput = z.lazy(() =>
  z
    .strictObject({ name: limitName().optional(), amount: amountOfWindow().optional() })
    .meta({ id: "ChangeUsageLimit" }),
);
export type ChangeLimitInput = z.infer<typeof changeLimitInput>;

export const limitParams = z.lazy(() => z.object({ limitId: z.string().describe("The id of the limit, `lim_…`.") }));
