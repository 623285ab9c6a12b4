import { base64urlOfAscii, crc32, decodeBase64url, encodeBase64url } from "./encoding.ts";

type Scope = readonly (string | number)[];

/** Eight digits over the position and its scope. The escapes make the text ASCII, as a CRC takes it. */
function checkOf(position: string, scope: Scope): string {
  const text = encodeURIComponent(JSON.stringify([position, ...scope]));
  return crc32(text).toString(16).padStart(8, "0");
}
const CHECK_CHARACTERS = 8;

/**
 * An opaque cursor for `position` within `scope` (environment, user, filters). It has a checksum over both, so that an altered
 * cursor, or one of another list, is refused. It gives no access, because the query checks the scope too.
 */
export function encodeTextCursor(position: string, scope: Scope): string {
  return encodeBase64url(new TextEncoder().encode(checkOf(position, scope) + position));
}

/** The position of a cursor that `encodeTextCursor` made for the same scope. Null for anything else. */
export function decodeTextCursor(cursor: string, scope: Scope): string | null {
  const bytes = decodeBase64url(cursor);
  if (bytes === null) return null;
  const position = new TextDecoder().decode(bytes).slice(CHECK_CHARACTERS);
  // It is encoded again, so that a second spelling of the same cursor is refused too.
  return encodeTextCursor(position, scope) === cursor ? position : null;
}

/** Like `encodeTextCursor`, for a whole number from 1. */
export function encodeCursor(position: number, scope: Scope): string {
  const digits = String(position);
  return base64urlOfAscii(checkOf(digits, scope) + digits);
}

/** The number of a cursor that `encodeCursor` made for the same scope. Null for anything else. */
export function decodeCursor(cursor: string, scope: Scope): number | null {
  const text = decodeTextCursor(cursor, scope);
  return text !== null && /^[1-9]\d{0,15}$/.test(text) ? Number(text) : null;
}
