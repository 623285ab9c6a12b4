import { encodeBase64 } from "hono/utils/encode";
import { limitArrivals } from "../auth/arrivals.ts";
import { createRoutes, referenceFile } from "../http/factory.ts";

/** The route `GET /api/v1/openapi.json`. */
export const openApiRoutes = createRoutes().get("/openapi.json", limitArrivals, async (c) =>
  c.body(await referenceFile(c.env, "openapi.json"), 200, { "Content-Type": "application/json" }),
);

/** The routes `GET /purser-balance.js`, the element that pages of any origin load (W11), and `GET /llms.txt`. */
export const fileRoutes = createRoutes()
  .get("/purser-balance.js", limitArrivals, async (c) => {
    c.header("Access-Control-Allow-Origin", "*");
    c.header("Cross-Origin-Resource-Policy", "cross-origin");
    c.header("Cache-Control", "public, max-age=3600");
    return c.body(await referenceFile(c.env, "purser-balance.js"), 200, {
      "Content-Type": "text/javascript; charset=utf-8",
    });
  })
  .get("/llms.txt", limitArrivals, async (c) =>
    c.text(atOrigin(await referenceFile(c.env, "llms.txt"), new URL(c.req.url).origin)),
  );

/** Returns a policy that allows only the page's own style sheet, by its hash. */
async function contentSecurityPolicy(page: string): Promise<string> {
  const [, style = ""] = /<style>([^<]*)<\/style>/.exec(page) ?? [];
  const digest = await crypto.subtle.digest("SHA-256", new TextEncoder().encode(style));
  return `default-src 'none'; style-src 'sha256-${encodeBase64(digest)}'; base-uri 'none'; form-action 'none'; frame-ancestors 'none'`;
}

/** The route `GET /docs`: the reference for people, generated from openapi.json. */
export const docsRoutes = createRoutes().get("/", limitArrivals, async (c) => {
  const page = await referenceFile(c.env, "docs.html");
  c.header("Content-Security-Policy", await contentSecurityPolicy(page));
  c.header("X-Content-Type-Options", "nosniff");
  c.header("Referrer-Policy", "no-referrer");
  return c.html(atOrigin(page, new URL(c.req.url).origin));
});

/** The placeholder in the generated page for the origin at which it is read. */
export const ORIGIN_PLACEHOLDER = "https://origin.invalid";

/** Returns the page for a reader at `origin`. Escapes the host, which may have characters with a meaning in HTML. */
function atOrigin(page: string, origin: string): string {
  const escaped = origin.replace(/[&<>"']/g, (character) => `&#${character.charCodeAt(0)};`);
  return page.replaceAll(ORIGIN_PLACEHOLDER, () => escaped);
}
