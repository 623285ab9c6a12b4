import { allDatabases, databaseIndexOf } from "../db/databases.ts";
import { openSession } from "../db/session.ts";
import { factory } from "../http/factory.ts";
import { assert } from "../lib/assert.ts";
import type { Runtime, SystemCtx } from "../runtime.ts";
import { readSettings } from "../settings.ts";

/** What a verb without a tenant receives: the latest state of each database, `DB` before all. `spend` as in `openSession`. */
export function systemCtx(env: Env, runtime: Runtime, spend?: (queries: number) => void): SystemCtx {
  const databases = allDatabases(env).map(({ index, name, d1 }) => ({
    index,
    name,
    db: openSession(d1, "first-primary", spend),
  }));
  const [first] = databases;
  assert(first !== undefined, "a database is bound as DB");
  return { ...runtime, db: first.db, databases, settings: readSettings(env) };
}

/** The same in the database that an id names; as it was for an id that names none, which is then found nowhere. */
export function inDatabaseOf<TenantCtx extends SystemCtx>(ctx: TenantCtx, id: string): TenantCtx {
  const index = databaseIndexOf(id);
  const named = ctx.databases.find((database) => database.index === index);
  return named === undefined ? ctx : { ...ctx, db: named.db };
}

/** Sets `root` for a route that no key opens, such as a download link: what it may see, its verb finds out. */
export const openRoot = factory.createMiddleware(async (c, next) => {
  c.set("root", systemCtx(c.env, c.var.runtime));
  await next();
});
