import { openDb } from "../db/client.ts";
import { factory } from "../http/factory.ts";
import { readSettings } from "../settings.ts";

/** Sets `root` for a route that no key opens, such as a download link: what it may see, its verb finds out. */
export const openRoot = factory.createMiddleware(async (c, next) => {
  const { db } = openDb(c.env.DB, "first-primary");
  c.set("root", { ...c.var.world, db, settings: readSettings(c.env) });
  await next();
});
