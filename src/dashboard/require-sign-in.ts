import type { Context } from "hono";
import { createMiddleware } from "hono/factory";
import { isFormToken } from "../auth/admin-session.ts";
import { PurserError } from "../errors.ts";
import { readForm } from "../http/body.ts";
import type { DashboardEnv } from "./env.ts";
import { adminTokenOf, findSession } from "./session.ts";
import { signInPage } from "./sign-in-page.tsx";

/** Refuses a form from another site. Browsers send its origin; a request without any of these headers is not from a browser. */
export function assertSameOrigin(c: Context<DashboardEnv>): void {
  const site = c.req.header("sec-fetch-site");
  const origin = c.req.header("origin");
  const isForeign =
    site === undefined
      ? origin !== undefined && (!URL.canParse(origin) || new URL(origin).host !== c.req.header("host"))
      : site !== "same-origin" && site !== "none";
  if (isForeign) throw new PurserError("forbidden", "The form was submitted from another site.");
}

/** Browsers send line breaks of a text area as CR LF. */
const withPlainLineEnds = (form: Record<string, string>): Record<string, string> =>
  Object.fromEntries(Object.entries(form).map(([name, text]) => [name, text.replaceAll("\r\n", "\n")]));

/** A form that was sent without a session is kept on the sign-in page. It is taken from this site alone. */
async function keepForm(c: Context<DashboardEnv>) {
  assertSameOrigin(c);
  const { _form, ...fields } = withPlainLineEnds(await readForm(c.req.raw));
  return signInPage(c, { kept: { path: c.req.path, fields } });
}

/** Shows the sign-in page when nobody is signed in. A form must come from this site and this session. */
export const requireSignIn = createMiddleware<DashboardEnv>(async (c, next) => {
  const session = await findSession(c);
  if (session === null) {
    if (c.req.method === "POST" && c.req.path !== "/admin/sign-out") return keepForm(c);
    const { pathname, search } = new URL(c.req.url);
    const back = c.req.method === "GET" ? `?next=${encodeURIComponent(pathname + search)}` : "";
    return c.redirect(`/admin/sign-in${back}`, 303);
  }
  c.set("session", session);
  c.set("admin", { ...c.var.root, caller: { kind: "admin", by: session.by } });
  c.set("form", {});
  if (c.req.method !== "POST") return next();
  assertSameOrigin(c);
  const form = withPlainLineEnds(await readForm(c.req.raw));
  if (!(await isFormToken(adminTokenOf(c.var.root.settings), session.sessionId, form._form ?? ""))) {
    throw new PurserError("forbidden", "The form has expired. Reload the page and try again.");
  }
  c.set("form", form);
  return next();
});
