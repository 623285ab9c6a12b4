import { and, eq, isNull } from "drizzle-orm";
import type { Context } from "hono";
import { routePath } from "hono/route";
import { drizzle, fields, query, type ValueOf } from "../db/query.ts";
import { adminKeys } from "../db/schema.ts";
import { all } from "../db/sql.ts";
import type { AppEnv } from "../http/factory.ts";
import { sha256 } from "../lib/hash.ts";
import type { AdminRights, SystemCtx } from "../runtime.ts";
import { countArrival, countKey, isFoundUnknown, noteFound } from "./arrivals.ts";
import { invalidKey } from "./key.ts";
import { refusePage } from "./refuse-page.ts";

const KIND = { kind: "admin" } as const;

const selectRights = query((value: ValueOf<{ hash: string }>) =>
  drizzle
    .select(fields(adminKeys, { adminKeyId: "id", scopes: "scopes", apps: "apps", modes: "modes" }))
    .from(adminKeys)
    .where(and(eq(adminKeys.hash, value("hash")), isNull(adminKeys.revokedAtMs))),
);

const PREFIX = "/api/v1/admin";

/** Returns the name of the route in `auth/scopes.ts`. */
function routeOf(c: Context<AppEnv>): string {
  const method = c.req.method === "HEAD" ? "GET" : c.req.method;
  return `${method} ${routePath(c).slice(PREFIX.length)}`;
}

/**
 * Returns the rights of an administration key, asked of the primary of `DB` (W3a). `root` begins there. Counts the request as L2
 * says. Throws `invalid_key`, and `forbidden` in a page.
 */
export async function openAdminKey(c: Context<AppEnv>, root: SystemCtx, key: string): Promise<AdminRights> {
  await countKey(c, KIND, key, false);
  const [found] = isFoundUnknown(c, key) ? [] : await all(root.db, selectRights({ hash: await sha256(key) }));
  noteFound(c, KIND, key, found !== undefined);
  if (found === undefined) {
    await countArrival(c);
    throw invalidKey("The administration key is unknown or was revoked. Send one that this deployment has.");
  }
  refusePage(c, "adminKey");
  return { ...found, route: routeOf(c) };
}
