import { decodeBase64url } from "../lib/base64url.ts";
import { isJsonObject, type JsonObject } from "../lib/json.ts";

/** A JWT that claims to be signed (RFC 7519 in the compact form of RFC 7515). Nothing of it is proved yet. */
export interface Jwt {
  readonly alg: string;
  /** Which key is said to have signed it; undefined where the header does not say. */
  readonly kid: unknown;
  readonly claims: JsonObject;
  /** The characters that were signed, as they were sent. */
  readonly signed: string;
  readonly signature: Uint8Array;
}

const strictUtf8 = new TextDecoder("utf-8", { fatal: true, ignoreBOM: false });

/** Where a name is given twice the last counts, as RFC 7515 allows. Each part is read once, so no two readers can differ. */
function readObject(part: string): JsonObject | null {
  const bytes = decodeBase64url(part);
  try {
    const value: unknown = bytes === null ? null : JSON.parse(strictUtf8.decode(bytes));
    return isJsonObject(value) ? value : null;
  } catch {
    return null;
  }
}

/** Reads a token; null where it is no signed JWT. Only canonical base64url is read, so that a token has one spelling. */
export function readJwt(token: string): Jwt | null {
  const [header, payload, last, ...others] = token.split(".");
  if (header === undefined || payload === undefined || last === undefined || others.length > 0) return null;
  const [fields, claims, signature] = [readObject(header), readObject(payload), decodeBase64url(last)];
  if (fields === null || claims === null || signature === null) return null;
  const { alg, kid, crit } = fields;
  // `crit` names extensions that a reader must know. This one knows none, also not `b64`, an unencoded payload.
  if (typeof alg !== "string" || alg === "" || crit !== undefined) return null;
  return { alg, kid, claims, signed: `${header}.${payload}`, signature };
}
