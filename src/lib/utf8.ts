const encoder = new TextEncoder();

export type Utf8 = Uint8Array<ArrayBuffer>;

/** The text's UTF-8 bytes. */
export function utf8(text: string): Utf8 {
  // An encoder's bytes are never shared memory, which its type allows for.
  return encoder.encode(text) as Utf8;
}
