import * as z from "zod";
import { downloadExport, verifyLink } from "../../exports/download.ts";
import { logBug } from "../../http/error-responses.ts";
import { factory } from "../../http/factory.ts";
import { words } from "../../lib/words.ts";
import { open } from "../access.ts";
import { Unread } from "../body-by-type.ts";
import { EXAMPLE } from "../common.ts";
import { limitArrivals, openRoot } from "../enter.ts";
import { operation } from "../operation.ts";
import { exampleUserId, exportDocument } from "./export-document.ts";

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
  // People open the link in a browser, so the body of the rejection is a page. The status and the other headers stay the same (P6).
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

const examplePerson = {
  personId: "per_3nWq8sT1yB6kZc0vLx5MdE",
  distinctIds: [
    { distinctId: exampleUserId, linkedAt: "2025-11-03T09:15:00.000Z", via: null, claimedBy: null, isVerified: false },
    {
      distinctId: "0194685f-1b2c-7d3e-8f40-5a6b7c8d9e0f",
      linkedAt: "2025-11-03T09:15:00.000Z",
      via: "identify",
      claimedBy: exampleUserId,
      isVerified: false,
    },
  ],
  properties: { email: "ada@example.com", plan: "pro" },
  createdAt: "2025-11-03T09:15:00.000Z",
  lastSeenAt: "2026-01-15T11:58:21.407Z",
  isIdentified: true,
  credits: { balances: [], ledger: [], recurring: [] },
  usageLimits: [],
  notes: [],
  exports: [],
};
const pageView = {
  uuid: "0194685f-8a3c-7d11-9f2b-6c1d2e3f4a5b",
  event: "$pageview",
  distinctId: exampleUserId,
  timestamp: "2026-01-15T11:58:20.000Z",
  receivedAt: "2026-01-15T11:58:21.407Z",
  isVerified: false,
  properties: { $current_url: "https://example.com/pricing" },
};

export default operation({
  id: "downloadExport",
  method: "get",
  path: "/api/v1/export-download",
  tag: "People",
  // The headers are for every method, because the URL contains the token even when the request is rejected.
  access: open([limitArrivals, openRoot], downloadHeaders),
  // A link that is not valid gets one response, whatever its token is (P6).
  query: new Unread(() =>
    z.object({
      token: z.string().meta(words("The `token` of the `downloadUrl`.", "eyJhcHBJZCI6ImFwcF8x4oCmIn0.c2lnbmF0dXJl")),
    }),
  ),
  errors: ["invalid_or_expired_token", "export_unavailable", "rate_limited"],
  writesForId: "silent",
  ...(WITH_REFERENCE && {
    output: () => exportDocument.meta({ id: "PersonExport" }),
    summary: "Download a person's data",
    description:
      "Opens a link of `createExportLink`. The document is generated while it is sent, and has the state of one moment, " +
      "`exportedAt`. If the download is interrupted, the JSON is incomplete and does not parse. A link may be opened again. The " +
      "person is the requested id and the ids that are linked to it. A browser that opens a link which is not valid (`Accept` names " +
      "`text/html`) sees a short page instead of the JSON of the 401.",
    returns: "The document. Its JSON Schema is at `/api/v1/export-document.schema.json`.",
    example: () => ({
      output: {
        format: "json",
        exportedAt: "2026-01-15T12:00:00.000Z",
        appId: EXAMPLE.appId,
        mode: "live",
        distinctId: exampleUserId,
        person: examplePerson,
        events: { analytics: [pageView], metering: [] },
        consentLog: [],
      },
    }),
  }),
  handler: async (c) => {
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
  },
});
