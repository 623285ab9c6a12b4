import { deleteCookie, setCookie } from "hono/cookie";
import { createMiddleware } from "hono/factory";
import * as z from "zod";
import { incomingOf } from "../api/enter.ts";
import {
  beginSession,
  endSession,
  formToken,
  isFormToken,
  parseSessionId,
  SESSION_SECONDS,
} from "../auth/admin-session.ts";
import { isAdminToken } from "../auth/open-admin.ts";
import { invalid, PurserError } from "../errors.ts";
import { readForm } from "../http/body.ts";
import { displayName } from "../http/fields.ts";
import { UNKNOWN_KEY_BYTES_MAX } from "../http/json-body.ts";
import { SubmitButton } from "./components.tsx";
import { Field, Hidden } from "./fields.tsx";
import { createDashboardRoutes, type DashboardEnv, type Form, type PageContext, parseForm } from "./form.ts";
import { page } from "./layout.tsx";
import { COOKIE, cookieOptions, findSession, readAdminToken } from "./session.tsx";

/** Rejects a form from another site. Browsers send `Origin` or `Sec-Fetch-Site`; a request without both is not from a browser. */
function assertSameOrigin(c: PageContext): void {
  const site = c.req.header("sec-fetch-site");
  const origin = c.req.header("origin");
  const isForeign =
    site === undefined
      ? origin !== undefined && (!URL.canParse(origin) || new URL(origin).host !== c.req.header("host"))
      : site !== "same-origin" && site !== "none";
  if (isForeign) throw new PurserError("forbidden", "The form was submitted from another site.");
}

/** Replaces CR LF by LF. Browsers send line breaks of a text area as CR LF. */
const withPlainLineEnds = (form: Record<string, string>): Record<string, string> =>
  Object.fromEntries(Object.entries(form).map(([name, text]) => [name, text.replaceAll("\r\n", "\n")]));

/**
 * Keeps a form that was sent without a session on the sign-in page. Accepts forms from this site only. A large form is not read,
 * because nobody knows who sent it (L2).
 */
async function keepForm(c: PageContext) {
  assertSameOrigin(c);
  try {
    const { _form, ...fields } = withPlainLineEnds(await readForm(c.req.raw, { bytesMax: UNKNOWN_KEY_BYTES_MAX }));
    return signInPage(c, { kept: { path: pathWithQuery(c), fields } });
  } catch (error) {
    if (!(error instanceof PurserError && error.code === "payload_too_large")) throw error;
    const message =
      "Your session ended, and a form of more than 64 KiB is not kept. Sign in in another tab, and send it again.";
    return signInPage(c, { rejection: new PurserError("payload_too_large", message) });
  }
}

/** The most fields of the sign-in form. It has four. */
const SIGN_IN_FIELDS_MAX = 10;

/** Shows the sign-in page when nobody is signed in. A form must come from this site and this session. */
export const requireSignIn = createMiddleware<DashboardEnv>(async (c, next) => {
  const session = await findSession(c);
  if (session === null) {
    if (c.req.method === "POST" && c.req.path !== "/admin/sign-out") return keepForm(c);
    const back = c.req.method === "GET" ? `?next=${encodeURIComponent(pathWithQuery(c))}` : "";
    return c.redirect(`/admin/sign-in${back}`, 303);
  }
  c.set("session", session);
  c.set("admin", { ...c.var.root, caller: { kind: "admin", by: session.by } });
  c.set("form", {});
  if (c.req.method !== "POST") return next();
  assertSameOrigin(c);
  const form = withPlainLineEnds(await readForm(c.req.raw));
  if (!(await isFormToken(readAdminToken(c.var.root.settings), session.sessionId, form._form ?? ""))) {
    throw new PurserError("forbidden", "The form has expired. Reload the page and try again.");
  }
  c.set("form", form);
  return next();
});

const IN_DASHBOARD = /^\/admin\/apps(?:\/[\w.~%-]+)*\/?$/;
const QUERY = /^[\w&=%.~+*'()!:@,;/-]*$/;

function pathWithQuery(c: PageContext): string {
  const { pathname, search } = new URL(c.req.url);
  return pathname + search;
}

/** Returns the page after a sign-in: always a page of the dashboard, with its query. */
function destination(next = ""): string {
  const [path = "", query = "", ...rest] = next.split("?");
  const isPage = IN_DASHBOARD.test(path) && !path.includes("..");
  if (!isPage || !QUERY.test(query) || rest.length > 0) return "/admin/apps";
  return query === "" ? path : `${path}?${query}`;
}

/** A form that was sent after its session ended. */
export interface KeptForm {
  /** With its query. */
  readonly path: string;
  readonly fields: Form;
}

/** Returns the form that a sign-in page kept. Null when there is none, or it is not for a page of the dashboard. */
function readKeptForm(text: string | undefined): KeptForm | null {
  if (text === undefined || text === "") return null;
  try {
    const { path, fields } = JSON.parse(text) as { path?: unknown; fields?: unknown };
    if (typeof path !== "string" || destination(path) !== path || typeof fields !== "object" || fields === null)
      return null;
    const texts = Object.entries(fields).filter((field): field is [string, string] => typeof field[1] === "string");
    return { path, fields: Object.fromEntries(texts) };
  } catch {
    return null;
  }
}

interface SignIn {
  readonly next?: string | undefined;
  readonly kept?: KeptForm | null;
  readonly name?: string | undefined;
  readonly rejection?: PurserError | undefined;
}

function signInPage(c: PageContext, { next, kept = null, name, rejection }: SignIn) {
  const keptField: Record<string, string> = kept === null ? {} : { kept: JSON.stringify(kept) };
  return page(
    c,
    { title: "Sign in", rejection },
    <form method="post" action="/admin/sign-in" class="card signin">
      {kept !== null && (
        <p class="notice good" role="status">
          Your session ended before the form was sent. Nothing was changed, and the form is kept: sign in to send it.
        </p>
      )}
      <p class="soft">
        The admin token is the secret <code>ADMIN_TOKEN</code> of your deployment.
      </p>
      <Hidden fields={{ next: destination(next), ...keptField }} />
      <div class="row">
        <Field
          label="Your name"
          hint="for the audit"
          name="name"
          value={name}
          required
          autocomplete="username"
          rejection={rejection}
        />
        <Field
          label="Admin token"
          name="token"
          type="password"
          required
          autocomplete="current-password"
          rejection={rejection}
        />
        <SubmitButton text="Sign in" />
      </div>
    </form>,
  );
}

/**
 * Returns the operator's name for the audit. It is required, and must not look like an e-mail address or a key: the audit shows
 * those only where Cloudflare Access or a key proved them. Throws `invalid_request`.
 */
function readActorName(name: string): string {
  if (/[@:]/.test(name) || name.toLowerCase() === "api") throw invalid("name", "must not contain @ or :, nor be `api`");
  return parseForm(z.object({ name: displayName() }), { name }).name;
}

async function checkToken(c: PageContext, token: string): Promise<void> {
  if (!(await isAdminToken(incomingOf(c), token, readAdminToken(c.var.root.settings)))) {
    throw new PurserError("invalid_key", "Wrong admin token.", { param: "token" });
  }
}

/** Asks whether to send a form that was kept during the sign-in. */
async function keptFormPage(c: PageContext, kept: KeptForm, sessionId: string) {
  const _form = await formToken(readAdminToken(c.var.root.settings), sessionId);
  return page(
    c,
    { title: "Signed in" },
    <form method="post" action={kept.path} class="card">
      <Hidden fields={{ ...kept.fields, _form }} />
      <p>Your form is kept. It has changed nothing yet.</p>
      <div class="row">
        <SubmitButton text="Send the form" />
        <a class="button quiet" href="/admin/apps">
          Discard it
        </a>
      </div>
    </form>,
  );
}

export const signInRoutes = createDashboardRoutes()
  .get("/sign-in", async (c) => {
    const { settings } = c.var.root;
    readAdminToken(settings);
    // With Cloudflare Access, a request that arrives here is signed in.
    return settings.access === null ? signInPage(c, { next: c.req.query("next") }) : c.redirect("/admin/apps", 303);
  })
  .post("/sign-in", async (c) => {
    const { settings } = c.var.root;
    const adminToken = readAdminToken(settings);
    if (settings.access !== null) throw new PurserError("forbidden", "This dashboard uses Cloudflare Access.");
    // Before the form is read: another site must not have a form of its own kept until somebody signs in.
    assertSameOrigin(c);
    const { next, token = "", name = "", ...form } = await readForm(c.req.raw, { fieldsMax: SIGN_IN_FIELDS_MAX });
    const kept = readKeptForm(form.kept);
    let cookie: string;
    try {
      await checkToken(c, token);
      const by = readActorName(name);
      cookie = await beginSession(c.var.root, adminToken, by);
    } catch (error) {
      if (!(error instanceof PurserError)) throw error;
      for (const [name, value] of Object.entries(error.headers)) c.header(name, value);
      return signInPage(c, { next, kept, name, rejection: error });
    }
    setCookie(c, COOKIE, cookie, { ...cookieOptions(c), maxAge: SESSION_SECONDS });
    return kept === null ? c.redirect(destination(next), 303) : keptFormPage(c, kept, parseSessionId(cookie));
  })
  .post("/sign-out", requireSignIn, async (c) => {
    if (c.var.session.isByAccess) return c.redirect("/cdn-cgi/access/logout", 303);
    await endSession(c.var.root, c.var.session.sessionId);
    deleteCookie(c, COOKIE, cookieOptions(c));
    return c.redirect("/admin/sign-in", 303);
  });
