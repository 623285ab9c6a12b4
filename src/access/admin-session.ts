import { decodeBase64url, encodeBase64url } from "../lib/base64url.ts";
import { signHmac, verifyHmac } from "../lib/hmac.ts";

/** How long a sign-in lasts. */
export const sessionSeconds = 8 * 60 * 60;

/** Says what is signed, so that a session can never pass for a form's token, nor the other way round. */
const sessionText = (body: string) => `purser dashboard session\n${body}`;
const formText = (sessionId: string) => `purser dashboard form\n${sessionId}`;

/** A session as its cookie holds it: id and end, signed with the administrator's token. A new token ends them all. */
export async function sealSession(adminToken: string, sessionId: string, nowMs: number): Promise<string> {
  const end = nowMs + sessionSeconds * 1_000;
  const body = encodeBase64url(new TextEncoder().encode(JSON.stringify([sessionId, end])));
  return `${body}.${encodeBase64url(await signHmac(adminToken, sessionText(body)))}`;
}

/** The id of a session that is signed and not over; else null. */
export async function openSession(adminToken: string, cookie: string, nowMs: number): Promise<string | null> {
  const [body = "", signature = "", ...rest] = cookie.split(".");
  const mac = decodeBase64url(signature);
  const bytes = decodeBase64url(body);
  if (rest.length > 0 || mac === null || bytes === null) return null;
  if (!(await verifyHmac(adminToken, sessionText(body), mac))) return null;
  // Signed, so it is what `sealSession` wrote.
  const [sessionId, end] = JSON.parse(new TextDecoder().decode(bytes)) as [string, number];
  return nowMs < end ? sessionId : null;
}

/** What every form of a session carries, so that no other site can send one. */
export async function formToken(adminToken: string, sessionId: string): Promise<string> {
  return encodeBase64url(await signHmac(adminToken, formText(sessionId)));
}

export async function isFormToken(adminToken: string, sessionId: string, given: string): Promise<boolean> {
  const mac = decodeBase64url(given);
  return mac !== null && (await verifyHmac(adminToken, formText(sessionId), mac));
}
