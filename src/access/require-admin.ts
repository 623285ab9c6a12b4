import { PurserError } from "../errors.ts";
import { factory } from "../http/factory.ts";
import { equalSecrets } from "../lib/hash.ts";
import { rootCtx } from "./open-root.ts";
import { bearerToken, invalidKey } from "./require-key.ts";

/** Requires the administrator's token, and sets `admin`. Without a token in the settings there is no administration: 404. */
export const requireAdmin = factory.createMiddleware(async (c, next) => {
  const root = rootCtx(c.env, c.var.world);
  const { adminToken } = root.settings;
  if (adminToken === null) throw new PurserError("not_found", "There is nothing at this path.");
  if (!(await equalSecrets(bearerToken(c), adminToken))) throw invalidKey();
  // A new key is in one of these answers.
  c.header("Cache-Control", "no-store");
  c.set("admin", { ...root, caller: { kind: "admin", by: "api" } });
  await next();
});
