import { cors } from "hono/cors";

/** Allows requests from browsers. For the routes that take a publishable key, and no others (W11). */
export const allowBrowsers = cors({
  origin: "*",
  allowMethods: ["GET", "POST"],
  allowHeaders: ["authorization", "content-type", "x-user-token", "x-d1-bookmark"],
  exposeHeaders: ["x-d1-bookmark", "idempotent-replayed", "retry-after", "purser-warning", "x-request-id"],
  maxAge: 86_400,
});
