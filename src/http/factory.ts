import { Hono } from "hono";
import { createMiddleware } from "hono/factory";
import type { PurserError } from "../errors.ts";
import type { AdminCtx, Runtime, SystemCtx, TenantCtx } from "../runtime.ts";

/** The variables of a request. Middleware of `auth/` sets `ctx`, `root` and `admin`. */
export interface AppEnv {
  Bindings: Env;
  Variables: {
    requestId: string;
    runtime: Runtime;
    /** The refusal of a malformed header, such as a bookmark. It is thrown when the arguments are validated (W8). */
    malformedHeader?: PurserError;
    /** Asks for the key alone, before a large body is parsed. Set where a key opens the request. */
    checkKey?: () => Promise<void>;
    /** Set where the body is read. */
    bodyBytes: Uint8Array<ArrayBuffer>;
    /** Set by `readBody`. */
    bodyText: string;
    ctx: TenantCtx;
    /** Whom the request asks about, and who the end-user's token proved that it is (auth/admit-end-user.ts). */
    askedUser?: { readonly param: string; readonly userId: string };
    endUserId?: string;
    /** For routes without a tenant, such as download links. */
    root: SystemCtx;
    /** For administration. */
    admin: AdminCtx;
  };
}

export const factory = { createMiddleware: createMiddleware<AppEnv> };

/** A feature's routes. */
export const createRoutes = () => new Hono<AppEnv>();
