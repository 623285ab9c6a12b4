import * as z from "zod";
import { matchRule, unit } from "../../books/amounts/amount-fields.ts";
import { createLimit, followsCalendar, rejectAmount } from "../../books/limits/limits.ts";
import { mode, timeZoneName } from "../../http/fields.ts";
import { lazy } from "../../http/lazy.ts";
import { EVERY_NAMES, RULES } from "../../http/wrong-names.ts";
import { words } from "../../lib/words.ts";
import { administration } from "../access.ts";
import { appParams } from "../common.ts";
import { operation } from "../operation.ts";
import {
  amountOfWindow,
  every,
  exampleLimit,
  limitName,
  limitPer,
  newLimit,
  usageLimitOutput,
} from "./usage-limit-shapes.ts";

const RULES_MAX = 100;

/** Bounds the rules' size, because every write for a user reads the rules of all limits of the environment. */
const RULES_CHARACTERS_MAX = 4_000;

const matches = lazy(() =>
  z
    .array(matchRule)
    .max(RULES_MAX, `must have at most ${RULES_MAX} rules`)
    .refine(
      (rules) => JSON.stringify(rules).length <= RULES_CHARACTERS_MAX,
      `must have at most ${RULES_CHARACTERS_MAX} characters of JSON`,
    ),
);

export const createLimitInput = lazy(() =>
  z
    .strictObject({
      mode,
      name: limitName().meta(
        words("Unique among the limits of the mode. Letter case does not matter.", "Free messages"),
      ),
      matches: matches.default([]).meta(words("The events that it counts. Empty: all events.")),
      unit,
      amount: amountOfWindow().meta(
        words("The amount that a user may use in a window, in the limit's unit; 0 or more.", 50),
      ),
      every: every.meta(words("The length of a window, by the calendar. Weeks begin on Monday.", "day")),
      per: limitPer
        .default("user")
        .meta(words("Whom it bounds: each user, or each member of each payer (`memberId`).", "user")),
      timeZone: timeZoneName
        .optional()
        .meta(
          words(
            "The IANA name of the zone whose calendar the windows follow. Only with a day, week or month. Default: UTC.",
            "Europe/Berlin",
          ),
        ),
    })
    .superRefine(({ unit, amount, every, timeZone }, context) => {
      if (timeZone !== undefined && !followsCalendar(every)) {
        const message = "applies only to windows of a day, a week or a month";
        context.addIssue({ code: "custom", path: ["timeZone"], message });
      }
      const rejection = rejectAmount(unit, amount);
      if (rejection !== null) context.addIssue({ code: "custom", path: ["amount"], message: rejection });
    })
    .meta({
      id: "CreateUsageLimit",
      wrongNames: {
        mode: "environment env",
        name: "title label",
        matches: RULES,
        amount: "limit max quantity",
        every: EVERY_NAMES,
        timeZone: "tz zone timezone",
      },
    }),
);

export default operation({
  id: "createUsageLimit",
  method: "post",
  path: "/api/v1/admin/apps/{appId}/usage-limits",
  tag: "Administration",
  access: administration("write", "argument"),
  params: appParams,
  body: createLimitInput,
  ...(WITH_REFERENCE && {
    output: () => usageLimitOutput,
    summary: "Create a usage limit",
    description:
      "Creates a limit in one mode, which may have at most 20. The limit sets how much each user, or with " +
      '`per: "member"` each member of each payer, may use in a window, independent of credits. ' +
      "Windows follow the calendar of `timeZone`, and weeks begin on Monday. The limit " +
      "counts from its creation.",
    returns: "The limit.",
    example: () => ({ body: { mode: "live", ...newLimit }, output: exampleLimit }),
  }),
  handler: (admin, { params, body }) => createLimit(admin, params.appId, body),
});
