import { vi } from "vitest";

export async function gzip(data: string | Uint8Array<ArrayBuffer>): Promise<Uint8Array> {
  const stream = new Blob([data]).stream().pipeThrough(new CompressionStream("gzip"));
  return new Uint8Array(await new Response(stream).arrayBuffer());
}

export const base64 = (bytes: Uint8Array): string =>
  btoa(Array.from(bytes, (byte) => String.fromCharCode(byte)).join(""));

/** Spies on the decompressor. Returns a function that returns how many bytes the decompressor has received since then. */
export function spyOnDecompressor(): () => number {
  let bytes = 0;
  const write = WritableStreamDefaultWriter.prototype.write;
  vi.spyOn(WritableStreamDefaultWriter.prototype, "write").mockImplementation(function (
    this: WritableStreamDefaultWriter,
    chunk: Uint8Array,
  ) {
    bytes += chunk.length;
    return write.call(this, chunk);
  });
  return () => bytes;
}
