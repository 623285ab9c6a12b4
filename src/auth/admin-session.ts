import { and, desc, eq, gt, lte } from "drizzle-orm";
import { boundLimit, drizzle, fields, query, type ValueOf } from "../db/query.ts";
import { dashboardSessions } from "../db/schema.ts";
import { all, batch } from "../db/sql.ts";
import { decodeBase64url, encodeBase64url, signHmac, verifyHmac } from "../lib/encoding.ts";
import type { SystemCtx } from "../runtime.ts";

/** How long a sign-in lasts. */
export const SESSION_SECONDS = 8 * 60 * 60;

export interface AdminSession {
  readonly sessionId: string;
  /** The name that the person gave at the sign-in. */
  readonly by: string;
}

/** The texts to sign. Each names its purpose, so that nobody can use the signature of a session as a form token. */
const sessionText = (sessionId: string) => `purser dashboard session\n${sessionId}`;
const formText = (sessionId: string) => `purser dashboard form\n${sessionId}`;

const deleteEnded = query((value: ValueOf<{ nowMs: number }>) =>
  drizzle.delete(dashboardSessions).where(lte(dashboardSessions.endsAtMs, value("nowMs"))),
);
const insertSession = query((value: ValueOf<{ sessionId: string; by: string; endsAtMs: number }>) =>
  drizzle
    .insert(dashboardSessions)
    .values({ id: value("sessionId"), actor: value("by"), endsAtMs: value("endsAtMs") })
    .onConflictDoNothing(),
);
const sessionRow = (value: ValueOf<{ sessionId: string }>) => eq(dashboardSessions.id, value("sessionId"));
const isSessionOpen = (value: ValueOf<{ nowMs: number }>) => gt(dashboardSessions.endsAtMs, value("nowMs"));
const selectSession = query((value: ValueOf<{ sessionId: string; nowMs: number }>) =>
  drizzle
    .select(fields(dashboardSessions, { sessionId: "id", by: "actor" }))
    .from(dashboardSessions)
    .where(and(sessionRow(value), isSessionOpen(value))),
);
const deleteSession = query((value: ValueOf<{ sessionId: string }>) =>
  drizzle.delete(dashboardSessions).where(sessionRow(value)),
);

/**
 * Begins a session and returns its cookie: the id, signed with the admin token. A new admin token ends all sessions. Hono's
 * signed cookies are not used, because their signature does not depend on its purpose.
 */
export async function beginSession(root: SystemCtx, adminToken: string, by: string): Promise<string> {
  const sessionId = root.newId("ses_");
  const nowMs = root.now();
  const endsAtMs = nowMs + SESSION_SECONDS * 1_000;
  await batch(root.db, [deleteEnded({ nowMs }), insertSession({ sessionId, by, endsAtMs })]);
  return `${sessionId}.${encodeBase64url(await signHmac(adminToken, sessionText(sessionId)))}`;
}

/** Returns the id of the session in a cookie of `beginSession`. */
export const parseSessionId = (cookie: string): string => cookie.split(".")[0] ?? "";

/** Returns the session of a cookie. Null when the signature is not valid, or the session has ended. */
export async function openAdminSession(
  root: SystemCtx,
  adminToken: string,
  cookie: string,
): Promise<AdminSession | null> {
  const [sessionId = "", signature = "", ...rest] = cookie.split(".");
  const mac = decodeBase64url(signature);
  if (rest.length > 0 || mac === null) return null;
  if (!(await verifyHmac(adminToken, sessionText(sessionId), mac))) return null;
  const [session] = await all(root.db, selectSession({ sessionId, nowMs: root.now() }));
  return session ?? null;
}

/** Ends a session, for every copy of its cookie. */
export async function endSession(root: SystemCtx, sessionId: string): Promise<void> {
  await all(root.db, deleteSession({ sessionId }));
}

const selectSessions = query((value: ValueOf<{ nowMs: number; limit: number }>) =>
  drizzle
    .select(fields(dashboardSessions, { sessionId: "id", by: "actor", endsAtMs: "endsAtMs" }))
    .from(dashboardSessions)
    .where(isSessionOpen(value))
    .orderBy(desc(dashboardSessions.endsAtMs), desc(dashboardSessions.id))
    .limit(boundLimit(value("limit"))),
);

/** Returns the sessions that have not ended, newest first. An id gives no access, because the cookie needs a signature. */
export async function listSessions(root: SystemCtx, limit: number) {
  const rows = await all(root.db, selectSessions({ nowMs: root.now(), limit }));
  return rows.map(({ endsAtMs, ...session }) => ({
    ...session,
    beganAtMs: endsAtMs - SESSION_SECONDS * 1_000,
    endsAtMs,
  }));
}

/**
 * Returns the token that every form of a session contains, so that no other site can send the form. Hono's `csrf` is not used,
 * because it checks only the `Origin` header.
 */
export async function formToken(adminToken: string, sessionId: string): Promise<string> {
  return encodeBase64url(await signHmac(adminToken, formText(sessionId)));
}

export async function isFormToken(adminToken: string, sessionId: string, token: string): Promise<boolean> {
  const mac = decodeBase64url(token);
  return mac !== null && (await verifyHmac(adminToken, formText(sessionId), mac));
}
