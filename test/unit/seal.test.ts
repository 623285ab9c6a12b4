import { expect, it } from "vitest";
import { openSealed, sealText } from "../../src/lib/seal.ts";

const [secret, other] = ["a".repeat(32), "b".repeat(32)];
const TEXT = "whsec_żółw 🐢";

it("a sealed text opens with the secret and the context that sealed it, and with nothing else", async () => {
  const sealed = await sealText(secret, "app_1 live", TEXT);
  expect(sealed).not.toContain(TEXT);
  expect(await openSealed([secret], "app_1 live", sealed)).toBe(TEXT);
  expect(await openSealed([other, secret], "app_1 live", sealed)).toBe(TEXT);
  expect(await openSealed([other], "app_1 live", sealed)).toBeNull();
  expect(await openSealed([], "app_1 live", sealed)).toBeNull();
  for (const context of ["app_1 test", "app_2 live", ""]) {
    expect(await openSealed([secret], context, sealed)).toBeNull();
  }
});

it("a sealed text is the same for the same text, and has another nonce for another text or context", async () => {
  const sealed = await sealText(secret, "c", TEXT);
  expect(await sealText(secret, "c", TEXT)).toBe(sealed);
  const nonces = [sealed, await sealText(secret, "d", TEXT), await sealText(secret, "c", `${TEXT}.`)].map(
    (each) => each.split(".")[2],
  );
  expect(new Set(nonces).size).toBe(3);
});

it("a sealed text is rejected with any character changed, removed or added", async () => {
  const sealed = await sealText(secret, "c", TEXT);
  for (let at = 0; at < sealed.length; at++) {
    const changed = `${sealed.slice(0, at)}${sealed[at] === "A" ? "B" : "A"}${sealed.slice(at + 1)}`;
    expect(await openSealed([secret], "c", changed), `character ${at}`).toBeNull();
  }
  for (const text of [sealed.slice(0, -1), `${sealed}A`, `${sealed}.`, "", "v1...", TEXT]) {
    expect(await openSealed([secret], "c", text)).toBeNull();
  }
});
