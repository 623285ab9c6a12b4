import type { Context } from "hono";
import { PurserError } from "../errors.ts";
import type { AppEnv } from "../http/factory.ts";

const PAGE_HEADERS = {
  secret: "secret key",
  relay: "relay key",
  admin: "admin token",
  adminKey: "administration key",
} as const;

/**
 * Refuses a browser's request with a key that must stay secret: `forbidden` (W11). Browsers send both headers; the servers of
 * some frameworks send `Origin` alone.
 */
export function refusePage(c: Context<AppEnv>, kind: keyof typeof PAGE_HEADERS): void {
  if (c.req.header("origin") === undefined || c.req.header("sec-fetch-site") === undefined) return;
  const name = PAGE_HEADERS[kind];
  throw new PurserError(
    "forbidden",
    `This request comes from a page in a browser, where anybody can read its ${name}. Remove the ${name} from the page, and ` +
      "replace it. A page uses a publishable key (`pk_…`).",
  );
}
