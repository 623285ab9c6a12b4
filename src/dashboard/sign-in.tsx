import type { Context } from "hono";
import { deleteCookie, setCookie } from "hono/cookie";
import * as z from "zod/mini";
import { beginSession, endSession, sessionSeconds } from "../access/admin-session.ts";
import { isAdminToken } from "../access/admin-tries.ts";
import { PurserError } from "../errors.ts";
import { readForm } from "../http/body.ts";
import { displayName } from "../http/fields.ts";
import { Field, Hidden } from "./components.tsx";
import { createDashboardRoutes, type DashboardEnv } from "./env.ts";
import { parseForm } from "./form.ts";
import { page } from "./layout.tsx";
import { assertSameOrigin, requireSignIn } from "./require-sign-in.ts";
import { adminTokenOf, COOKIE } from "./session.ts";

/** The page after a sign-in: always a page of the dashboard. */
const destination = (next: string | undefined): string =>
  next !== undefined && /^\/admin\/apps[\w/.~%-]*$/.test(next) ? next : "/admin/apps";

interface Refused {
  readonly name?: string;
  readonly refusal?: PurserError;
}

const signInPage = (c: Context<DashboardEnv>, next: string | undefined, { name, refusal }: Refused = {}) =>
  page(
    c,
    { title: "Sign in", refusal },
    <form method="post" action="/admin/sign-in" class="card signin">
      <p class="soft">Use the admin token (the deployment's ADMIN_TOKEN).</p>
      <Hidden fields={{ next: destination(next) }} />
      <div class="row">
        <Field label="Your name (optional, for the audit log)" name="name" value={name} autocomplete="username" />
        <Field label="Admin token" name="token" type="password" required autocomplete="current-password" />
        <button type="submit">Sign in</button>
      </div>
    </form>,
  );

/** The name for the audit. Throws `invalid_request` for one that is malformed. */
function readName(name: string): string {
  return name === "" ? "dashboard" : parseForm(z.object({ name: displayName() }), { name }).name;
}

async function checkToken(c: Context<DashboardEnv>, token: string): Promise<void> {
  assertSameOrigin(c);
  if (!(await isAdminToken(c, token, adminTokenOf(c.var.root.settings)))) {
    throw new PurserError("invalid_key", "Wrong admin token.");
  }
}

const cookieOptions = (c: Context<DashboardEnv>) => ({
  path: "/admin",
  httpOnly: true,
  sameSite: "Strict" as const,
  // Browsers ignore a Secure cookie from a plain http server, such as a local one.
  secure: new URL(c.req.url).protocol === "https:",
});

export const signInRoutes = () =>
  createDashboardRoutes()
    .get("/sign-in", async (c) => {
      const { settings } = c.var.root;
      adminTokenOf(settings);
      // With Cloudflare Access, a request that gets here is signed in.
      return settings.access === null ? signInPage(c, c.req.query("next")) : c.redirect("/admin/apps", 303);
    })
    .post("/sign-in", async (c) => {
      const { settings } = c.var.root;
      const adminToken = adminTokenOf(settings);
      if (settings.access !== null) throw new PurserError("forbidden", "This dashboard uses Cloudflare Access.");
      const { next: wanted, token = "", name = "" } = await readForm(c.req.raw);
      let cookie: string;
      try {
        const by = readName(name);
        await checkToken(c, token);
        cookie = await beginSession(c.var.root, adminToken, by);
      } catch (error) {
        if (!(error instanceof PurserError)) throw error;
        for (const [name, value] of Object.entries(error.headers)) c.header(name, value);
        return signInPage(c, wanted, { name, refusal: error });
      }
      setCookie(c, COOKIE, cookie, { ...cookieOptions(c), maxAge: sessionSeconds });
      return c.redirect(destination(wanted), 303);
    })
    .post("/sign-out", requireSignIn, async (c) => {
      if (c.var.session.isByAccess) return c.redirect("/cdn-cgi/access/logout", 303);
      await endSession(c.var.root, c.var.session.sessionId);
      deleteCookie(c, COOKIE, cookieOptions(c));
      return c.redirect("/admin/sign-in", 303);
    });
