import { createMiddleware } from "hono/factory";
import type { DashboardEnv } from "./env.ts";

const HEADERS = {
  "Content-Security-Policy":
    "default-src 'none'; script-src 'self'; style-src 'self'; img-src 'self' data:; connect-src 'self'; " +
    "form-action 'self'; base-uri 'none'; frame-ancestors 'none'",
  "Cross-Origin-Opener-Policy": "same-origin",
  // Not `no-referrer`: under it browsers send forms with `Origin: null`.
  "Referrer-Policy": "same-origin",
  "X-Content-Type-Options": "nosniff",
  "X-Frame-Options": "DENY",
  "X-Robots-Tag": "noindex",
  "Cache-Control": "no-store",
};

/** Headers of every dashboard response: no foreign scripts, files or frames, and no caching. */
export const protect = createMiddleware<DashboardEnv>(async (c, next) => {
  for (const [name, value] of Object.entries(HEADERS)) c.header(name, value);
  await next();
});
