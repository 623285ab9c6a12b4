import { limitArrivals } from "../api/enter.ts";
import { createRoutes, referenceFile, referenceUrl } from "../http/factory.ts";

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

/** The files of the page at /docs, with the path and the type of each. Scalar draws the page from openapi.json. */
const DOCS_FILES = {
  "/": ["docs.html", "text/html; charset=utf-8"],
  "/docs.css": ["docs.css", "text/css; charset=utf-8"],
  "/docs.js": ["docs.js", "text/javascript; charset=utf-8"],
  "/scalar.js": ["scalar.js", "text/javascript; charset=utf-8"],
} as const;

/** Scalar sets styles in the page. Nothing else of the page comes from outside its own files, and nothing is sent elsewhere. */
const DOCS_POLICY =
  "default-src 'none'; script-src 'self'; style-src 'self' 'unsafe-inline'; connect-src 'self'; img-src 'self' data:; " +
  "base-uri 'none'; form-action 'none'; frame-ancestors 'none'";

/** The routes `GET /docs` and of the files that it loads: the reference for people. Browsers ask whether a file has changed. */
export const docsRoutes = createRoutes();
for (const [path, [file, type]] of Object.entries(DOCS_FILES)) {
  docsRoutes.get(path, limitArrivals, async (c) => {
    const known = c.req.header("if-none-match");
    const request = new Request(referenceUrl(file), known === undefined ? {} : { headers: { "if-none-match": known } });
    const { body, headers } = await c.env.REFERENCE.fetch(request);
    const etag = headers.get("etag");
    if (etag !== null) c.header("etag", etag);
    c.header("cache-control", "no-cache");
    c.header("content-type", type);
    c.header("content-security-policy", DOCS_POLICY);
    c.header("referrer-policy", "no-referrer");
    return body === null ? c.body(null, 304) : c.body(body, 200);
  });
}

/** The placeholder in llms.txt for the origin at which it is read. */
const ORIGIN_PLACEHOLDER = "https://origin.invalid";

/** Returns the text for a reader at `origin`. */
const atOrigin = (text: string, origin: string): string => text.replaceAll(ORIGIN_PLACEHOLDER, () => origin);
