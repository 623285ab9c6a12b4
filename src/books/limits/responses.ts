import * as z from "zod";
import { mode } from "../../http/fields.ts";
import { matchRule, unit } from "../amounts/schemas.ts";
import { every } from "./schemas.ts";

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
export type UsageLimitOutput = z.infer<typeof usageLimitOutput>;

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
export type UserLimitOutput = z.infer<typeof userLimitOutput>;

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
