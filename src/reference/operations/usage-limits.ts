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
import type { Operation } from "../operation.ts";
import { access, appId, createdAt, ofApp, path, tag } from "./administration.ts";

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
      "For one mode, at most 20. It bounds what each user may use in a window, whatever credits there are. Windows are those of the calendar in UTC, and weeks begin on Monday. It counts from its making.",
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
    description: "Of one mode, in the order of their making.",
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
    description: "Fields that are left out stay as they are. A changed amount judges what is used so far.",
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
    description: "It refuses nothing any more, and what users have used of it is forgotten.",
    params: ofLimit,
    success: { description: "The limit as it was.", schema: usageLimitOutput, example: made },
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
      "What a user has used of each limit in the window that runs, open holds included, in the order of the limits' making.",
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
    description: "At once, also for the window that runs. Null: the limit does not bound this user.",
    access: "secret",
    params: limitParams,
    body: { schema: ownAmountInput, example: { userId: "user_42", amount: 200 } },
    success: {
      description: "How the user stands with the limit.",
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
    description: "Gives the user back the limit's amount. Again, or where there is none: 200.",
    access: "secret",
    params: limitParams,
    query: removeOwnAmountInput,
    success: { description: "How the user stands with the limit.", schema: userLimitOutput, example: ofUser },
    errors: ["not_found"],
    writesForId: "refused",
  },
];
