const encoder = new TextEncoder();

export type Utf8 = Uint8Array<ArrayBuffer>;

/** The text's UTF-8 bytes. */
export function utf8(text: string): Utf8 {
  // The bytes of an encoder are never shared memory, although its type allows it.
  return encoder.encode(text) as Utf8;
}

/** How many bytes of UTF-8 the well-formed text has. */
export function utf8Length(text: string): number {
  let length = text.length;
  for (let at = 0; at < text.length; at++) {
    const code = text.charCodeAt(at);
    // Each half of a surrogate pair has two of its four bytes.
    if (code >= 0x80) length += code < 0x800 || (code >= 0xd800 && code < 0xe000) ? 1 : 2;
  }
  return length;
}
