import * as z from "zod";
import { requireLimit } from "../../books/limits/limits.ts";
import { limitParams } from "../../books/limits/schemas.ts";
import type { AdminCtx } from "../../runtime.ts";
import { appId, EXAMPLE } from "../common.ts";

const limitId = "lim_5qWc1nY8aJ3vRb7kTxE2Mz";

export const usageLimitParams = z.lazy(() => z.object({ appId, limitId: limitParams.unwrap().shape.limitId }));

export const newLimit = {
  name: "Free messages",
  matches: [{ event: "chat.*" }],
  unit: "count",
  amount: 50,
  every: "day",
};

export const exampleLimit = { limitId, mode: "live", ...newLimit, createdAt: EXAMPLE.createdAt };

export const userLimit = { limitId, ...newLimit, used: 12, remaining: 38, resetsAt: "2026-01-17T00:00:00.000Z" };

/** Loads the usage limit of the path, by which a key's rights are judged. */
export const loadLimit = (admin: AdminCtx, path: { readonly appId: string; readonly limitId: string }) =>
  requireLimit(admin, path.appId, path.limitId);
