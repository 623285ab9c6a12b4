import { PurserError } from "../errors.ts";
import { factory } from "../http/factory.ts";
import { equalSecrets } from "../lib/hash.ts";
import { bearerToken, invalidKey } from "./bearer.ts";
import { inDatabaseOf, systemCtx } from "./open-root.ts";

/** Requires the administrator's token, and sets `admin`. Without a token in the settings there is no administration: 404. */
export const requireAdmin = factory.createMiddleware(async (c, next) => {
  const root = systemCtx(c.env, c.var.runtime);
  const { adminToken } = root.settings;
  if (adminToken === null) throw new PurserError("not_found", "There is nothing at this path.");
  if (!(await equalSecrets(bearerToken(c), adminToken))) throw invalidKey();
  // A new key is in one of these answers.
  c.header("Cache-Control", "no-store");
  const id = c.req.param("appId") ?? c.req.param("balanceId") ?? "";
  c.set("admin", { ...inDatabaseOf(root, id), caller: { kind: "admin", by: "api" } });
  await next();
});
