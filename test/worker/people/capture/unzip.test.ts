import { expect, it, vi } from "vitest";
import { unzip } from "../../../../src/people/capture/unpack.ts";
import { gzip, spyOnDecompressor } from "../../../support/encode.ts";

it("unzip stops above the limit: of 100 MiB in 100 kB the decompressor gets less than a ninth", async () => {
  const packed = await gzip(new Uint8Array(100 * 1024 * 1024));
  const givenBytes = spyOnDecompressor();
  await expect(unzip(packed)).rejects.toMatchObject({ code: "payload_too_large" });
  expect(givenBytes()).toBeLessThan(packed.length / 9);
});

it.each([0, 1, 5_000, 3_000_000, 10 * 1024 * 1024])("unzip returns %i bytes unchanged", async (length) => {
  const bytes = new Uint8Array(length);
  for (let at = 0; at < length; at++) bytes[at] = (at * at) % 251;
  const { bytes: unpacked } = await unzip(await gzip(bytes));
  expect(unpacked.length).toBe(length);
  expect(unpacked.every((byte, at) => byte === bytes[at])).toBe(true);
});

it("unzip rejects one byte above the limit, and truncated data", async () => {
  const packed = await gzip(new Uint8Array(10 * 1024 * 1024 + 1));
  await expect(unzip(packed)).rejects.toMatchObject({ code: "payload_too_large" });
  await expect(unzip(packed.subarray(0, 2_000))).rejects.toMatchObject({ code: "invalid_request" });
});

// unzip reserves memory by the size that the data claim, so a wrong size must neither be trusted nor accepted.
it.each([0, 100, 2_999_999, 0xff_ff_ff_ff])("unzip rejects data with a wrong size of %i bytes", async (said) => {
  const packed = await gzip(new Uint8Array(3_000_000));
  new DataView(packed.buffer).setUint32(packed.length - 4, said, true);
  await expect(unzip(packed)).rejects.toMatchObject({ code: "invalid_request" });
});

it("unzip reserves no memory for a large size that a small body claims", async () => {
  const packed = await gzip(new Uint8Array(10));
  new DataView(packed.buffer).setUint32(packed.length - 4, 0xff_ff_ff_ff, true);
  const sizes: number[] = [];
  const Real = Uint8Array;
  vi.stubGlobal(
    "Uint8Array",
    new Proxy(Real, {
      construct: (target, given) => {
        if (typeof given[0] === "number") sizes.push(given[0]);
        return Reflect.construct(target, given);
      },
    }),
  );
  await expect(unzip(packed)).rejects.toMatchObject({ code: "invalid_request" });
  vi.unstubAllGlobals();
  expect(sizes.length).toBeGreaterThan(0);
  expect(Math.max(...sizes)).toBeLessThan(50_000);
});

it("unzip rejects two bytes of gzip", async () => {
  await expect(unzip(new Uint8Array([0x1f, 0x8b]))).rejects.toMatchObject({ code: "invalid_request" });
});
