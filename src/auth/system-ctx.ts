import { allDatabases, openSession, parseDatabaseIndex } from "../db/session.ts";
import { assert } from "../errors.ts";
import type { Runtime, SystemCtx } from "../runtime.ts";
import { readSettings } from "../settings.ts";

/**
 * Returns the context of a verb without a tenant. It sees the latest state of each database, and `db` is `DB`. For `spend` see
 * `openSession`.
 */
export function systemCtx(env: Env, runtime: Runtime, spend?: (queries: number) => void): SystemCtx {
  const databases = allDatabases(env).map(({ index, name, d1 }) => {
    const session = openSession(d1, "first-primary", spend);
    return { index, name, db: session, readSize: session.readSize };
  });
  const [first] = databases;
  assert(first !== undefined, "a database is bound as DB");
  return { ...runtime, db: first.db, databases, settings: readSettings(env) };
}

/**
 * Returns the context in the database that an id names. If the id names none, returns `ctx` unchanged. The verb then does not find
 * the id.
 */
export function inDatabaseOf<Ctx extends SystemCtx>(ctx: Ctx, id: string): Ctx {
  const index = parseDatabaseIndex(id);
  const named = ctx.databases.find((database) => database.index === index);
  return named === undefined ? ctx : { ...ctx, db: named.db };
}
