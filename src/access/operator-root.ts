import { openDb } from "../db/client.ts";
import type { RootCtx, World } from "../runtime.ts";
import { readSettings } from "../settings.ts";

/** What the administrator's verbs receive: no tenant yet, and the database's own latest state. */
export function operatorRoot(env: Env, world: World): RootCtx {
  return { ...world, db: openDb(env.DB, "first-primary").db, settings: readSettings(env) };
}
