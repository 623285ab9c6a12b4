import { systemCtx } from "./access/open-root.ts";
import { walkBusiness } from "./activity/walk-business.ts";
import { randomId } from "./lib/ids.ts";
import type { Runtime } from "./runtime.ts";
import { report } from "./scheduled.ts";

const realRuntime: Runtime = { isolate: {}, now: () => Date.now(), newId: randomId };

/** The cron's work for the dashboard: the figures of its overview. Nothing else waits for it. */
export async function computeFigures(env: Env, runtime: Runtime = realRuntime): Promise<void> {
  report("figures_not_computed", await walkBusiness(systemCtx(env, runtime)));
}
