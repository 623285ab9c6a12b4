import { deleteCookie, getCookie, setCookie } from "hono/cookie";
import { createMiddleware } from "hono/factory";
import { formToken, openAdminSession } from "../auth/admin-session.ts";
import { verifyToken } from "../auth/end-user.ts";
import { endUserSetting } from "../auth/end-user-setting.ts";
import { PurserError } from "../errors.ts";
import { DIGITS, signHmac } from "../lib/encoding.ts";
import { openSealed, sealText } from "../lib/seal.ts";
import type { AdminCtx } from "../runtime.ts";
import type { Settings } from "../settings.ts";
import type { DashboardEnv, FormSession, PageContext } from "./form.ts";

export const COOKIE = "purser_session";

export const cookieOptions = (c: PageContext) => ({
  path: "/admin",
  httpOnly: true,
  sameSite: "Strict" as const,
  // Browsers ignore a Secure cookie from a plain http server, such as a local one.
  secure: new URL(c.req.url).protocol === "https:",
});

/** Returns the admin token. Without one there is no dashboard, and it throws. */
export function readAdminToken(settings: Settings): string {
  if (settings.adminToken === null) throw new PurserError("not_found", "There is nothing at this path.");
  return settings.adminToken;
}

/**
 * Returns the session, or null when a sign-in is needed. Throws `forbidden` when Cloudflare Access did not authorize the
 * request.
 */
export async function findSession(c: PageContext): Promise<FormSession | null> {
  const { settings } = c.var.root;
  const adminToken = readAdminToken(settings);
  if (settings.access !== null) {
    const { subject, by } = await accessUser(settings.access, c);
    const sessionId = `access:${subject}`;
    return { sessionId, formToken: await formToken(adminToken, sessionId), isByAccess: true, by };
  }
  const session = await openAdminSession(c.var.root, adminToken, getCookie(c, COOKIE) ?? "");
  if (session === null) return null;
  return { ...session, formToken: await formToken(adminToken, session.sessionId), isByAccess: false };
}

interface AccessUser {
  readonly subject: string;
  /** The e-mail address that Access verified, or the subject of a service, which has no address. */
  readonly by: string;
}

async function accessUser(access: NonNullable<Settings["access"]>, c: PageContext): Promise<AccessUser> {
  const setting = endUserSetting.safeParse({
    type: "jwks",
    url: `${access.teamUrl}/cdn-cgi/access/certs`,
    issuer: access.teamUrl,
    audience: access.audience,
  });
  const assertion = c.req.header("cf-access-jwt-assertion");
  const reject = (cause?: unknown) =>
    new PurserError("forbidden", "Cloudflare Access did not authorize this request.", { cause });
  if (!setting.success || assertion === undefined) throw reject();
  try {
    const { sub, email } = await verifyToken(c.var.runtime, setting.data, assertion);
    if (typeof sub !== "string" || sub === "") throw reject();
    return { subject: sub, by: typeof email === "string" && email !== "" ? email : sub };
  } catch (error) {
    if (error instanceof PurserError && error.code === "temporarily_unavailable") throw error;
    throw reject(error);
  }
}

const SESSION_HEADERS = {
  "Content-Security-Policy":
    "default-src 'none'; script-src 'self'; style-src 'self'; img-src 'self' data:; connect-src 'self'; " +
    "form-action 'self'; base-uri 'none'; frame-ancestors 'none'",
  "Cross-Origin-Opener-Policy": "same-origin",
  // Under `no-referrer`, browsers would send forms with `Origin: null`.
  "Referrer-Policy": "same-origin",
  "X-Content-Type-Options": "nosniff",
  "X-Frame-Options": "DENY",
  "X-Robots-Tag": "noindex",
  "Cache-Control": "no-store",
};

/** Sets the headers of every dashboard response: no foreign scripts, files or frames, and no caching. */
export const protect = createMiddleware<DashboardEnv>(async (c, next) => {
  for (const [name, value] of Object.entries(SESSION_HEADERS)) c.header(name, value);
  await next();
});

const ONCE_COOKIE = "purser_once";
/** How long the browser keeps the value. */
const ONCE_SECONDS = 120;

const contextOf = (c: PageContext, purpose: string) => `dashboard once\n${purpose}\n${c.var.session.sessionId}`;

/**
 * Stores a value that the next page shows once, such as a new key: a form's response is a redirect, so that the page can be
 * reloaded. The browser carries the value in a cookie, sealed for this session, for at most two minutes.
 */
export async function keepOnce(c: PageContext, purpose: string, value: object): Promise<void> {
  const sealed = await sealText(readAdminToken(c.var.root.settings), contextOf(c, purpose), JSON.stringify(value));
  setCookie(c, ONCE_COOKIE, sealed, { ...cookieOptions(c), maxAge: ONCE_SECONDS });
}

/** Returns the value that `keepOnce` stored for this purpose, once. Null when there is none. */
export async function takeOnce<Value extends object>(c: PageContext, purpose: string): Promise<Value | null> {
  const sealed = getCookie(c, ONCE_COOKIE);
  if (sealed === undefined) return null;
  const text = await openSealed([readAdminToken(c.var.root.settings)], contextOf(c, purpose), sealed);
  if (text === null) return null;
  deleteCookie(c, ONCE_COOKIE, cookieOptions(c));
  // The seal proves that `keepOnce` wrote it for this purpose.
  return JSON.parse(text) as Value;
}

const RANDOM_LENGTH = 22;

/**
 * Returns 22 characters of base62 derived from a form's path and `nonce` and the admin token, so that a form sent twice creates one
 * object. A page that is shown again has one nonce in all its forms.
 */
export async function readRandom(c: PageContext, nonce: string): Promise<string> {
  const text = contextOf(c, `random\n${c.req.path}\n${nonce}`);
  const mac = await signHmac(readAdminToken(c.var.root.settings), text);
  let rest = mac.reduce((number, byte) => (number << 8n) | BigInt(byte), 0n);
  let digits = "";
  while (digits.length < RANDOM_LENGTH) {
    digits += DIGITS.charAt(Number(rest % 62n));
    rest /= 62n;
  }
  return digits;
}

const REPEATABLE_IDS = 3;

/**
 * Returns an administrator's context whose first ids derive from the form's `nonce`: enough for a new
 * endpoint and both halves of its secret. So a form that is sent twice creates one object, and sends nothing twice.
 */
export async function repeatable(c: PageContext, about = ""): Promise<AdminCtx> {
  const { admin, form } = c.var;
  const nonce = `${form.nonce ?? admin.newId("")}${about}`;
  const drawn = await Promise.all(
    Array.from({ length: REPEATABLE_IDS }, (_, index) => readRandom(c, `${index}\n${nonce}`)),
  );
  return {
    ...admin,
    newId: (prefix) => {
      const random = drawn.shift();
      return random === undefined ? admin.newId(prefix) : prefix + random;
    },
  };
}
