import { analyticsDefaults } from "../../people/limits/count.ts";
import { limitsOutput } from "../../people/limits/responses.ts";
import { readLimitsInput, setLimitsInput } from "../../people/limits/schemas.ts";
import type { Operation } from "../operation.ts";
import { access, ofApp, path, tag } from "./administration.ts";
import { exampleApp } from "./apps.ts";

const limits = {
  appId: exampleApp.appId,
  mode: "live",
  analytics: { ...analyticsDefaults, eventsADay: 5_000_000 },
  today: { day: "2026-01-15", events: 61_204, bytes: 31_990_112, eventsOfOneId: 412, bytesOfOneId: 260_118 },
  reached: [{ limit: "eventsADay", at: "2026-01-12T21:14:09.120Z" }],
};

export const limitOperations: readonly Operation[] = [
  {
    id: "setLimits",
    method: "put",
    path: path("/apps/{appId}/limits"),
    tag,
    access,
    summary: "Set the limits of analytics",
    description: "For one mode. Takes effect at once. They count and drop only what publishable keys send.",
    params: ofApp,
    body: { schema: setLimitsInput, example: { mode: "live", analytics: { eventsADay: 5_000_000 } } },
    success: { description: "The limits in force, and what was used today.", schema: limitsOutput, example: limits },
    errors: [],
  },
  {
    id: "getLimits",
    method: "get",
    path: path("/apps/{appId}/limits"),
    tag,
    access,
    summary: "Get the limits of analytics, and what was used today",
    description: "For one mode.",
    params: ofApp,
    query: readLimitsInput,
    success: { description: "The limits in force, and what was used today.", schema: limitsOutput, example: limits },
    errors: [],
  },
];
