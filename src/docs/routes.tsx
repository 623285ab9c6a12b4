import { html } from "hono/html";
import { encodeBase64 } from "hono/utils/encode";
import { createRoutes } from "../http/factory.ts";
import { Page } from "./page.tsx";
import { style } from "./style.ts";

let policy: Promise<string> | undefined;

/** Nothing may be loaded, run, framed or sent; the one style sheet is let in by its hash. */
async function contentSecurityPolicy(): Promise<string> {
  const digest = await crypto.subtle.digest("SHA-256", new TextEncoder().encode(style));
  return `default-src 'none'; style-src 'sha256-${encodeBase64(digest)}'; base-uri 'none'; form-action 'none'; frame-ancestors 'none'`;
}

/** `GET /docs`: the reference for people, made of openapi.json. */
export const docsRoutes = createRoutes().get("/", async (c) => {
  policy ??= contentSecurityPolicy();
  c.header("Content-Security-Policy", await policy);
  c.header("X-Content-Type-Options", "nosniff");
  c.header("Referrer-Policy", "no-referrer");
  return c.html(html`<!DOCTYPE html>${<Page origin={new URL(c.req.url).origin} />}`);
});
