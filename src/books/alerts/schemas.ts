import * as z from "zod";
import type { Steps } from "../../db/schema.ts";
import { invalid } from "../../errors.ts";
import { anyNumber, cursor, displayName, identifier, mode, pageLimit } from "../../http/fields.ts";
import { amountRule, toSteps, type Unit } from "../amounts/amount.ts";
import { unit } from "../amounts/schemas.ts";

const NOTICES_MAX = 10;
const DAYS_MAX = 365;

const below = z.lazy(() =>
  z
    .strictObject(
      {
        amount: anyNumber.optional().describe("In the alert's unit."),
        percent: anyNumber
          .optional()
          .describe(
            "A percentage of the initial amounts of the user's active balances: above 0, at most 100, with at most 3 decimals.",
          ),
      },
      {
        error: ({ input }) =>
          typeof input === "number" ? "must be an object, such as `{ amount: 100 }` or `{ percent: 20 }`" : undefined,
      },
    )
    .refine(
      ({ amount, percent }) => (amount === undefined) !== (percent === undefined),
      "must have either an amount or a percent",
    )
    .meta({ id: "AlertBelow", minProperties: 1, maxProperties: 1 }),
);

/** Returns a percentage in thousandths, because percentages have three decimals, as counts do. */
export const percentThousandths = (percent: number) => toSteps("count", percent);

const newAlertInput = () =>
  z.strictObject({
    mode,
    name: displayName(),
    unit,
    event: identifier()
      .optional()
      .describe("A name or a glob: only balances that cover it are watched, as in the filter of a list. Default: all."),
    below: below.describe("The alert fires when less than this remains."),
  });

type Below = z.infer<typeof below>;

/** Returns the amount in steps of the unit. Throws `invalid_request`. */
export function amountStepsOf(unit: Unit, amount: number): Steps {
  const steps = toSteps(unit, amount);
  if (steps === null) throw invalid("below.amount", amountRule(unit, amount));
  return steps;
}

/** Refuses values that are invalid in every unit. */
function checkBelow({ amount, percent }: Below, context: z.core.$RefinementCtx, path: readonly string[] = []): void {
  const refuse = (field: string, message: string) =>
    context.addIssue({ code: "custom", path: [...path, field], message });
  if (amount !== undefined && !(amount > 0)) refuse("amount", "must be above 0");
  if (percent === undefined) return;
  if (!(percent > 0 && percent <= 100)) refuse("percent", "must be above 0 and at most 100");
  else if (percentThousandths(percent) === null) refuse("percent", "must have at most 3 decimals");
}

function checkNewAlert(
  { unit, below }: z.infer<ReturnType<typeof newAlertInput>>,
  context: z.core.$RefinementCtx,
): void {
  checkBelow(below, context, ["below"]);
  if (below.amount === undefined || !(below.amount > 0) || toSteps(unit, below.amount) !== null) return;
  context.addIssue({ code: "custom", path: ["below", "amount"], message: amountRule(unit, below.amount) });
}

export const createAlertInput = z.lazy(() => newAlertInput().superRefine(checkNewAlert).meta({ id: "CreateAlert" }));
export type CreateAlertInput = z.infer<typeof createAlertInput>;

export const changeAlertInput = z.lazy(() =>
  z
    .strictObject({
      name: displayName().optional(),
      event: identifier().nullish().describe("Null: every balance of the unit is watched."),
      below: below.superRefine((value, context) => checkBelow(value, context)).optional(),
    })
    .meta({ id: "ChangeAlert" }),
);
export type ChangeAlertInput = z.infer<typeof changeAlertInput>;

export const listAlertUsersInput = z.lazy(() => z.object({ limit: pageLimit("users"), cursor }));
export type ListAlertUsersInput = z.infer<typeof listAlertUsersInput>;

const days = z.lazy(() =>
  z
    .array(z.int().min(1).max(DAYS_MAX))
    .max(NOTICES_MAX, `must have at most ${NOTICES_MAX} numbers`)
    .refine((all) => new Set(all).size === all.length, "must not have a number twice")
    .describe("How many days before a balance expires a notice is sent. Empty: no notices."),
);

export const setExpiryNoticesInput = z.lazy(() => z.strictObject({ mode, days }).meta({ id: "SetExpiryNotices" }));
export type SetExpiryNoticesInput = z.infer<typeof setExpiryNoticesInput>;
