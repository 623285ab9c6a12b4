import { base64urlOfAscii, crc32, decodeBase64url, encodeBase64url } from "./encoding.ts";

type CursorScope = readonly (string | number)[];

/**
 * Returns an eight-digit checksum of the position and its scope. The URI escapes make the text ASCII, which CRC-32 requires.
 */
function signPosition(position: string, scope: CursorScope): string {
  const text = encodeURIComponent(JSON.stringify([position, ...scope]));
  return crc32(text).toString(16).padStart(8, "0");
}
const CHECK_CHARACTERS = 8;

/**
 * Returns an opaque cursor for `position` within `scope` (environment, user, filters). A checksum over both makes an altered
 * cursor, or a cursor of another list, fail. The cursor gives no access, because the query checks the scope too.
 */
export function encodeTextCursor(position: string, scope: CursorScope): string {
  return encodeBase64url(new TextEncoder().encode(signPosition(position, scope) + position));
}

/** Returns the position in a cursor that `encodeTextCursor` made for the same scope, or null for any other text. */
export function decodeTextCursor(cursor: string, scope: CursorScope): string | null {
  const bytes = decodeBase64url(cursor);
  if (bytes === null) return null;
  const position = new TextDecoder().decode(bytes).slice(CHECK_CHARACTERS);
  // Other base64url texts can decode to the same bytes. Only the text that `encodeTextCursor` makes is accepted.
  return encodeTextCursor(position, scope) === cursor ? position : null;
}

/** Does the same as `encodeTextCursor`, for a whole number of at least 1. */
export function encodeCursor(position: number, scope: CursorScope): string {
  const digits = String(position);
  return base64urlOfAscii(signPosition(digits, scope) + digits);
}

/** Returns the number in a cursor that `encodeCursor` made for the same scope, or null for any other text. */
export function decodeCursor(cursor: string, scope: CursorScope): number | null {
  const text = decodeTextCursor(cursor, scope);
  return text !== null && /^[1-9]\d{0,15}$/.test(text) ? Number(text) : null;
}

/** Returns the page of a query that reads one row more than a page has. `last` is the page's last row if more rows follow. */
export function cutPage<Row>(
  rows: readonly Row[],
  limit: number,
): { readonly page: readonly Row[]; readonly last: Row | undefined } {
  const page = rows.slice(0, limit);
  return { page, last: rows.length > limit ? page.at(-1) : undefined };
}

/** The most bytes of long columns on a page. */
export const LIST_PAGE_BYTES_MAX = 8 * 1024 * 1024;

/** Returns the first rows, whose sizes are at most `max` together, and at least one. */
export function firstWithin<Row>(rows: readonly Row[], sizeOf: (row: Row) => number, max: number): readonly Row[] {
  let sum = 0;
  const beyond = rows.findIndex((row, index) => {
    sum += sizeOf(row);
    return index > 0 && sum > max;
  });
  return beyond === -1 ? rows : rows.slice(0, beyond);
}
