import { createMiddleware } from "hono/factory";
import { inDatabaseOf } from "../auth/require-admin.ts";
import { inEnvironmentOf, requireApp, requireEnvironment } from "../catalog/apps/apps.ts";
import type { Mode } from "../runtime.ts";
import type { DashboardEnv } from "./env.ts";

/** Sets `ctx` for the application and mode of the path. */
export const inEnvironment = createMiddleware<DashboardEnv>(async (c, next) => {
  const appId = c.req.param("appId") ?? "";
  const admin = inDatabaseOf(c.var.admin, appId);
  const mode: Mode = c.req.param("mode") === "test" ? "test" : "live";
  const app = await requireApp(admin, appId);
  const environment = await requireEnvironment(admin, appId, mode);
  c.set("root", admin);
  c.set("admin", admin);
  c.set("appName", app.name);
  c.set("ctx", inEnvironmentOf(admin, environment));
  await next();
});
