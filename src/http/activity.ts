import { pendingFlush } from "../db/activity.ts";
import { factory } from "./factory.ts";

/** Writes the overview's figures behind the answer. Tests that call the app in process have no runtime to do it. */
export const recordActivity = factory.createMiddleware(async (c, next) => {
  await next();
  try {
    const { executionCtx } = c;
    const writing = pendingFlush(c.env.DB, c.var.world.now());
    if (writing !== null) executionCtx.waitUntil(writing);
  } catch {}
});
