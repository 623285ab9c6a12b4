import { invalid, PurserError } from "../../errors.ts";

/** The most bytes of a decompressed body. Before that, the limit is 1 MiB, as for every body (W4). */
const unpackedBytesMax = 10 * 1024 * 1024;

/** The most bytes that a byte of gzip gives. */
const UNPACKED_A_BYTE = 1_032;
/**
 * The runtime unpacks what it is given at once, before anybody reads. So it is given this many bytes at a time, and what they
 * give is read at once.
 */
const PIECE_BYTES = 256;
const READ_BYTES = UNPACKED_A_BYTE * PIECE_BYTES;

export const isGzip = (bytes: Uint8Array): boolean => bytes[0] === 0x1f && bytes[1] === 0x8b;

/** What was unpacked: all of it, or its beginning. */
export interface Unpacked {
  readonly bytes: Uint8Array;
  readonly isWhole: boolean;
}

/**
 * The bytes that gzip holds, or the first `bytesMax` of them. Throws `payload_too_large` as soon as they are over 10 MiB, and
 * `invalid_request`.
 */
export async function unzip(bytes: Uint8Array, bytesMax = Number.POSITIVE_INFINITY): Promise<Unpacked> {
  const { readable, writable } = new DecompressionStream("gzip");
  const writer = writable.getWriter();
  const reader = readable.getReader({ mode: "byob" });
  let isOver = false;
  const write = async () => {
    for (let at = 0; at < bytes.length && !isOver; at += PIECE_BYTES) {
      await writer.write(bytes.subarray(at, at + PIECE_BYTES));
    }
    if (!isOver) await writer.close();
  };
  // A malformed body fails the reader too.
  const written = write().catch(() => {});
  try {
    return await readAll(reader, bytes, bytesMax);
  } finally {
    isOver = true;
    await written;
  }
}

/** How many bytes it says that it unpacks to, in its last four. It may lie, but a byte of gzip gives no more than it can. */
const saidLength = (bytes: Uint8Array): number =>
  bytes.length < 4 ? 0 : new DataView(bytes.buffer, bytes.byteOffset).getUint32(bytes.length - 4, true);

async function readAll(reader: ReadableStreamBYOBReader, packed: Uint8Array, bytesMax: number): Promise<Unpacked> {
  // A memory that had to grow is held until it is collected.
  const lengthMax = Math.min(unpackedBytesMax, UNPACKED_A_BYTE * packed.length, saidLength(packed), bytesMax);
  let whole = new Uint8Array(lengthMax);
  let length = 0;
  let buffer = new ArrayBuffer(READ_BYTES);
  for (;;) {
    const { done, value } = await reader.read(new Uint8Array(buffer)).catch(() => {
      throw invalid("body", "The body is not valid gzip.");
    });
    if (done) return { bytes: whole.subarray(0, length), isWhole: true };
    if (length + value.length > unpackedBytesMax) {
      await reader.cancel();
      throw new PurserError("payload_too_large", `The body unpacks to more than ${unpackedBytesMax} bytes.`);
    }
    if (length + value.length > whole.length) {
      const wider = new Uint8Array(Math.min(unpackedBytesMax, 2 * (length + value.length)));
      wider.set(whole);
      whole = wider;
    }
    whole.set(value, length);
    length += value.length;
    if (length > bytesMax) {
      await reader.cancel();
      return { bytes: whole.subarray(0, bytesMax), isWhole: false };
    }
    // The read took the buffer, and gives it back.
    buffer = value.buffer as ArrayBuffer;
  }
}
