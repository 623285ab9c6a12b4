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
