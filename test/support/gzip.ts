import { vi } from "vitest";

export async function gzip(data: string | Uint8Array<ArrayBuffer>): Promise<Uint8Array> {
  const stream = new Blob([data]).stream().pipeThrough(new CompressionStream("gzip"));
  return new Uint8Array(await new Response(stream).arrayBuffer());
}

/** Spies on the decompressor. Returns a function that tells how many bytes it has been given since. */
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
