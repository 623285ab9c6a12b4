import { type Context, Hono } from "hono";
import { cors } from "hono/cors";
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
    /** Whom the request asks about, and who the end-user's token proved that it is (auth/end-user.ts). */
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

/** The answer of what happens once, whose repeats are told by a header. */
export function answerOutcome<Output extends object>(
  c: Context,
  { output, replayed }: { readonly output: Output; readonly replayed: boolean },
): Response {
  if (replayed) c.header("idempotent-replayed", "true");
  return c.json(output);
}

/** Allows requests from browsers. For the routes that take a publishable key, and no others (W11). */
export const allowBrowsers = cors({
  origin: "*",
  allowMethods: ["GET", "POST"],
  allowHeaders: ["authorization", "content-type", "x-user-token", "x-d1-bookmark"],
  exposeHeaders: ["x-d1-bookmark", "idempotent-replayed", "retry-after", "purser-warning", "x-request-id"],
  maxAge: 86_400,
});
