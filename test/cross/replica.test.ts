import { applyD1Migrations } from "cloudflare:test";
import { env } from "cloudflare:workers";
import { beforeAll, expect, it } from "vitest";
import { linkTo, open, readAll, readDocument } from "../support/exports.ts";
import { copyApp, laggingD1 } from "../support/lagging-d1.ts";
import { CREDITS } from "../support/paths.ts";
import { Clock, makeApp, makeClient, makePack } from "../support/world.ts";

beforeAll(() => applyD1Migrations(env.REPLICA, env.TEST_MIGRATIONS));

async function world() {
  const app = await makeApp();
  await makePack(app.appId, "Starter", [
    { amountMinor: 5_000, unit: "tokens" },
    { amountMinor: 9_000, unit: "cents" },
  ]);
  await copyApp(app);
  const lagging = laggingD1(env.DB, env.REPLICA);
  const clock = new Clock();
  const call = makeClient(clock, { DB: lagging.d1 });
  const send = (method: string, path: string, body?: unknown, headers: Record<string, string> = {}) =>
    call(method, path, { key: app.keys.sk_live, headers, ...(body === undefined ? {} : { body }) });
  const exported = async (userId: string) =>
    readDocument(await readAll(await open(await linkTo(app, userId, clock), clock, lagging.d1)));
  return { ...lagging, send, exported };
}

it("a read with the bookmark of a grant sees the grant, however far the replica lags", async () => {
  const { send } = await world();
  const granted = await send("POST", `${CREDITS}/grant`, { userId: "bookmarked", packId: "starter" });
  const bookmark = granted.headers.get("x-d1-bookmark") ?? "";
  expect((await send("GET", `${CREDITS}?userId=bookmarked`)).body.credits).toEqual([]);
  const headers = { "x-d1-bookmark": bookmark };
  const { credits } = (await send("GET", `${CREDITS}?userId=bookmarked`, undefined, headers)).body;
  expect(credits).toHaveLength(2);
  const { entries } = (await send("GET", `${CREDITS}/history?userId=bookmarked`, undefined, headers)).body;
  expect(entries).toHaveLength(2);
});

it("a read without a bookmark sees an older but consistent state: each balance is the sum of its ledger entries", async () => {
  const { send, written, catchUpTo } = await world();
  for (let round = 0; round < 3; round++) {
    const { balances } = (await send("POST", `${CREDITS}/grant`, { userId: "torn", packId: "starter" })).body;
    const usage = { userId: "torn", event: "chat", quantities: { count: 0, tokens: 1 } };
    await send("POST", "/api/v1/usage/events", { ...usage, eventId: `e${round}` });
    await send("POST", `${CREDITS}/revoke`, { balanceId: balances[1].balanceId });
  }
  let states = 0;
  for (let writes = 0; writes <= written(); writes++) {
    await catchUpTo(writes);
    const { credits } = (await send("GET", `${CREDITS}?userId=torn&includeExpired=true`)).body;
    const { entries } = (await send("GET", `${CREDITS}/history?userId=torn&limit=500`)).body;
    const sums = new Map<string, number>();
    for (const { balanceId, delta } of entries) sums.set(balanceId, (sums.get(balanceId) ?? 0) + delta * 1_000);
    expect(sums.size).toBe(credits.length);
    for (const credit of credits) expect(sums.get(credit.balanceId)).toBeCloseTo(credit.remaining * 1_000, 6);
    if (credits.length > 0) states++;
  }
  expect(states).toBeGreaterThanOrEqual(9);
});

it("an export sees every earlier write, because it reads from the primary", async () => {
  const { send, exported } = await world();
  const expectWhole = async (changes: number) => {
    const credits = (await exported("exported")).person?.credits;
    expect(credits?.ledger).toHaveLength(changes);
    for (const { balanceId, remaining } of credits?.balances ?? []) {
      const entries = credits?.ledger.filter((entry) => entry.balanceId === balanceId) ?? [];
      expect(entries.reduce((sum, { delta }) => sum + delta * 1_000, 0)).toBeCloseTo(remaining * 1_000, 6);
    }
  };
  const { balances } = (await send("POST", `${CREDITS}/grant`, { userId: "exported", packId: "starter" })).body;
  await expectWhole(2);
  const usage = { userId: "exported", event: "chat", quantities: { count: 0, tokens: 1 } };
  await send("POST", "/api/v1/usage/events", { ...usage, eventId: "exported-1" });
  await expectWhole(3);
  await send("POST", `${CREDITS}/revoke`, { balanceId: balances[1].balanceId });
  await expectWhole(4);
});
