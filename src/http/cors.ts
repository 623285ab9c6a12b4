import { cors } from "hono/cors";

/** For what a browser may call with a publishable key, and nothing else (W11). */
export const browsers = cors({
  origin: "*",
  allowMethods: ["GET", "POST"],
  allowHeaders: ["authorization", "content-type", "x-user-token", "x-d1-bookmark"],
  exposeHeaders: ["x-d1-bookmark", "idempotent-replayed", "retry-after"],
  maxAge: 86_400,
});
