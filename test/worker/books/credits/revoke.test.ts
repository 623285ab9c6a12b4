import { env } from "cloudflare:workers";
import { afterAll, expect, it } from "vitest";
import { DAY_MS } from "../../../../src/lib/time.ts";
import { consume, creditsWorld, storedBalances, storedLedger } from "../../../support/credits.ts";
import { expectLedgerInvariants } from "../../../support/invariants.ts";
import { expectError } from "../../../support/rejections.ts";
import { makeOpenAmountPack, makePack } from "../../../support/world.ts";

afterAll(expectLedgerInvariants);

async function worldWithBalance(quantity = 5, more: object = {}) {
  const w = await creditsWorld();
  await makeOpenAmountPack(w.app.appId, "Legacy", "tokens");
  const granted = await w.grant({ userId: "u", packId: "legacy", quantity, ...more });
  const balanceId: string = granted.body.balanceId;
  const status = async () => {
    const { credits } = (await w.list({ userId: "u", includeExpired: "true" })).body;
    return credits.find((credit: { balanceId: string }) => credit.balanceId === balanceId)?.status;
  };
  return { ...w, balanceId, status };
}

it("a revoke sets the balance to 0, keeps its row, and writes the reversal with the given reason", async () => {
  const w = await worldWithBalance(5);
  const answer = await w.revoke({ balanceId: w.balanceId, reason: "charge back" });
  expect(answer.status).toBe(200);
  expect(answer.body).toEqual({ balanceId: w.balanceId, remaining: 0 });
  expect(await storedLedger(w.app, "u")).toEqual([
    [w.balanceId, 5_000, "grant", null],
    [w.balanceId, -5_000, "admin_adjust", "charge back"],
  ]);
  expect((await w.list({ userId: "u" })).body.credits).toEqual([]);
  expect((await w.list({ userId: "u", includeExpired: "true" })).body.credits).toMatchObject([
    { balanceId: w.balanceId, remaining: 0, initial: 5, status: "revoked" },
  ]);
});

it("a revoke takes only the rest of a partly consumed balance: spent credits stay spent", async () => {
  const w = await worldWithBalance(5);
  await consume(w.balanceId, 1_250);
  await w.revoke({ balanceId: w.balanceId });
  expect((await storedLedger(w.app, "u")).map((row) => row.slice(1))).toEqual([
    [5_000, "grant", null],
    [-1_250, "event_committed", null],
    [-3_750, "admin_adjust", null],
  ]);
});

it("a revoke of a depleted balance records the reason in an entry of delta 0", async () => {
  const w = await worldWithBalance(5);
  await consume(w.balanceId, 5_000);
  expect(await w.status()).toBe("depleted");
  const answer = await w.revoke({ balanceId: w.balanceId, reason: "closed" });
  expect(answer.body).toEqual({ balanceId: w.balanceId, remaining: 0 });
  expect((await storedLedger(w.app, "u")).at(-1)).toEqual([w.balanceId, 0, "admin_adjust", "closed"]);
  const { entries } = (await w.history({ userId: "u" })).body;
  expect(entries[0]).toMatchObject({ delta: 0, reason: "admin_adjust", note: "closed" });
  expect(await w.status()).toBe("revoked");
});

it("a revoke of an expired balance takes its rest, and its status is then revoked", async () => {
  const w = await worldWithBalance(5, { expiresAt: "2026-01-20T00:00Z" });
  w.clock.advance(30 * DAY_MS);
  expect(await w.status()).toBe("expired");
  await w.revoke({ balanceId: w.balanceId });
  expect((await storedLedger(w.app, "u")).at(-1)).toEqual([w.balanceId, -5_000, "admin_adjust", null]);
  expect(await w.status()).toBe("revoked");
});

it("a revoke repeated returns 200 and writes no second entry, even if five race", async () => {
  const w = await worldWithBalance(5);
  const answers = await Promise.all(
    ["a", "b", "c", "d", "e"].map((reason) => w.revoke({ balanceId: w.balanceId, reason })),
  );
  for (const answer of [...answers, await w.revoke({ balanceId: w.balanceId, reason: "again" })]) {
    expect(answer.status).toBe(200);
    expect(answer.body).toEqual({ balanceId: w.balanceId, remaining: 0 });
  }
  expect(await storedLedger(w.app, "u")).toHaveLength(2);
});

it("a revoke takes one balance of a grant, and leaves the others", async () => {
  const w = await creditsWorld();
  await makePack(w.app.appId, "Starter", [
    { amountMinor: 1_000, unit: "count" },
    { amountMinor: 2_000, unit: "tokens" },
  ]);
  const { balances } = (await w.grant({ userId: "u", packId: "starter" })).body;
  await w.revoke({ balanceId: balances[0].balanceId });
  expect((await storedBalances(w.app, "u")).map((row) => row.remaining_minor)).toEqual([0, 2_000]);
});

it("a revoke stores the reason as free text: long, of several lines, empty, of any script", async () => {
  for (const reason of ["x".repeat(2_000), "line\nline\t\"'--", "", "退款 😀"]) {
    const w = await worldWithBalance();
    expect((await w.revoke({ balanceId: w.balanceId, reason })).status).toBe(200);
    expect((await w.history({ userId: "u", limit: "1" })).body.entries[0].note).toBe(reason);
  }
});

it("a revoke is credit_balance_not_found for an unknown or malformed id, or one in another case", async () => {
  const w = await worldWithBalance();
  const ids = [
    "crb_unknown",
    "x",
    `${w.balanceId} `,
    w.balanceId.toLowerCase(),
    w.balanceId.slice(0, -1),
    "%",
    "' OR 1=1 --",
  ];
  for (const balanceId of ids) {
    expectError(await w.revoke({ balanceId }), "credit_balance_not_found", "balanceId");
  }
  expect(await w.status()).toBe("active");
});

it("a revoke is credit_balance_not_found across applications and modes, and changes nothing there", async () => {
  const w = await worldWithBalance();
  const stranger = await creditsWorld();
  expectError(await stranger.revoke({ balanceId: w.balanceId }), "credit_balance_not_found");
  const key = w.app.keys.sk_test;
  const body = { balanceId: w.balanceId };
  expectError(await w.call("POST", "/api/v1/credits/revoke", { key, body }), "credit_balance_not_found");
  expect(await w.status()).toBe("active");
  expect(await storedLedger(w.app, "u")).toHaveLength(1);
});

it.each([
  ["{}", "balanceId"],
  ['{"balanceId":null}', "balanceId"],
  ['{"balanceId":5}', "balanceId"],
  ['{"balanceId":""}', "balanceId"],
  ['{"balanceId":"crb_1","reason":null}', "reason"],
  ['{"balanceId":"crb_1","reason":5}', "reason"],
  ['{"balanceId":"crb_1","reason":"a\\u0000b"}', "reason"],
  ['{"balanceId":"crb_1","note":"x"}', "note"],
  ["[]", "body"],
  ["", "body"],
])("a revoke refuses malformed arguments by name: %s", async (body, param) => {
  const w = await creditsWorld();
  expectError(await w.revoke(body), "invalid_request", param);
});

it("a revoke rejects a reason longer than 2,000 code points", async () => {
  const w = await worldWithBalance();
  const body = { balanceId: w.balanceId, reason: "😀".repeat(2_001) };
  expectError(await w.revoke(body), "invalid_request", "reason");
  expect((await w.revoke({ ...body, reason: "😀".repeat(2_000) })).status).toBe(200);
});

it("a revoke records the time in milliseconds, equal in the ledger row and the balance", async () => {
  const w = await worldWithBalance();
  w.clock.ms += 1_234;
  await w.revoke({ balanceId: w.balanceId });
  const row = await env.DB.prepare(
    "SELECT revoked_at_ms AS ms, typeof(revoked_at_ms) AS type FROM credit_balances WHERE id = ?",
  )
    .bind(w.balanceId)
    .first();
  expect(row).toEqual({ ms: w.clock.ms, type: "integer" });
  const { entries } = (await w.history({ userId: "u", limit: "1" })).body;
  expect(entries[0].occurredAt).toBe(new Date(w.clock.ms).toISOString());
});
