import { Hono } from "hono";
import { createFactory } from "hono/factory";
import type { PurserError } from "../errors.ts";
import type { AdminCtx, Ctx, RootCtx, World } from "../runtime.ts";

/** What travels with a request. `ctx`, `root` and `admin` are there behind a middleware of `access/` alone. */
export interface AppEnv {
  Bindings: Env;
  Variables: {
    requestId: string;
    world: World;
    /** A header that is an argument, such as a bookmark, and is malformed: refused when the shape of arguments is (W8). */
    malformedHeader?: PurserError;
    /** Behind `limitBody`. */
    bodyBytes: Uint8Array<ArrayBuffer>;
    /** Behind `readBody`. */
    bodyText: string;
    ctx: Ctx;
    /** Whom the request asks about, and who the end-user's token proved that it is (access/admit-end-user.ts). */
    askedUser?: { readonly param: string; readonly userId: string };
    endUserId?: string;
    /** For routes without a tenant, such as download links. */
    root: RootCtx;
    /** For administration. */
    admin: AdminCtx;
  };
}

export const factory = createFactory<AppEnv>();

/** A feature's routes. */
export function createRoutes() {
  return new Hono<AppEnv>();
}
