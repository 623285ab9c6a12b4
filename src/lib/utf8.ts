const encoder = new TextEncoder();

export type Utf8 = Uint8Array<ArrayBuffer>;

/** The text's UTF-8 bytes. */
export function utf8(text: string): Utf8 {
  // The bytes of an encoder are never shared memory, although its type allows it.
  return encoder.encode(text) as Utf8;
}
