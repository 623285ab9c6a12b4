import * as z from "zod/mini";
import { about, described } from "#described";
import { amountRule, toSteps } from "../amounts/amount.ts";
import { unit } from "../amounts/schemas.ts";
import { anyNumber, displayName, identifier, mode } from "../http/fields.ts";

const NOTICES_MAX = 10;
const DAYS_MAX = 365;

const below = described(
  z
    .strictObject({
      amount: described(z.optional(anyNumber), about("In the alert's unit.")),
      percent: described(
        z.optional(anyNumber),
        about("Of what the user's live balances were issued with; above 0, at most 100, with at most 3 decimals."),
      ),
    })
    .check(
      z.refine(
        ({ amount, percent }) => (amount === undefined) !== (percent === undefined),
        "must have an amount or a percent",
      ),
    ),
  about({ id: "AlertBelow", minProperties: 1, maxProperties: 1 }),
);

/** Percentages have three decimals, as counts do. */
export const percentThousandths = (percent: number) => toSteps("count", percent);

const newAlert = z.strictObject({
  mode,
  name: displayName(),
  unit,
  event: described(
    z.optional(identifier()),
    about("A name or a glob: only balances that cover it are watched, as in the filter of a list. Default: all."),
  ),
  below: described(below, about("The alert goes off when less than this remains.")),
});

function checkBelow(
  { unit, below: { amount, percent } }: z.infer<typeof newAlert>,
  context: z.core.$RefinementCtx,
): void {
  const refuse = (field: string, message: string) =>
    context.addIssue({ code: "custom", path: ["below", field], message });
  if (amount !== undefined && !(amount > 0)) refuse("amount", "must be above 0");
  else if (amount !== undefined && toSteps(unit, amount) === null) refuse("amount", amountRule(unit));
  if (percent === undefined) return;
  if (!(percent > 0 && percent <= 100)) refuse("percent", "must be above 0 and at most 100");
  else if (percentThousandths(percent) === null) refuse("percent", "must have at most 3 decimals");
}

export const createAlertInput = described(newAlert.check(z.superRefine(checkBelow)), about({ id: "CreateAlert" }));
export type CreateAlertInput = z.infer<typeof createAlertInput>;

export const listAlertsInput = z.object({ mode: described(mode, about("The mode whose alerts they are.")) });

const days = described(
  z.array(z.int().check(z.minimum(1), z.maximum(DAYS_MAX))).check(
    z.maxLength(NOTICES_MAX, `must have at most ${NOTICES_MAX} numbers`),
    z.refine((all) => new Set(all).size === all.length, "must not have a number twice"),
  ),
  about("How many days before a balance expires there is a notice. Empty: none."),
);

export const setExpiryNoticesInput = described(z.strictObject({ mode, days }), about({ id: "SetExpiryNotices" }));
export type SetExpiryNoticesInput = z.infer<typeof setExpiryNoticesInput>;

export const readExpiryNoticesInput = z.object({ mode: described(mode, about("The mode whose notices they are.")) });
