import * as z from "zod";
import { decodeBase64url, encodeBase64url } from "../lib/base64url.ts";
import { signHmac, verifyHmac } from "../lib/hmac.ts";
import { DAY_MS, parseTimestamp } from "../lib/time.ts";

/** How long a link is valid. A token with a longer time is refused, even if its signature is correct. */
export const tokenLifeMs = DAY_MS;

/** The claims of a token (P6). */
const exportClaims = z.strictObject({
  appId: z.string(),
  mode: z.enum(["live", "test"]),
  distinctId: z.string().min(1),
  expiresAt: z.string(),
});
export type ExportClaims = z.infer<typeof exportClaims>;

/** The current secret signs and verifies. The previous one only verifies. */
export interface ExportSecrets {
  readonly current: string;
  readonly previous: string | null;
}

/** `base64url(payload).base64url(HMAC-SHA-256 of the first part's ASCII)` (P6). */
export async function signToken(claims: ExportClaims, secret: string): Promise<string> {
  const { appId, mode, distinctId, expiresAt } = claims;
  const payload = encodeBase64url(new TextEncoder().encode(JSON.stringify({ appId, mode, distinctId, expiresAt })));
  return `${payload}.${encodeBase64url(await signHmac(secret, payload))}`;
}

/**
 * The claims of a token, if it is signed, in canonical form and not expired. Null for every other token, so that nobody learns
 * what was wrong. The signature is checked over the received characters, before anything is parsed.
 */
export async function openToken(token: string, secrets: ExportSecrets, nowMs: number): Promise<ExportClaims | null> {
  const [payload, signature, ...rest] = token.split(".");
  if (payload === undefined || signature === undefined || rest.length > 0) return null;
  const mac = decodeBase64url(signature);
  if (mac === null || !(await isSigned(secrets, payload, mac))) return null;
  const claims = readClaims(payload);
  if (claims === null) return null;
  const expiresAtMs = parseTimestamp(claims.expiresAt);
  if (expiresAtMs === null || nowMs > expiresAtMs || expiresAtMs > nowMs + tokenLifeMs) return null;
  return claims;
}

async function isSigned(secrets: ExportSecrets, payload: string, mac: Uint8Array): Promise<boolean> {
  if (await verifyHmac(secrets.current, payload, mac)) return true;
  return secrets.previous !== null && (await verifyHmac(secrets.previous, payload, mac));
}

function readClaims(payload: string): ExportClaims | null {
  const bytes = decodeBase64url(payload);
  if (bytes === null) return null;
  try {
    const text = new TextDecoder("utf-8", { fatal: true, ignoreBOM: true }).decode(bytes);
    return exportClaims.safeParse(JSON.parse(text)).data ?? null;
  } catch {
    return null;
  }
}
