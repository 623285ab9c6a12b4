import type { Context } from "hono";
import { deleteCookie, setCookie } from "hono/cookie";
import * as z from "zod";
import { beginSession, endSession, formToken, sessionIdOf, sessionSeconds } from "../auth/admin-session.ts";
import { isAdminToken } from "../auth/require-admin.ts";
import { PurserError } from "../errors.ts";
import { readForm } from "../http/body.ts";
import { displayName } from "../http/fields.ts";
import { Hidden } from "./components.tsx";
import { createDashboardRoutes, type DashboardEnv } from "./env.ts";
import { parseForm } from "./form.ts";
import { page } from "./layout.tsx";
import { assertSameOrigin, requireSignIn } from "./require-sign-in.ts";
import { adminTokenOf, COOKIE, cookieOptions } from "./session.ts";
import { destination, type KeptForm, readKeptForm, signInPage } from "./sign-in-page.tsx";

/** The name for the audit. Throws `invalid_request` for one that is malformed. */
function readName(name: string): string {
  return name === "" ? "dashboard" : parseForm(z.object({ name: displayName() }), { name }).name;
}

async function checkToken(c: Context<DashboardEnv>, token: string): Promise<void> {
  assertSameOrigin(c);
  if (!(await isAdminToken(c, token, adminTokenOf(c.var.root.settings)))) {
    throw new PurserError("invalid_key", "Wrong admin token.", { param: "token" });
  }
}

/** Asks whether a form that was kept over the sign-in is to be sent. */
async function keptFormPage(c: Context<DashboardEnv>, kept: KeptForm, sessionId: string) {
  const _form = await formToken(adminTokenOf(c.var.root.settings), sessionId);
  return page(
    c,
    { title: "Signed in" },
    <form method="post" action={kept.path} class="card">
      <Hidden fields={{ ...kept.fields, _form }} />
      <p>The form that you sent before is kept. It has changed nothing yet.</p>
      <div class="row">
        <button type="submit">Send the form</button>
        <a class="button quiet" href="/admin/apps">
          Discard it
        </a>
      </div>
    </form>,
  );
}

export const signInRoutes = () =>
  createDashboardRoutes()
    .get("/sign-in", async (c) => {
      const { settings } = c.var.root;
      adminTokenOf(settings);
      // With Cloudflare Access, a request that gets here is signed in.
      return settings.access === null ? signInPage(c, { next: c.req.query("next") }) : c.redirect("/admin/apps", 303);
    })
    .post("/sign-in", async (c) => {
      const { settings } = c.var.root;
      const adminToken = adminTokenOf(settings);
      if (settings.access !== null) throw new PurserError("forbidden", "This dashboard uses Cloudflare Access.");
      const { next, token = "", name = "", ...form } = await readForm(c.req.raw);
      const kept = readKeptForm(form.kept);
      let cookie: string;
      try {
        const by = readName(name);
        await checkToken(c, token);
        cookie = await beginSession(c.var.root, adminToken, by);
      } catch (error) {
        if (!(error instanceof PurserError)) throw error;
        for (const [name, value] of Object.entries(error.headers)) c.header(name, value);
        return signInPage(c, { next, kept, name, refusal: error });
      }
      setCookie(c, COOKIE, cookie, { ...cookieOptions(c), maxAge: sessionSeconds });
      return kept === null ? c.redirect(destination(next), 303) : keptFormPage(c, kept, sessionIdOf(cookie));
    })
    .post("/sign-out", requireSignIn, async (c) => {
      if (c.var.session.isByAccess) return c.redirect("/cdn-cgi/access/logout", 303);
      await endSession(c.var.root, c.var.session.sessionId);
      deleteCookie(c, COOKIE, cookieOptions(c));
      return c.redirect("/admin/sign-in", 303);
    });
