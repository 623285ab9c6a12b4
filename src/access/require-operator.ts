import { openDb } from "../db/client.ts";
import { PurserError } from "../errors.ts";
import { factory } from "../http/factory.ts";
import { equalSecrets } from "../lib/hash.ts";
import { readSettings } from "../settings.ts";
import { bearerToken, invalidKey } from "./require-key.ts";

/** Requires the administrator's token. Without one in the settings there is no administration at all: 404. */
export const requireOperator = factory.createMiddleware(async (c, next) => {
  const settings = readSettings(c.env);
  if (settings.adminToken === null) throw new PurserError("not_found", "There is nothing at this path.");
  if (!(await equalSecrets(bearerToken(c), settings.adminToken))) throw invalidKey();
  const { db } = openDb(c.env.DB, "first-primary");
  // A new key is in one of these answers.
  c.header("Cache-Control", "no-store");
  c.set("root", { ...c.var.world, db, settings });
  await next();
});
