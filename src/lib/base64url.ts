/** Base64url without padding (RFC 4648, section 5). */
export function encodeBase64url(bytes: Uint8Array): string {
  let binary = "";
  for (const byte of bytes) binary += String.fromCharCode(byte);
  return base64urlOfAscii(binary);
}

/** The same of ASCII text. */
export function base64urlOfAscii(text: string): string {
  return btoa(text).replaceAll("+", "-").replaceAll("/", "_").replaceAll("=", "");
}

/**
 * Decodes canonical base64url only: text that encodes to the same characters again. Padding, white space, other alphabets and
 * unused low bits (a 32-byte value has four spellings of its last character) give null.
 */
export function decodeBase64url(text: string): Uint8Array | null {
  if (!/^[A-Za-z0-9_-]*$/.test(text) || text.length % 4 === 1) return null;
  const binary = atob(text.replaceAll("-", "+").replaceAll("_", "/"));
  const bytes = Uint8Array.from(binary, (character) => character.charCodeAt(0));
  return encodeBase64url(bytes) === text ? bytes : null;
}
