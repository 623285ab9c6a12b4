import * as z from "zod";
import { type Below, percentThousandths, requireAlert } from "../../books/alerts/alerts.ts";
import { unit } from "../../books/amounts/amount-fields.ts";
import { anyNumber, mode } from "../../http/fields.ts";
import { lazy } from "../../http/lazy.ts";
import { words } from "../../lib/words.ts";
import type { AdminCtx } from "../../runtime.ts";
import { appId, EXAMPLE } from "../common.ts";

export const alertParams = lazy(() =>
  z.object({ appId, alertId: z.string().meta(words("The id of the alert, `alr_…`.", "alr_7hNc4kR9wZ2yTfBq8mLx3D")) }),
);

export const exampleNewAlert = {
  mode: "live",
  name: "Nearly used up",
  unit: "tokens",
  below: { percent: 20 },
} as const;

export const exampleAlert = {
  alertId: "alr_7hNc4kR9wZ2yTfBq8mLx3D",
  event: null,
  createdAt: EXAMPLE.createdAt,
  ...exampleNewAlert,
};

export const exampleNotices = { mode: "live" as const, days: [30, 7, 1] };

/** Loads the alert of the path, by which a key's rights are judged. */
export const loadAlert = (admin: AdminCtx, path: { readonly appId: string; readonly alertId: string }) =>
  requireAlert(admin, path.appId, path.alertId);

export const alertOutput = /* @__PURE__ */ lazy(() =>
  z
    .strictObject({
      alertId: z.string().meta(words("The alert's id.", "alr_7hNc4kR9wZ2yTfBq8mLx3D")),
      mode,
      name: z.string().meta(words("The name, for people.", "Nearly used up")),
      unit,
      event: z.string().nullable().meta(words("Null: every balance of the unit is watched.", "chat.completed")),
      below: z
        .union([
          z.strictObject({ amount: z.number().meta(words("The amount, in the unit.", 120)) }),
          z.strictObject({
            percent: z.number().meta(words("The percentage of the initial amounts of the active balances.", 20)),
          }),
        ])
        .meta(words("The threshold: the alert fires when less than this remains.")),
      createdAt: z
        .string()
        .meta({ format: "date-time" })
        .meta(words("When it was created.", "2026-01-15T12:00:00.000Z")),
    })
    .meta({ id: "Alert" }),
);

export const expiryNoticesOutput = /* @__PURE__ */ lazy(() =>
  z
    .strictObject({
      appId: z.string().meta(words("The application's id.", "app_3kDw9pX1sB6vMn0qTzR7Ge")),
      mode,
      days: z.array(z.int()).meta(words("The most days first.", [30, 7, 1])),
    })
    .meta({ id: "ExpiryNotices" }),
);

export const below = lazy(() =>
  z
    .strictObject(
      {
        amount: anyNumber.optional().meta(words("In the alert's unit.", 120)),
        percent: anyNumber
          .optional()
          .meta(
            words(
              "A percentage of the initial amounts of the user's active balances: above 0, at most 100, with at most 3 decimals.",
              20,
            ),
          ),
      },
      {
        error: ({ input }) =>
          typeof input === "number" ? "must be an object, such as `{ amount: 100 }` or `{ percent: 20 }`" : undefined,
      },
    )
    .refine(
      ({ amount, percent }) => (amount === undefined) !== (percent === undefined),
      "must have either an amount or a percent",
    )
    .meta({
      id: "AlertBelow",
      wrongNames: { amount: "value quantity credits tokens count seconds cents", percent: "percentage share fraction" },
      minProperties: 1,
      maxProperties: 1,
    }),
);

/** Rejects values that are invalid in every unit. */
export function checkBelow(
  { amount, percent }: Below,
  context: z.core.$RefinementCtx,
  path: readonly string[] = [],
): void {
  const reject = (field: string, message: string) =>
    context.addIssue({ code: "custom", path: [...path, field], message });
  if (amount !== undefined && !(amount > 0)) reject("amount", "must be above 0");
  if (percent === undefined) return;
  if (!(percent > 0 && percent <= 100)) reject("percent", "must be above 0 and at most 100");
  else if (percentThousandths(percent) === null) reject("percent", "must have at most 3 decimals");
}
