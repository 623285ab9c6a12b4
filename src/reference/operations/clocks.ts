import { clockOutput } from "../../clocks/responses.ts";
import { setClockInput } from "../../clocks/schemas.ts";
import type { Operation } from "../operation.ts";
import { access, ofApp, path, tag } from "./administration.ts";

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
      "Test mode alone, and forward alone, at most ten years ahead of real time; it runs on from there. What lies in between is done in its order, each at its own moment: holds return or are charged, notices and messages go out, balances expire. `advancing`: the cron does the rest, and meanwhile the environment's time is the moment reached. The same `now` again is answered as the first, and goes on. Everything of the environment follows its time but links, sessions, signatures, attempts of webhooks, erasures and retention.",
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
    description: "`now` is null while it has no clock, and real time is its time.",
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
      "Only while it holds no credits, usage, payments or people, else `invalid_request`: their times would lie in the future.",
    params: ofApp,
    success: { description: "Real time.", schema: clockOutput, example: { now: null, status: "ready" } },
    errors: ["invalid_request"],
  },
];
