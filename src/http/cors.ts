import { cors } from "hono/cors";
import { createMiddleware } from "hono/factory";

const EXPOSED = ["x-d1-bookmark", "idempotent-replayed", "retry-after", "x-request-id"];

const preflight = cors({
  origin: "*",
  allowMethods: ["GET", "POST"],
  allowHeaders: ["authorization", "content-type", "x-user-token", "x-d1-bookmark"],
  exposeHeaders: EXPOSED,
  maxAge: 86_400,
});

/** Allows requests from browsers. For the routes that take a publishable key, and no others (W11). */
export const allowBrowsers = createMiddleware(async (c, next) => {
  if (c.req.method === "OPTIONS") return preflight(c, next);
  // Headers that are set before the response are part of it. Hono's own middleware would create two more responses.
  c.header("access-control-allow-origin", "*");
  c.header("access-control-expose-headers", EXPOSED.join(","));
  await next();
});
