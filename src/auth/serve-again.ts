import type { Context } from "hono";
import type { AppEnv } from "../http/factory.ts";

const TIMES_MAX = 8;
/** Requests that are served anew, with their ids, and how often. */
const served = new WeakMap<Request, { readonly requestId: string; readonly count: number }>();

/** The id of a request that is served anew: it is the same request to whoever sent it. */
export const idOfServed = (request: Request): string | undefined => served.get(request)?.requestId;

type Serve = (
  request: Request,
  env: Env,
  executionCtx?: Context<AppEnv>["executionCtx"],
) => Promise<Response> | Response;

/**
 * Serves a request anew whose key came with another test clock than this isolate knew (D3), once it is known. Nothing of the first
 * time was told or written. Null where it was tried often, and for a body that was not kept.
 */
export async function serveAgain(c: Context<AppEnv>, serve: Serve): Promise<Response | null> {
  const { raw } = c.req;
  const count = (served.get(raw)?.count ?? 0) + 1;
  const body = c.var.bodyBytes;
  if (count > TIMES_MAX || (raw.body !== null && body === undefined)) return null;
  const init = { method: raw.method, headers: raw.headers };
  const request: Request = new Request(raw.url, raw.body === null ? init : { ...init, body });
  served.set(request, { requestId: c.var.requestId, count });
  return serve(request, c.env, executionCtxOf(c));
}

function executionCtxOf(c: Context<AppEnv>): Context<AppEnv>["executionCtx"] | undefined {
  try {
    return c.executionCtx;
  } catch {
    return undefined;
  }
}
