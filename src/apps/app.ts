import { and, asc, eq } from "drizzle-orm";
import { apps, environments } from "../db/schema.ts";
import { PurserError } from "../errors.ts";
import { assert } from "../lib/assert.ts";
import type { Environment, Mode, RootCtx } from "../runtime.ts";

/** Throws `not_found` for an application that is not there. */
export async function requireApp(root: RootCtx, appId: string): Promise<typeof apps.$inferSelect> {
  const [app] = await root.db.select().from(apps).where(eq(apps.id, appId));
  if (app === undefined) throw new PurserError("not_found", "There is no such application.", { param: "appId" });
  return app;
}

export interface StoredEnvironment extends Environment {
  /** The end-user token setting as JSON, or null. */
  readonly endUserAuth: string | null;
}

/** One application's environment for a mode: both are made with it. Throws `not_found`. */
export async function requireEnvironment(root: RootCtx, appId: string, mode: Mode): Promise<StoredEnvironment> {
  const [found] = await root.db
    .select()
    .from(environments)
    .where(and(eq(environments.appId, appId), eq(environments.mode, mode)))
    .orderBy(asc(environments.id));
  if (found !== undefined) return { id: found.id, appId, mode, endUserAuth: found.endUserAuth };
  await requireApp(root, appId);
  assert(false, "an application has both its environments");
}
