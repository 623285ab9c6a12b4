import { decodeJwt, decodeProtectedHeader } from "jose";
import { decodeBase64url } from "../lib/base64url.ts";
import type { JsonObject } from "../lib/json.ts";

/** What a JWT says of itself. Nothing of it is proved. */
export interface UnverifiedJwt {
  readonly alg: string;
  readonly claims: JsonObject;
}

/**
 * Reads a signed JWT in compact form; null for anything else. jose would read other spellings of base64url as well, and the
 * extension `b64`: one token would have several spellings, so both are refused here.
 */
export function readJwt(token: string): UnverifiedJwt | null {
  const parts = token.split(".");
  if (parts.length !== 3 || parts.some((part) => decodeBase64url(part) === null)) return null;
  try {
    const [{ alg, crit }, claims] = [decodeProtectedHeader(token), decodeJwt(token)];
    return typeof alg !== "string" || alg === "" || crit !== undefined ? null : { alg, claims };
  } catch {
    return null;
  }
}
