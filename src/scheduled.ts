import { systemCtx } from "./access/open-root.ts";
import { constraintOf } from "./db/constraint.ts";
import { refusalIn } from "./errors.ts";
import { randomId } from "./lib/ids.ts";
import type { Runtime } from "./runtime.ts";
import { expireReservations } from "./usage/expire.ts";

const realRuntime: Runtime = { isolate: {}, now: () => Date.now(), newId: randomId };

/** The cron's work, once a minute: it returns due holds in every database. */
export async function scheduled(env: Env, runtime: Runtime = realRuntime): Promise<void> {
  const { users, failures } = await expireReservations(systemCtx(env, runtime));
  if (failures.length === 0) return;
  // Only kinds are logged, because a message can contain a user's id.
  const kinds = failures.map((error) => refusalIn(error)?.code ?? constraintOf(error) ?? "unknown");
  console.error(JSON.stringify({ level: "error", code: "holds_not_returned", users, kinds: [...new Set(kinds)] }));
}
