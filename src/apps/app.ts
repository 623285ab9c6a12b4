import { clockSql, timesOf } from "../db/clock.ts";
import { databaseIndexOf } from "../db/databases.ts";
import { all, type RowOf, select, statement } from "../db/sql.ts";
import { apps } from "../db/tables.ts";
import { PurserError } from "../errors.ts";
import { assert } from "../lib/assert.ts";
import type { Environment, Mode, SystemCtx, TenantCtx } from "../runtime.ts";

export const appColumns = { id: apps.id, name: apps.name, createdAtMs: apps.createdAtMs };
export type AppRow = RowOf<typeof appColumns>;

const selectApp = statement<{ appId: string }, AppRow>`
  SELECT ${select(appColumns)} FROM apps WHERE id = :appId`;

/** Throws `not_found` for an application that is not there. */
export async function requireApp(root: SystemCtx, appId: string): Promise<AppRow> {
  const [app] = await all(root.db, selectApp({ appId }));
  if (app === undefined)
    throw new PurserError(
      "not_found",
      "There is no application with this id. Ids are compared exactly, and begin with `app_`.",
      { param: "appId" },
    );
  return app;
}

export interface StoredEnvironment extends Environment {
  /** The end-user token setting as JSON, or null. */
  readonly endUserAuth: string | null;
  /** The test clock as text (db/clock.ts), or null. */
  readonly clock: string | null;
}

const selectEnvironment = statement<{ appId: string; mode: Mode }, Omit<StoredEnvironment, "database">>`
  SELECT id, app_id AS "appId", mode, end_user_auth AS "endUserAuth", ${clockSql("features")} AS "clock"
  FROM environments WHERE app_id = :appId AND mode = :mode`;

/** One application's environment for a mode: both are made with it. Throws `not_found`. */
export async function requireEnvironment(root: SystemCtx, appId: string, mode: Mode): Promise<StoredEnvironment> {
  const [found] = await all(root.db, selectEnvironment({ appId, mode }));
  if (found !== undefined) return { ...found, database: databaseIndexOf(appId) ?? 0 };
  await requireApp(root, appId);
  assert(false, "an application has both its environments");
}

/** The administrator's context in an environment: all of a tenant's. */
export function inEnvironmentOf<Ctx extends SystemCtx>(
  admin: Ctx,
  { id, appId, mode, database, clock }: Omit<StoredEnvironment, "endUserAuth">,
): Ctx & Omit<TenantCtx, "caller"> {
  return { ...admin, ...timesOf(clock, admin), environment: { id, appId, mode, database } };
}
