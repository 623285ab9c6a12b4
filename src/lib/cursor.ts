import { decodeBase64url, encodeBase64url } from "./base64url.ts";

const CHECK_BYTES = 9;

async function checkOf(position: string, scope: readonly (string | number)[]): Promise<Uint8Array> {
  const text = JSON.stringify([position, ...scope]);
  const digest = await crypto.subtle.digest("SHA-256", new TextEncoder().encode(text));
  return new Uint8Array(digest).slice(0, CHECK_BYTES);
}

/**
 * An opaque cursor for `position` within `scope` (environment, user, filters). It carries a checksum over both, so that
 * an altered one, or one of another list, is refused. It opens nothing: the query behind it is scoped all the same.
 */
export async function sealCursor(position: number, scope: readonly (string | number)[]): Promise<string> {
  const text = String(position);
  const body = new TextEncoder().encode(text);
  return encodeBase64url(new Uint8Array([...(await checkOf(text, scope)), ...body]));
}

/** The position that `sealCursor` sealed for the same scope; null for anything else. */
export async function openCursor(cursor: string, scope: readonly (string | number)[]): Promise<number | null> {
  const bytes = decodeBase64url(cursor);
  // A byte order mark that is passed over would be a second spelling of the same cursor.
  const decoder = new TextDecoder("utf-8", { fatal: false, ignoreBOM: true });
  const text = bytes === null ? "" : decoder.decode(bytes.slice(CHECK_BYTES));
  if (bytes !== null && /^[1-9]\d{0,15}$/.test(text)) {
    const check = await checkOf(text, scope);
    if (check.every((byte, index) => bytes[index] === byte)) return Number(text);
  }
  return null;
}
