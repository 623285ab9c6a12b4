import * as z from "zod";
import { everyPeriod } from "./schemas.ts";

export const recurringOutput = z.lazy(() =>
  z
    .strictObject({
      recurringId: z.string(),
      userId: z.string(),
      packId: z.string(),
      packName: z.string().describe("The pack's name when the recurring grant was created."),
      quantity: z.number().nullable().describe("Null for a pack with items."),
      every: everyPeriod,
      startsAt: z.string().describe("The anchor: every period is computed from it."),
      endsAt: z.string().nullable(),
      rolloverPeriods: z.number().nullable(),
      status: z.enum(["active", "suspended", "ended"]).meta({ id: "RecurringStatus" }),
      reason: z.string().nullable().describe("The error code of the refusal that suspended it."),
      period: z
        .strictObject({ n: z.number(), from: z.string(), to: z.string() })
        .meta({ id: "RecurringPeriod" })
        .nullable()
        .describe("The current period."),
      nextAt: z.string().nullable().describe("When the next period begins."),
      createdAt: z.string(),
    })
    .meta({ id: "RecurringGrant" }),
);
export type RecurringOutput = z.infer<typeof recurringOutput>;
