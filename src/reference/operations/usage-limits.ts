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
import { appId, appParams, EXAMPLE, ofAdministration } from "./common.ts";

const limitId = "lim_5qWc1nY8aJ3vRb7kTxE2Mz";
const usageLimitParams = z.object({ appId, limitId: limitParams.unwrap().shape.limitId });
const newLimit = { name: "Free messages", matches: [{ event: "chat.*" }], unit: "count", amount: 50, every: "day" };
const exampleLimit = { limitId, mode: "live", ...newLimit, createdAt: EXAMPLE.createdAt };
const userLimit = { limitId, ...newLimit, used: 12, remaining: 38, resetsAt: "2026-01-17T00:00:00.000Z" };

/** Usage limits, and how much of them a user has used. */
export const usageLimitOperations: readonly Operation[] = [
  {
    id: "getUsageLimits",
    method: "get",
    path: "/api/v1/usage/limits",
    tag: "Usage",
    summary: "Get a user's usage limits",
    description:
      "Returns the used amount of each limit in the current window, including open holds, in the order in which the " +
      "limits were created.",
    access: "end-user",
    query: readUserLimitsInput,
    success: { description: "The limits.", schema: userLimitsOutput, example: { limits: [userLimit] } },
    errors: [],
  },
  {
    id: "setOwnUsageLimit",
    method: "put",
    path: "/api/v1/usage/limits/{limitId}/amount",
    tag: "Usage",
    summary: "Set a user's own amount of a limit",
    description:
      "Sets an amount that replaces the amount of the limit for one user. It takes effect at once, also in the " +
      "current window. If the amount is null, the limit does not apply to this user.",
    access: "secret",
    params: limitParams,
    body: { schema: ownAmountInput, example: { userId: "user_42", amount: 200 } },
    success: {
      description: "The user's use of the limit.",
      schema: userLimitOutput,
      example: { ...userLimit, amount: 200, remaining: 188 },
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
    description: "Restores the limit's own amount for the user. Returns 200 also if the user has no own amount.",
    access: "secret",
    params: limitParams,
    query: removeOwnAmountInput,
    success: { description: "The user's use of the limit.", schema: userLimitOutput, example: userLimit },
    errors: ["not_found"],
    writesForId: "refused",
  },
  ...ofAdministration([
    {
      id: "createUsageLimit",
      method: "post",
      path: "/apps/{appId}/usage-limits",
      summary: "Create a usage limit",
      description:
        "Creates a limit in one mode, which may have at most 20. The limit sets how much each user may use in a " +
        "window, independent of credits. Windows follow the calendar in UTC, and weeks begin on Monday. The limit " +
        "counts from its creation.",
      params: appParams,
      body: { schema: createLimitInput, example: { mode: "live", ...newLimit } },
      success: { description: "The limit.", schema: usageLimitOutput, example: exampleLimit },
      errors: [],
    },
    {
      id: "listUsageLimits",
      method: "get",
      path: "/apps/{appId}/usage-limits",
      summary: "List usage limits",
      description: "Returns the limits of one mode, in the order of creation.",
      params: appParams,
      query: listLimitsInput,
      success: { description: "The limits.", schema: listLimitsOutput, example: { limits: [exampleLimit] } },
      errors: [],
    },
    {
      id: "changeUsageLimit",
      method: "patch",
      path: "/apps/{appId}/usage-limits/{limitId}",
      summary: "Change a usage limit",
      description: "Changes the fields that you send. After a change of the amount, the used amount stays.",
      params: usageLimitParams,
      body: { schema: changeLimitInput, example: { amount: 60 } },
      success: { description: "The limit.", schema: usageLimitOutput, example: { ...exampleLimit, amount: 60 } },
      errors: [],
    },
    {
      id: "deleteUsageLimit",
      method: "delete",
      path: "/apps/{appId}/usage-limits/{limitId}",
      summary: "Delete a usage limit",
      description: "Deletes the limit and its counters. It no longer applies.",
      params: usageLimitParams,
      success: { description: "The deleted limit.", schema: usageLimitOutput, example: exampleLimit },
      errors: [],
    },
  ]),
];
