import { openDb } from "../db/client.ts";
import { factory } from "../http/factory.ts";
import type { RootCtx, World } from "../runtime.ts";
import { readSettings } from "../settings.ts";

/** What a verb without a tenant receives: the database's own latest state. */
export function rootCtx(env: Env, world: World): RootCtx {
  return { ...world, db: openDb(env.DB, "first-primary").db, settings: readSettings(env) };
}

/** Sets `root` for a route that no key opens, such as a download link: what it may see, its verb finds out. */
export const openRoot = factory.createMiddleware(async (c, next) => {
  c.set("root", rootCtx(c.env, c.var.world));
  await next();
});
