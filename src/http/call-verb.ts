import { atLatestClock, knownClock, timesOf } from "../db/clock.ts";
import { refusalIn } from "../errors.ts";
import type { TenantCtx } from "../runtime.ts";
import type { AppEnv } from "./factory.ts";

/**
 * Calls a verb with the time of its environment. If the key check or the guard of a write finds that the test clock (D3) differs
 * from the one this isolate knew, nothing has been answered or written yet, and the verb is called again with the right time.
 */
export function callVerb<Answer>(
  c: {
    readonly var: Pick<AppEnv["Variables"], "ctx" | "runtime">;
    readonly set: (name: "ctx", ctx: TenantCtx) => void;
  },
  verb: (ctx: TenantCtx) => Answer | Promise<Answer>,
): Promise<Answer> {
  return atLatestClock(async (count) => {
    const { ctx, runtime } = c.var;
    if (count > 1) c.set("ctx", { ...ctx, ...timesOf(knownClock(runtime, ctx.environment), runtime) });
    try {
      return await verb(c.var.ctx);
    } catch (error) {
      const refusal = refusalIn(error);
      // A refusal that needed no query may rest on the wrong time.
      if (refusal !== null && refusal.fault === undefined) await c.var.ctx.db.check?.();
      throw error;
    }
  });
}
