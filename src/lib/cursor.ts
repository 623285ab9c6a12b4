import { decodeBase64url, encodeBase64url } from "./base64url.ts";

const CHECK_BYTES = 9;

type Scope = readonly (string | number)[];

async function checkOf(position: string, scope: Scope): Promise<Uint8Array> {
  const text = JSON.stringify([position, ...scope]);
  const digest = await crypto.subtle.digest("SHA-256", new TextEncoder().encode(text));
  return new Uint8Array(digest).slice(0, CHECK_BYTES);
}

/**
 * An opaque cursor for `position` within `scope` (environment, user, filters). It has a checksum over both, so that an altered
 * cursor, or one of another list, is refused. It gives no access, because the query checks the scope too.
 */
export async function encodeTextCursor(position: string, scope: Scope): Promise<string> {
  const body = new TextEncoder().encode(position);
  return encodeBase64url(new Uint8Array([...(await checkOf(position, scope)), ...body]));
}

/** The position of a cursor that `encodeTextCursor` made for the same scope. Null for anything else. */
export async function decodeTextCursor(cursor: string, scope: Scope): Promise<string | null> {
  const bytes = decodeBase64url(cursor);
  if (bytes === null) return null;
  const position = new TextDecoder().decode(bytes.slice(CHECK_BYTES));
  // It is encoded again, so that a second spelling of the same cursor is refused too.
  return (await encodeTextCursor(position, scope)) === cursor ? position : null;
}

/** Like `encodeTextCursor`, for a whole number from 1. */
export function encodeCursor(position: number, scope: Scope): Promise<string> {
  return encodeTextCursor(String(position), scope);
}

/** The number of a cursor that `encodeCursor` made for the same scope. Null for anything else. */
export async function decodeCursor(cursor: string, scope: Scope): Promise<number | null> {
  const text = await decodeTextCursor(cursor, scope);
  return text !== null && /^[1-9]\d{0,15}$/.test(text) ? Number(text) : null;
}
