import { Hono } from "hono";
import { createFactory } from "hono/factory";
import type { Ctx, RootCtx, World } from "../context.ts";

/** What travels with a request. `ctx` and `root` are there behind a middleware of `access/` alone. */
export interface AppEnv {
  Bindings: Env;
  Variables: {
    requestId: string;
    world: World;
    ctx: Ctx;
    /** For routes without a tenant: administration and download links. */
    root: RootCtx;
  };
}

export const factory = createFactory<AppEnv>();

/** A feature's routes. */
export function createRoutes() {
  return new Hono<AppEnv>();
}
