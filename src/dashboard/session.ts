import type { Context } from "hono";
import { getCookie } from "hono/cookie";
import { formToken, openSession } from "../auth/admin-session.ts";
import { verifyToken } from "../auth/end-user.ts";
import { endUserSetting } from "../auth/end-user-setting.ts";
import { PurserError } from "../errors.ts";
import type { Settings } from "../settings.ts";
import type { DashboardEnv, Session } from "./env.ts";

export const COOKIE = "purser_session";

export const cookieOptions = (c: Context<DashboardEnv>) => ({
  path: "/admin",
  httpOnly: true,
  sameSite: "Strict" as const,
  // Browsers ignore a Secure cookie from a plain http server, such as a local one.
  secure: new URL(c.req.url).protocol === "https:",
});

/** If no admin token is set, there is no dashboard. */
export function adminTokenOf(settings: Settings): string {
  if (settings.adminToken === null) throw new PurserError("not_found", "There is nothing at this path.");
  return settings.adminToken;
}

/** The session; null when a sign-in is needed. Throws `forbidden` when Cloudflare Access did not authorize the request. */
export async function findSession(c: Context<DashboardEnv>): Promise<Session | null> {
  const { settings } = c.var.root;
  const adminToken = adminTokenOf(settings);
  if (settings.access !== null) {
    const { subject, by } = await accessUser(settings.access, c);
    const sessionId = `access:${subject}`;
    return { sessionId, formToken: await formToken(adminToken, sessionId), isByAccess: true, by };
  }
  const session = await openSession(c.var.root, adminToken, getCookie(c, COOKIE) ?? "");
  if (session === null) return null;
  return { ...session, formToken: await formToken(adminToken, session.sessionId), isByAccess: false };
}

interface AccessUser {
  readonly subject: string;
  /** The e-mail address that Access verified; the subject of a service, which has none. */
  readonly by: string;
}

async function accessUser(access: NonNullable<Settings["access"]>, c: Context<DashboardEnv>): Promise<AccessUser> {
  const setting = endUserSetting.safeParse({
    type: "jwks",
    url: `${access.teamUrl}/cdn-cgi/access/certs`,
    issuer: access.teamUrl,
    audience: access.audience,
  });
  const assertion = c.req.header("cf-access-jwt-assertion");
  const refuse = (cause?: unknown) =>
    new PurserError("forbidden", "Cloudflare Access did not authorize this request.", { cause });
  if (!setting.success || assertion === undefined) throw refuse();
  try {
    const { sub, email } = await verifyToken(c.var.runtime, setting.data, assertion);
    if (typeof sub !== "string" || sub === "") throw refuse();
    return { subject: sub, by: typeof email === "string" && email !== "" ? email : sub };
  } catch (error) {
    if (error instanceof PurserError && error.code === "temporarily_unavailable") throw error;
    throw refuse(error);
  }
}
