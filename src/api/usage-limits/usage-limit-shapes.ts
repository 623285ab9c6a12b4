import * as z from "zod";
import { matchRule, unit } from "../../books/amounts/amount-fields.ts";
import { EVERY } from "../../books/ledger/calendar.ts";
import { requireLimit } from "../../books/limits/limits.ts";
import { anyNumber, displayName, mode } from "../../http/fields.ts";
import type { AdminCtx } from "../../runtime.ts";
import { appId, EXAMPLE } from "../common.ts";

const limitId = "lim_5qWc1nY8aJ3vRb7kTxE2Mz";

export const usageLimitParams = z.lazy(() => z.object({ appId, limitId: limitParams.unwrap().shape.limitId }));

export const newLimit = {
  name: "Free messages",
  matches: [{ event: "chat.*" }],
  unit: "count",
  amount: 50,
  every: "day",
};

export const exampleLimit = { limitId, mode: "live", ...newLimit, createdAt: EXAMPLE.createdAt };

export const userLimit = { limitId, ...newLimit, used: 12, remaining: 38, resetsAt: "2026-01-17T00:00:00.000Z" };

/** Loads the usage limit of the path, by which a key's rights are judged. */
export const loadLimit = (admin: AdminCtx, path: { readonly appId: string; readonly limitId: string }) =>
  requireLimit(admin, path.appId, path.limitId);

const limit = {
  limitId: z.string(),
  name: z.string(),
  matches: z.array(matchRule).describe("The events that it counts. Empty: all events."),
  unit,
};

export const usageLimitOutput = z.lazy(() =>
  z
    .strictObject({
      ...limit,
      mode,
      amount: z.number().describe("The amount that a user may use in a window."),
      every,
      createdAt: z.string().meta({ format: "date-time" }),
    })
    .meta({ id: "UsageLimit" }),
);

export const userLimitOutput = z.lazy(() =>
  z
    .strictObject({
      ...limit,
      every,
      amount: z.number().nullable().describe("The user's own amount, or the limit's. Null: the user is unlimited."),
      used: z.number().describe("The used amount in the current window."),
      remaining: z
        .number()
        .nullable()
        .describe("The unused part of the amount. Never negative. Null: the user is unlimited."),
      resetsAt: z.string().meta({ format: "date-time" }).describe("When the window ends."),
    })
    .meta({ id: "UserUsageLimit" }),
);

export const refusingLimitOutput = z.lazy(() =>
  z
    .strictObject({
      limitId: z.string(),
      name: z.string(),
      unit,
      amount: z.number(),
      used: z.number().describe("The used amount in the current window."),
      asked: z.number().describe("The amount that the usage would add."),
      resetsAt: z.string().meta({ format: "date-time" }).describe("When the window ends."),
    })
    .meta({ id: "RefusingUsageLimit" }),
);

export const every = z.lazy(() => z.enum(EVERY).meta({ id: "UsageLimitWindow" }));

export const limitName = () =>
  displayName().describe("Unique among the limits of the mode. Letter case does not matter.");

export const amountOfWindow = () =>
  anyNumber.describe("The amount that a user may use in a window, in the limit's unit; 0 or more.");

export const limitParams = z.lazy(() => z.object({ limitId: z.string().describe("The id of the limit, `lim_…`.") }));
