import { createMiddleware } from "hono/factory";

const EXPOSED = ["x-d1-bookmark", "idempotent-replayed", "retry-after", "x-request-id"];

const PREFLIGHT = {
  "access-control-allow-methods": "GET,POST",
  "access-control-allow-headers": "authorization,content-type,x-user-token,x-d1-bookmark",
  "access-control-max-age": "86400",
};

/** Allows requests from browsers. For the routes that take a publishable key, and no others (W11). */
export const allowBrowsers = createMiddleware(async (c, next) => {
  // Headers that are set before the response are part of it. Hono's own middleware would create two more responses.
  c.header("access-control-allow-origin", "*");
  c.header("access-control-expose-headers", EXPOSED.join(","));
  if (c.req.method === "OPTIONS") return c.body(null, 204, PREFLIGHT);
  await next();
});
