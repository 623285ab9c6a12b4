import { and, eq } from "drizzle-orm";
import { clockOf, timesOf } from "../../db/clock.ts";
import { databaseIndexOf } from "../../db/databases.ts";
import { computed, drizzle, fields, query, type ValueOf } from "../../db/query.ts";
import { apps, environments } from "../../db/schema.ts";
import { all } from "../../db/sql.ts";
import { PurserError } from "../../errors.ts";
import { assert } from "../../lib/assert.ts";
import type { Environment, Mode, SystemCtx, TenantCtx } from "../../runtime.ts";

export type AppRow = typeof apps.$inferSelect;

const selectApp = query((value: ValueOf<{ appId: string }>) =>
  drizzle
    .select(fields(apps))
    .from(apps)
    .where(eq(apps.id, value("appId"))),
);

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

const selectEnvironment = query((value: ValueOf<{ appId: string; mode: Mode }>) =>
  drizzle
    .select({ ...fields(environments, "id", "appId", "mode", "endUserAuth"), ...computed({ clock: clockOf() }) })
    .from(environments)
    .where(and(eq(environments.appId, value("appId")), eq(environments.mode, value("mode")))),
);

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
