import { env } from "cloudflare:workers";
import { expect, it } from "vitest";
import { openSession } from "../../../src/db/session.ts";

const BYTES_MAX = 2_000_000;

const { send, sendForArrays } = openSession(env.DB, "first-primary");
const half = (bytes: number) => ({
  text: `SELECT replace(hex(zeroblob(${bytes / 2})), '0', 'x') AS half`,
  params: [],
});

it("the tests' D1 rejects, as the hosted one does, a bound value of more than 2 MB, counted in bytes", async () => {
  const bind = (value: string) => send([{ text: "SELECT length(?) AS n", params: [value] }]);
  expect(await bind("é".repeat(BYTES_MAX / 2))).toEqual([[{ n: BYTES_MAX / 2 }]]);
  await expect(bind("é".repeat(BYTES_MAX / 2 + 1))).rejects.toThrow("a bound value has 2000002 bytes");
});

it("the tests' D1 rejects, as the hosted one does, a row of more than 2 MB, alone, in a batch and as an array", async () => {
  expect(await send([half(BYTES_MAX)])).toHaveLength(1);
  await expect(send([half(BYTES_MAX + 2)])).rejects.toThrow("a row has 2000002 bytes");
  await expect(send([half(2), half(BYTES_MAX + 2)])).rejects.toThrow("a row has 2000002 bytes");
  await expect(sendForArrays(half(BYTES_MAX + 2))).rejects.toThrow("a row has 2000002 bytes");
});

it("the tests' D1 rejects, as the hosted one does, a statement of more than 100 KB", async () => {
  await expect(send([{ text: `SELECT 1 AS n -- ${"x".repeat(100_000)}`, params: [] }])).rejects.toThrow("text");
});
