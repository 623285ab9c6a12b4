import * as z from "zod";
import { EXAMPLE } from "../common.ts";

export const recurring = {
  recurringId: "rec_free-user_42",
  userId: "user_42",
  packId: EXAMPLE.packId,
  packName: "Free",
  quantity: null,
  every: "month",
  startsAt: "2026-01-16T08:30:00.000Z",
  endsAt: null,
  rolloverPeriods: 0,
  status: "active",
  reason: null,
  period: { n: 1, from: "2026-01-16T08:30:00.000Z", to: "2026-02-16T08:30:00.000Z" },
  nextAt: "2026-02-16T08:30:00.000Z",
  createdAt: "2026-01-16T08:30:00.000Z",
};

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

export const everyPeriod = z.lazy(() => z.enum(["day", "week", "month", "year"]).meta({ id: "Every" }));

export const recurringParams = z.lazy(() =>
  z.object({
    recurringId: z.string().describe("The id of the recurring grant, `rec_…`."),
  }),
);
