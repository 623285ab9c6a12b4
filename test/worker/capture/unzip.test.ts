import { expect, it, vi } from "vitest";
import { unzip } from "../../../src/capture/unzip.ts";

async function gzip(bytes: Uint8Array<ArrayBuffer>): Promise<Uint8Array> {
  const packed = new Blob([bytes]).stream().pipeThrough(new CompressionStream("gzip"));
  return new Uint8Array(await new Response(packed).arrayBuffer());
}

it("unpacks no more than it may: of 100 MiB packed in 100 kB, the runtime is given a ninth", async () => {
  const packed = await gzip(new Uint8Array(100 * 1024 * 1024));
  let givenBytes = 0;
  const real = WritableStreamDefaultWriter.prototype.write;
  vi.spyOn(WritableStreamDefaultWriter.prototype, "write").mockImplementation(function (
    this: WritableStreamDefaultWriter,
    chunk: Uint8Array,
  ) {
    givenBytes += chunk.length;
    return real.call(this, chunk);
  });
  await expect(unzip(packed)).rejects.toMatchObject({ code: "payload_too_large" });
  expect(givenBytes).toBeLessThan(packed.length / 9);
});

it.each([0, 1, 5_000, 3_000_000, 10 * 1024 * 1024])("gives back %i bytes as they were", async (length) => {
  const bytes = new Uint8Array(length);
  for (let at = 0; at < length; at++) bytes[at] = (at * at) % 251;
  const unpacked = await unzip(await gzip(bytes));
  expect(unpacked.length).toBe(length);
  expect(unpacked.every((byte, at) => byte === bytes[at])).toBe(true);
});

it("refuses one byte more, and what is cut", async () => {
  const packed = await gzip(new Uint8Array(10 * 1024 * 1024 + 1));
  await expect(unzip(packed)).rejects.toMatchObject({ code: "payload_too_large" });
  await expect(unzip(packed.subarray(0, 2_000))).rejects.toMatchObject({ code: "invalid_request" });
});
