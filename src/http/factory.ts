import { Hono } from "hono";
import { cors } from "hono/cors";
import { createMiddleware } from "hono/factory";
import { atLatestClock, knownClock, timesOf } from "../db/settings-snapshot.ts";
import { type PurserError, rejectionIn } from "../errors.ts";
import type { AdminCtx, EndUser, RequestedUser, Runtime, SystemCtx, TenantCtx } from "../runtime.ts";

/** The variables of a request. api/enter.ts sets `ctx`, `root` and `admin`. */
export interface AppEnv {
  Bindings: Env;
  Variables: {
    requestId: string;
    runtime: Runtime;
    /** The rejection of a malformed header, such as a bookmark. The validator throws it when it validates the arguments (W8). */
    malformedHeader?: PurserError;
    /** Checks only the key, before a large body is parsed. Set on routes that need a key. */
    checkKey?: () => Promise<void>;
    /** Set once the body is read. */
    bodyBytes: Uint8Array<ArrayBuffer>;
    /** Set by `readBody`. */
    bodyText: string;
    ctx: TenantCtx;
    /** The user that the request names. auth/end-user.ts compares it with the user of the verified token. */
    requestedUser?: RequestedUser;
    /** The user of the verified end-user token. */
    endUser?: EndUser;
    /** The context of routes without a tenant, such as download links. */
    root: SystemCtx;
    /** The context of administration. */
    admin: AdminCtx;
    /** Checks the rights of an administration key that depend on the validated arguments. Throws `forbidden`. */
    checkArguments?: (values: object) => void;
  };
}

export const factory = { createMiddleware: createMiddleware<AppEnv> };

/** Creates the routes of a feature. */
export const createRoutes = () => new Hono<AppEnv>();

const allowHeaders = (...more: string[]) =>
  cors({
    origin: "*",
    allowMethods: ["GET", "POST"],
    allowHeaders: ["authorization", "content-type", "x-user-token", "x-d1-bookmark", ...more],
    exposeHeaders: ["x-d1-bookmark", "idempotent-replayed", "retry-after", "purser-warning", "x-request-id"],
    maxAge: 86_400,
  });

/** Allows requests from browsers. Only routes that accept a publishable key use it (W11). */
export const allowBrowsers = allowHeaders();
/** Allows PostHog's clients in browsers, which may send compressed bodies. */
export const allowCaptureClients = allowHeaders("content-encoding");

/**
 * Calls a verb with the time of its environment. If the key check or the guard of a write finds a test clock (D3) that this isolate
 * did not know, nothing has been written or sent to the caller yet. The verb is then called again with the right time.
 */
export function callVerb<Answer>(
  c: {
    readonly var: Pick<AppEnv["Variables"], "ctx" | "runtime">;
    readonly set: (name: "ctx", ctx: TenantCtx) => void;
  },
  verb: (ctx: TenantCtx) => Answer | Promise<Answer>,
): Promise<Answer> {
  return atLatestClock(async (count) => {
    const { ctx, runtime } = c.var;
    if (count > 1) c.set("ctx", { ...ctx, ...timesOf(knownClock(runtime, ctx.environment), runtime) });
    try {
      return await verb(c.var.ctx);
    } catch (error) {
      const rejection = rejectionIn(error);
      // A rejection without a query may be based on the wrong time.
      if (rejection !== null && rejection.fault === undefined) await c.var.ctx.db.check?.();
      throw error;
    }
  });
}

/** The files that `npm run reference` generates from the schemas before the Worker is built. */
export type ReferenceFile = "openapi.json" | "export-document.schema.json";

/** The files that `npm run reference` builds from other sources: clients/balance, docs/llms.txt and clients/dashboard. */
type OtherFile = "purser-balance.js" | "llms.txt" | DashboardFile;
export type DashboardFile = "dashboard.css" | "dashboard.js" | "dashboard.svg" | "dashboard.version";

/** Returns the address of a file among the assets. Its host is of no effect. */
export const referenceUrl = (name: string): string => `https://reference.invalid/${name}`;

/**
 * Returns the text of a file of the reference. It is a static asset, so that the code that generates it is not part of the
 * Worker.
 */
export async function referenceFile(env: Env, name: ReferenceFile | OtherFile): Promise<string> {
  const response = await env.REFERENCE.fetch(referenceUrl(name));
  if (!response.ok) throw new Error(`The reference has no ${name}.`);
  return response.text();
}
