import * as z from "zod";
import { lazy } from "../../http/lazy.ts";
import { words } from "../../lib/words.ts";
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
  timeZone: "UTC",
  status: "active",
  reason: null,
  period: { n: 1, from: "2026-01-16T08:30:00.000Z", to: "2026-02-16T08:30:00.000Z" },
  nextAt: "2026-02-16T08:30:00.000Z",
  createdAt: "2026-01-16T08:30:00.000Z",
};

export const recurringOutput = /* @__PURE__ */ lazy(() =>
  z
    .strictObject({
      recurringId: z.string().meta(words("The recurring grant's id.", "rec_free-user_42")),
      userId: z.string().meta(words("Your own id of the user.", "user_42")),
      packId: z.string().meta(words("The pack's id.", "cpk_1mVt9sD4gE6uXa8oPzJ2Rq")),
      packName: z.string().meta(words("The pack's name when the recurring grant was created.", "Free")),
      quantity: z.number().nullable().meta(words("Null for a pack with items.", 1_000)),
      every: everyPeriod.meta(words("The length of a period or a window.", "month")),
      startsAt: z.string().meta(words("The anchor: every period is computed from it.", "2026-01-16T08:30:00.000Z")),
      endsAt: z
        .string()
        .nullable()
        .meta(words("No period begins at or after this time. Null: no end.", "2027-01-16T00:00:00.000Z")),
      rolloverPeriods: z
        .number()
        .nullable()
        .meta(words("For how many further periods its credits stay valid. Null: as the pack says.", 0)),
      timeZone: z.string().meta(words("The zone whose calendar the periods follow.", "Europe/Berlin")),
      status: z
        .enum(["active", "suspended", "ended"])
        .meta({ id: "RecurringStatus" })
        .meta(words("The status.", "active")),
      reason: z.string().nullable().meta(words("The code of the error that suspended it.", "credit_pack_not_found")),
      period: z
        .strictObject({
          n: z.number().meta(words("The number of the period.", 1)),
          from: z.string().meta(words("The beginning.", "2026-01-16T08:30:00.000Z")),
          to: z.string().meta(words("The end, which is not included.", "2026-02-16T08:30:00.000Z")),
        })
        .meta({ id: "RecurringPeriod" })
        .nullable()
        .meta(words("The current period.")),
      nextAt: z.string().nullable().meta(words("When the next period begins.", "2026-02-16T08:30:00.000Z")),
      createdAt: z.string().meta(words("When it was created.", "2026-01-16T08:30:00.000Z")),
    })
    .meta({ id: "RecurringGrant" }),
);

export const everyPeriod = lazy(() => z.enum(["day", "week", "month", "year"]).meta({ id: "Every" }));

export const recurringParams = lazy(() =>
  z.object({
    recurringId: z.string().meta(words("The id of the recurring grant, `rec_…`.", "rec_free-user_42")),
  }),
);
