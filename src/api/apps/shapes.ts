import { analyticsDefaults } from "../../people/limits/daily-limits.ts";
import { EXAMPLE } from "../common.ts";

export const exampleApp = { appId: EXAMPLE.appId, name: "Writing desk", database: "DB", createdAt: EXAMPLE.createdAt };

export const limits = {
  appId: EXAMPLE.appId,
  mode: "live",
  analytics: { ...analyticsDefaults, eventsADay: 5_000_000 },
  today: { day: "2026-01-15", events: 61_204, bytes: 31_990_112, eventsOfOneId: 412, bytesOfOneId: 260_118 },
  reached: [{ limit: "eventsADay", at: "2026-01-12T21:14:09.120Z" }],
};

export const now = "2026-02-15T12:00:00.000Z";

export const ready = { now, status: "ready" };
