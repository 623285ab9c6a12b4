import { factory } from "../http/factory.ts";
import { pendingFlush } from "./count.ts";

/** Writes the overview's figures behind the answer. Tests that call the app in process have no runtime to do it. */
export const recordActivity = factory.createMiddleware(async (c, next) => {
  await next();
  try {
    const { executionCtx } = c;
    const writing = pendingFlush(c.env, c.var.world.now());
    if (writing !== null) executionCtx.waitUntil(writing);
  } catch {}
});
