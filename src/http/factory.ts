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
    /** The refusal of a malformed header, such as a bookmark. The validator throws it when it validates the arguments (W8). */
    malformedHeader?: PurserError;
    /** Checks only the key, before a large body is parsed. Set on routes that need a key. */
    checkKey?: () => Promise<void>;
    /** Set once the body is read. */
    bodyBytes: Uint8Array<ArrayBuffer>;
    /** Set by `readBody`. */
    bodyText: string;
    ctx: TenantCtx;
    /** The user that the request asks about. auth/end-user.ts compares it with the user whom the token proves. */
    askedUser?: { readonly param: string; readonly userId: string };
    endUserId?: string;
    /** The context of routes without a tenant, such as download links. */
    root: SystemCtx;
    /** The context of administration. */
    admin: AdminCtx;
    /** Judges an administration key by the valid arguments. Throws `forbidden`. Set where these decide. */
    judgeArguments?: (values: object) => void;
  };
}

export const factory = { createMiddleware: createMiddleware<AppEnv> };

/** Creates the routes of a feature. */
export const createRoutes = () => new Hono<AppEnv>();

/** Answers with the result of an idempotent operation. A header marks a replay. */
export function answerOutcome<Output extends object>(
  c: Context,
  { output, replayed }: { readonly output: Output; readonly replayed: boolean },
): Response {
  if (replayed) c.header("idempotent-replayed", "true");
  return c.json(output);
}

/** Allows requests from browsers. Only routes that take a publishable key use it (W11). */
export const allowBrowsers = cors({
  origin: "*",
  allowMethods: ["GET", "POST"],
  allowHeaders: ["authorization", "content-type", "x-user-token", "x-d1-bookmark"],
  exposeHeaders: ["x-d1-bookmark", "idempotent-replayed", "retry-after", "purser-warning", "x-request-id"],
  maxAge: 86_400,
});
