import * as z from "zod";
import { matchRule, unit } from "../../books/amounts/amount-fields.ts";
import { EVERY } from "../../books/ledger/calendar.ts";
import { requireLimit } from "../../books/limits/limits.ts";
import { anyNumber, displayName, identifier, mode } from "../../http/fields.ts";
import { lazy } from "../../http/lazy.ts";
import { words } from "../../lib/words.ts";
import type { AdminCtx } from "../../runtime.ts";
import { appId, EXAMPLE } from "../common.ts";

const limitId = "lim_5qWc1nY8aJ3vRb7kTxE2Mz";

export const usageLimitParams = lazy(() =>
  z.object({
    appId,
    limitId: z.string().meta(words("The id of the limit, `lim_…`.", limitId)),
  }),
);

export const newLimit = {
  name: "Free messages",
  matches: [{ event: "chat.*" }],
  unit: "count",
  amount: 50,
  every: "day",
};

export const exampleLimit = {
  limitId,
  mode: "live",
  ...newLimit,
  per: "user",
  timeZone: "UTC",
  createdAt: EXAMPLE.createdAt,
};

export const userLimit = {
  limitId,
  ...newLimit,
  timeZone: "UTC",
  used: 12,
  remaining: 38,
  resetsAt: "2026-01-17T00:00:00.000Z",
};

/** Loads the usage limit of the path, by which a key's rights are judged. */
export const loadLimit = (admin: AdminCtx, path: { readonly appId: string; readonly limitId: string }) =>
  requireLimit(admin, path.appId, path.limitId);

const limit = () => ({
  limitId: z.string().meta(words("The usage limit's id.", "lim_5qWc1nY8aJ3vRb7kTxE2Mz")),
  name: z.string().meta(words("The name, for people.", "Support desk")),
  matches: z.array(matchRule).meta(words("The events that it counts. Empty: all events.")),
  unit,
});

const zoneOfWindows = () =>
  z
    .string()
    .nullable()
    .meta(words("The zone whose calendar the windows follow. Null for a minute and an hour.", "Europe/Berlin"));

export const usageLimitOutput = /* @__PURE__ */ lazy(() =>
  z
    .strictObject({
      ...limit(),
      mode,
      amount: z.number().meta(words("The amount that a user may use in a window.", 50)),
      every,
      per: limitPer.meta(words("Whom it bounds: each user, or each member of each payer.", "user")),
      timeZone: zoneOfWindows(),
      createdAt: z
        .string()
        .meta({ format: "date-time" })
        .meta(words("When it was created.", "2026-01-15T12:00:00.000Z")),
    })
    .meta({ id: "UsageLimit" }),
);

export const userLimitOutput = /* @__PURE__ */ lazy(() =>
  z
    .strictObject({
      ...limit(),
      every,
      timeZone: zoneOfWindows(),
      memberId: z
        .string()
        .nullable()
        .optional()
        .meta(words("The member whose usage it is. Null: the payer's. Absent unless a `memberId` was sent.", "user_7")),
      amount: z
        .number()
        .nullable()
        .meta(words("The user's override, or the limit's amount. Null: the user is unlimited.", 50)),
      used: z.number().meta(words("The used amount in the current window.", 12)),
      remaining: z
        .number()
        .nullable()
        .meta(words("The unused part of the amount. Never negative. Null: the user is unlimited.", 38)),
      resetsAt: z
        .string()
        .meta({ format: "date-time" })
        .meta(words("When the window ends.", "2026-01-17T00:00:00.000Z")),
    })
    .meta({ id: "UserUsageLimit" }),
);

export const rejectingLimitOutput = /* @__PURE__ */ lazy(() =>
  z
    .strictObject({
      limitId: z.string().meta(words("The usage limit's id.", "lim_5qWc1nY8aJ3vRb7kTxE2Mz")),
      memberId: z.string().nullable().meta(words("The member whose limit it is. Null: the payer's.", null)),
      name: z.string().meta(words("The name, for people.", "Backend")),
      unit,
      amount: z.number().meta(words("The amount, in the unit.", 120)),
      used: z.number().meta(words("The used amount in the current window.", 50)),
      asked: z.number().meta(words("The amount that the usage would add.", 1)),
      resetsAt: z
        .string()
        .meta({ format: "date-time" })
        .meta(words("When the window ends.", "2026-01-17T00:00:00.000Z")),
    })
    .meta({ id: "RefusingUsageLimit" }),
);

export const every = lazy(() =>
  z.enum(EVERY).meta({ id: "UsageLimitWindow", ...words("The length of a window.", "day") }),
);

export const limitPer = lazy(() =>
  z.enum(["user", "member"]).meta({ id: "UsageLimitPer", ...words("Whom it bounds.", "user") }),
);

export const limitName = () =>
  displayName().meta(words("Unique among the limits of the mode. Letter case does not matter."));

export const amountOfWindow = () =>
  anyNumber.meta(words("The amount that a user may use in a window, in the limit's unit; 0 or more."));

export const limitParams = lazy(() =>
  z.object({ limitId: z.string().meta(words("The id of the limit, `lim_…`.", "lim_5qWc1nY8aJ3vRb7kTxE2Mz")) }),
);

/** The member of a payer, in a query. */
export const memberOfLimit = lazy(() => identifier().meta(words("The member, for limits per member.", "user_7")));
