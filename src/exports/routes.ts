import { limitArrivals } from "../auth/arrivals.ts";
import { openRoot } from "../auth/require-admin.ts";
import { requireSecretKey } from "../auth/require-key.ts";
import { readBody } from "../http/body.ts";
import { logBug } from "../http/errors.ts";
import { callVerb, createRoutes, factory, referenceFile } from "../http/factory.ts";
import { validate } from "../http/validate.ts";
import { createLink, exportPersonInput } from "./create-link.ts";
import { downloadExport, verifyLink } from "./download.ts";
import { revokeLinks, revokeLinksInput } from "./end-links.ts";

/** Headers for every response to a link: no caches, no other sites, no search engines, no rendering as a page (P12). */
const DOWNLOAD_HEADERS = {
  "Cache-Control": "no-store, private, no-transform",
  "Referrer-Policy": "no-referrer",
  "Content-Disposition": 'attachment; filename="person-export.json"',
  "X-Content-Type-Options": "nosniff",
  "Content-Security-Policy": "default-src 'none'; frame-ancestors 'none'; sandbox",
  "X-Robots-Tag": "noindex",
};

const downloadHeaders = factory.createMiddleware(async (c, next) => {
  for (const [name, value] of Object.entries(DOWNLOAD_HEADERS)) c.header(name, value);
  await next();
  // People open the link in a browser, so the body of the refusal is a page. The status and the other headers stay the same (P6).
  if (c.res.status !== 401 || !acceptsHtml(c.req.header("accept"))) return;
  const headers = new Headers(c.res.headers);
  headers.delete("Content-Disposition");
  headers.set("Content-Type", "text/html; charset=utf-8");
  const { status } = c.res;
  // Hono adds the headers of an earlier response to the next one.
  c.res = undefined;
  c.res = new Response(c.req.method === "HEAD" ? null : EXPIRED_PAGE, { status, headers });
});

const acceptsHtml = (accept = ""): boolean => /(^|,)\s*text\/html\s*(;|,|$)/i.test(accept);

/** The same page for every invalid link. */
const EXPIRED_PAGE = `<!doctype html>
<html lang="en">
<meta charset="utf-8">
<meta name="viewport" content="width=device-width">
<title>This link is not valid</title>
<h1>This link is not valid</h1>
<p>It has expired, was revoked, or is incomplete. Ask the sender for a new one.</p>
</html>
`;

/** The token if there is exactly one, otherwise null. */
const onlyOne = (tokens: readonly string[] | undefined): string | null => {
  const [token = null, ...others] = tokens ?? [];
  return others.length === 0 ? token : null;
};

export const exportRoutes = createRoutes()
  .post(
    "/export-person",
    requireSecretKey("requires_secret_key"),
    readBody,
    validate("json", exportPersonInput),
    async (c) =>
      c.json(
        await callVerb(c, (ctx) =>
          createLink(ctx, { ...c.req.valid("json"), requestOrigin: new URL(c.req.url).origin }),
        ),
      ),
  )
  .post(
    "/export-person/revoke",
    requireSecretKey("requires_secret_key"),
    readBody,
    validate("json", revokeLinksInput),
    async (c) => c.json(await callVerb(c, (ctx) => revokeLinks(ctx, c.req.valid("json")))),
  )
  // For every method, because the URL contains the token even when the request is refused.
  .use("/export-download", downloadHeaders)
  .get("/export-download", limitArrivals, openRoot, async (c) => {
    const token = onlyOne(c.req.queries("token"));
    c.header("Content-Type", "application/json");
    // Without this, wrangler's local server compresses the response and drops its length, in spite of `no-transform`.
    c.header("Content-Encoding", "identity");
    if (c.req.method === "HEAD") {
      await verifyLink(c.var.root, token);
      return c.body(null);
    }
    const { body, ended } = await downloadExport(c.var.root, token);
    // The audit row for the end of the download is written after the response.
    c.executionCtx.waitUntil(ended.then((cause) => (cause === null ? undefined : logBug(cause, c.var.requestId))));
    if (body instanceof Uint8Array) c.header("Content-Length", `${body.byteLength}`);
    return c.body(body);
  })
  .get("/export-document.schema.json", limitArrivals, async (c) =>
    c.body(await referenceFile(c.env, "export-document.schema.json"), 200, { "Content-Type": "application/json" }),
  );
