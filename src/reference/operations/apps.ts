import { appOutputSchema, endUserAuthOutput, listAppsOutput } from "../../catalog/apps/responses.ts";
import { createAppInput, setEndUserAuthInput } from "../../catalog/apps/schemas.ts";
import { setClockInput } from "../../clocks/clock.ts";
import { clockOutput } from "../../clocks/responses.ts";
import type { Operation } from "../operation.ts";
import { access, createdAt, ofApp, path, tag } from "./administration.ts";

export const exampleApp = { appId: "app_3kDw9pX1sB6vMn0qTzR7Ge", name: "Writing desk", database: "DB", createdAt };

const setting = { type: "jwks", url: "https://auth.example.com/.well-known/jwks.json", audience: "writing-desk" };

export const appOperations: readonly Operation[] = [
  {
    id: "createApp",
    method: "post",
    path: path("/apps"),
    tag,
    access,
    summary: "Create an application",
    description: "Creates its live and test environments, without keys.",
    body: { schema: createAppInput, example: { name: "Writing desk" } },
    success: { description: "The application.", schema: appOutputSchema, example: exampleApp },
    errors: [],
  },
  {
    id: "listApps",
    method: "get",
    path: path("/apps"),
    tag,
    access,
    summary: "List applications",
    description: "All applications, oldest first. An administration key gets only its own.",
    success: { description: "The applications.", schema: listAppsOutput, example: { apps: [exampleApp] } },
    errors: [],
  },
  {
    id: "setEndUserAuth",
    method: "put",
    path: path("/apps/{appId}/end-user-auth"),
    tag,
    access,
    summary: "Set how user tokens are verified",
    description:
      "For one mode. Takes effect at once, and for reads at a replica within seconds. A secret is not shown again.",
    params: ofApp,
    body: { schema: setEndUserAuthInput, example: { mode: "live", setting } },
    success: {
      description: "The setting, without its secret.",
      schema: endUserAuthOutput,
      example: { appId: exampleApp.appId, mode: "live", setting },
      warns: true,
    },
    errors: ["secrets_unavailable"],
  },
];

const now = "2026-02-15T12:00:00.000Z";
const ready = { now, status: "ready" };

export const clockOperations: readonly Operation[] = [
  {
    id: "setTestClock",
    method: "put",
    path: path("/apps/{appId}/clock"),
    tag,
    access,
    summary: "Set the time of the test environment",
    description:
      "Test mode only. The clock moves only forward, at most ten years ahead of real time, and then runs at the speed of real time. Everything that is due in between happens in order, each at its own time: holds return or are charged, notices and messages are sent, balances expire. `advancing`: the cron does the rest, and meanwhile the environment's time is the reached moment. The same `now` again returns the first response and continues. Links, sessions, signatures, delivery attempts, erasures and retention use real time.",
    params: ofApp,
    body: { schema: setClockInput, example: { now } },
    success: {
      description: "The time that was set.",
      schema: clockOutput,
      example: ready,
      replayable: true,
    },
    errors: [],
  },
  {
    id: "getTestClock",
    method: "get",
    path: path("/apps/{appId}/clock"),
    tag,
    access,
    summary: "Get the time of the test environment",
    description: "`now` is null without a clock. Then the environment uses real time.",
    params: ofApp,
    success: { description: "The environment's time.", schema: clockOutput, example: ready },
    errors: [],
  },
  {
    id: "removeTestClock",
    method: "delete",
    path: path("/apps/{appId}/clock"),
    tag,
    access,
    summary: "Take the test environment back to real time",
    description:
      "Only while the environment has no credits, usage, payments or people, because their times would be in the future; otherwise `invalid_request`.",
    params: ofApp,
    success: { description: "Real time.", schema: clockOutput, example: { now: null, status: "ready" } },
    errors: ["invalid_request"],
  },
];
