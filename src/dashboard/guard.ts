import type { Context } from "hono";
import { getCookie } from "hono/cookie";
import { createMiddleware } from "hono/factory";
import { verifyEndUser } from "../access/end-user.ts";
import { endUserSetting } from "../access/end-user-setting.ts";
import { operatorRoot } from "../access/operator-root.ts";
import { formToken, isFormToken, openSession } from "../access/operator-session.ts";
import { requireApp, requireEnvironment } from "../apps/app.ts";
import { PurserError } from "../errors.ts";
import { limitBody } from "../http/body.ts";
import type { Mode, RootCtx } from "../runtime.ts";
import type { Settings } from "../settings.ts";
import type { DashboardEnv, Operator } from "./env.ts";

export const COOKIE = "purser_session";

const HEADERS = {
  "Content-Security-Policy":
    "default-src 'none'; script-src 'self'; style-src 'self'; img-src 'self' data:; connect-src 'self'; " +
    "form-action 'self'; base-uri 'none'; frame-ancestors 'none'",
  "Cross-Origin-Opener-Policy": "same-origin",
  // Not `no-referrer`: under it browsers send forms with `Origin: null`.
  "Referrer-Policy": "same-origin",
  "X-Content-Type-Options": "nosniff",
  "X-Frame-Options": "DENY",
  "X-Robots-Tag": "noindex",
  "Cache-Control": "no-store",
};

/** For every answer of the dashboard: nothing runs, loads, frames or keeps what is not its own. */
export const protect = createMiddleware<DashboardEnv>(async (c, next) => {
  for (const [name, value] of Object.entries(HEADERS)) c.header(name, value);
  await next();
});

/** Without an administrator's token in the settings there is no dashboard. */
export function adminTokenOf(settings: Settings): string {
  if (settings.adminToken === null) throw new PurserError("not_found", "There is nothing at this path.");
  return settings.adminToken;
}

/** Refuses a form that another site sent. Browsers say where it comes from; what says nothing is no browser. */
export function assertSameOrigin(c: Context<DashboardEnv>): void {
  const site = c.req.header("sec-fetch-site");
  const origin = c.req.header("origin");
  const isForeign =
    site === undefined
      ? origin !== undefined && (!URL.canParse(origin) || new URL(origin).host !== c.req.header("host"))
      : site !== "same-origin" && site !== "none";
  if (isForeign) throw new PurserError("forbidden", "The form was sent from another site.");
}

/** The one who is signed in; null where sign-in is needed. Throws `forbidden` where Cloudflare Access admits nobody. */
async function findOperator(c: Context<DashboardEnv>): Promise<Operator | null> {
  const { settings } = c.var.root;
  const adminToken = adminTokenOf(settings);
  const sessionId =
    settings.access === null
      ? await openSession(adminToken, getCookie(c, COOKIE) ?? "", c.var.world.now())
      : `access:${await accessUser(settings.access, c)}`;
  if (sessionId === null) return null;
  return { sessionId, formToken: await formToken(adminToken, sessionId), isByAccess: settings.access !== null };
}

async function accessUser(access: NonNullable<Settings["access"]>, c: Context<DashboardEnv>): Promise<string> {
  const setting = endUserSetting.safeParse({
    type: "jwks",
    url: `${access.teamUrl}/cdn-cgi/access/certs`,
    issuer: access.teamUrl,
    audience: access.audience,
  });
  const assertion = c.req.header("cf-access-jwt-assertion");
  const refuse = (cause?: unknown) =>
    new PurserError("forbidden", "Cloudflare Access has not admitted this request.", { cause });
  if (!setting.success || assertion === undefined) throw refuse();
  try {
    return await verifyEndUser(setting.data, assertion, c.var.world.now());
  } catch (error) {
    if (error instanceof PurserError && error.code === "temporarily_unavailable") throw error;
    throw refuse(error);
  }
}

async function readForm(c: Context<DashboardEnv>): Promise<Record<string, string>> {
  const fields: Record<string, string> = {};
  for (const [name, value] of Object.entries(await c.req.parseBody())) {
    // Browsers send a text area's line ends as CR LF.
    if (typeof value === "string") fields[name] = value.replaceAll("\r\n", "\n");
  }
  return fields;
}

/** Brings what verbs receive. */
export const openRoot = createMiddleware<DashboardEnv>(async (c, next) => {
  c.set("root", operatorRoot(c.env, c.var.world));
  await next();
});

/** Lets in who is signed in, sends others to sign in; a form must come from this site and this session. */
export const requireSignIn = createMiddleware<DashboardEnv>(async (c, next) => {
  const operator = await findOperator(c);
  if (operator === null) {
    const back = c.req.method === "GET" ? `?next=${encodeURIComponent(c.req.path)}` : "";
    return c.redirect(`/admin/sign-in${back}`, 303);
  }
  c.set("operator", operator);
  c.set("form", {});
  if (c.req.method !== "POST") return next();
  assertSameOrigin(c);
  return limitBody(c, async () => {
    const form = await readForm(c);
    if (!(await isFormToken(adminTokenOf(c.var.root.settings), operator.sessionId, form._form ?? ""))) {
      throw new PurserError("forbidden", "The form is not one of this session. Go back, reload the page, try again.");
    }
    c.set("form", form);
    await next();
  });
});

/** Brings the tenant that the path names. */
export const inEnvironment = createMiddleware<DashboardEnv>(async (c, next) => {
  const root: RootCtx = c.var.root;
  const appId = c.req.param("appId") ?? "";
  const mode: Mode = c.req.param("mode") === "test" ? "test" : "live";
  const app = await requireApp(root, appId);
  const { id } = await requireEnvironment(root, appId, mode);
  c.set("appName", app.name);
  c.set("ctx", { ...root, environment: { id, appId, mode }, caller: { kind: "operator" } });
  await next();
});
