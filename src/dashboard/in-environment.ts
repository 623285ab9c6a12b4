import { createMiddleware } from "hono/factory";
import { requireApp, requireEnvironment } from "../apps/app.ts";
import type { Mode } from "../runtime.ts";
import type { DashboardEnv } from "./env.ts";

/** Brings the tenant that the path names. */
export const inEnvironment = createMiddleware<DashboardEnv>(async (c, next) => {
  const { admin } = c.var;
  const appId = c.req.param("appId") ?? "";
  const mode: Mode = c.req.param("mode") === "test" ? "test" : "live";
  const app = await requireApp(admin, appId);
  const { id } = await requireEnvironment(admin, appId, mode);
  c.set("appName", app.name);
  c.set("ctx", { ...admin, environment: { id, appId, mode } });
  await next();
});
