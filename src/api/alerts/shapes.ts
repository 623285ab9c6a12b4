import * as z from "zod";
import { requireAlert } from "../../books/alerts/alerts.ts";
import type { AdminCtx } from "../../runtime.ts";
import { appId, EXAMPLE } from "../common.ts";

export const alertParams = z.lazy(() =>
  z.object({ appId, alertId: z.string().describe("The id of the alert, `alr_…`.") }),
);

export const newAlert = { mode: "live", name: "Nearly used up", unit: "tokens", below: { percent: 20 } } as const;

export const alert = { alertId: "alr_7hNc4kR9wZ2yTfBq8mLx3D", event: null, createdAt: EXAMPLE.createdAt, ...newAlert };

export const notices = { mode: "live" as const, days: [30, 7, 1] };

/** Loads the alert of the path, by which a key's rights are judged. */
export const loadAlert = (admin: AdminCtx, path: { readonly appId: string; readonly alertId: string }) =>
  requireAlert(admin, path.appId, path.alertId);
