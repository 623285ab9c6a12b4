import * as z from "zod";
import { listLimitsOutput, usageLimitOutput, userLimitOutput, userLimitsOutput } from "../../books/limits/responses.ts";
import {
  changeLimitInput,
  createLimitInput,
  limitParams,
  listLimitsInput,
  ownAmountInput,
  readUserLimitsInput,
  removeOwnAmountInput,
} from "../../books/limits/schemas.ts";
import { analyticsDefaults } from "../../people/limits/count.ts";
import { limitsOutput } from "../../people/limits/responses.ts";
import { readLimitsInput, setLimitsInput } from "../../people/limits/schemas.ts";
import type { Operation } from "../operation.ts";
import { access, appId, createdAt, ofApp, path, tag } from "./administration.ts";
import { exampleApp } from "./apps.ts";

const limitId = "lim_5qWc1nY8aJ3vRb7kTxE2Mz";
const ofLimit = z.object({ appId, limitId: limitParams.unwrap().shape.limitId });
const matches = [{ event: "chat.*" }];
const limit = { name: "Free messages", matches, unit: "count", amount: 50, every: "day" };
const made = { limitId, mode: "live", ...limit, createdAt };
const ofUser = { limitId, ...limit, used: 12, remaining: 38, resetsAt: "2026-01-17T00:00:00.000Z" };

/** The operations on limits, for the administrator. */
export const usageLimitOperations: readonly Operation[] = [
  {
    id: "createUsageLimit",
    method: "post",
    path: path("/apps/{appId}/usage-limits"),
    tag,
    access,
    summary: "Create a usage limit",
    description:
      "For one mode, at most 20. It bounds how much each user may use in a window, independent of credits. Windows follow the calendar in UTC, and weeks begin on Monday. It counts from its creation.",
    params: ofApp,
    body: { schema: createLimitInput, example: { mode: "live", ...limit } },
    success: { description: "The limit.", schema: usageLimitOutput, example: made },
    errors: [],
  },
  {
    id: "listUsageLimits",
    method: "get",
    path: path("/apps/{appId}/usage-limits"),
    tag,
    access,
    summary: "List usage limits",
    description: "Of one mode, in the order of creation.",
    params: ofApp,
    query: listLimitsInput,
    success: { description: "The limits.", schema: listLimitsOutput, example: { limits: [made] } },
    errors: [],
  },
  {
    id: "changeUsageLimit",
    method: "patch",
    path: path("/apps/{appId}/usage-limits/{limitId}"),
    tag,
    access,
    summary: "Change a usage limit",
    description: "Fields that are left out stay as they are. After a change of the amount, the used amount stays.",
    params: ofLimit,
    body: { schema: changeLimitInput, example: { amount: 60 } },
    success: { description: "The limit.", schema: usageLimitOutput, example: { ...made, amount: 60 } },
    errors: [],
  },
  {
    id: "deleteUsageLimit",
    method: "delete",
    path: path("/apps/{appId}/usage-limits/{limitId}"),
    tag,
    access,
    summary: "Delete a usage limit",
    description: "The limit no longer applies, and its counters are deleted.",
    params: ofLimit,
    success: { description: "The deleted limit.", schema: usageLimitOutput, example: made },
    errors: [],
  },
];

/** The operations that show how much of the limits users have used. */
export const userLimitOperations: readonly Operation[] = [
  {
    id: "getUsageLimits",
    method: "get",
    path: "/api/v1/usage/limits",
    tag: "Usage",
    summary: "Get a user's usage limits",
    description:
      "The used amount of each limit in the current window, including open holds, in the order in which the limits were created.",
    access: "end-user",
    query: readUserLimitsInput,
    success: { description: "The limits.", schema: userLimitsOutput, example: { limits: [ofUser] } },
    errors: [],
  },
  {
    id: "setOwnUsageLimit",
    method: "put",
    path: "/api/v1/usage/limits/{limitId}/amount",
    tag: "Usage",
    summary: "Set a user's own amount of a limit",
    description: "Takes effect at once, also in the current window. Null: the limit does not apply to this user.",
    access: "secret",
    params: limitParams,
    body: { schema: ownAmountInput, example: { userId: "user_42", amount: 200 } },
    success: {
      description: "The user's use of the limit.",
      schema: userLimitOutput,
      example: { ...ofUser, amount: 200, remaining: 188 },
    },
    errors: ["not_found"],
    writesForId: "refused",
  },
  {
    id: "removeOwnUsageLimit",
    method: "delete",
    path: "/api/v1/usage/limits/{limitId}/amount",
    tag: "Usage",
    summary: "Remove a user's own amount of a limit",
    description: "Restores the limit's own amount for the user. A repeat, or a call without an own amount, is 200.",
    access: "secret",
    params: limitParams,
    query: removeOwnAmountInput,
    success: { description: "The user's use of the limit.", schema: userLimitOutput, example: ofUser },
    errors: ["not_found"],
    writesForId: "refused",
  },
];

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
    description:
      "For one mode. Takes effect at once. The limits count and drop only events sent with publishable and relay keys.",
    params: ofApp,
    body: { schema: setLimitsInput, example: { mode: "live", analytics: { eventsADay: 5_000_000 } } },
    success: { description: "The current limits, and today's usage.", schema: limitsOutput, example: limits },
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
    success: { description: "The current limits, and today's usage.", schema: limitsOutput, example: limits },
    errors: [],
  },
];
