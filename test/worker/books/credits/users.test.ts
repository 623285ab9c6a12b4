import { env } from "cloudflare:workers";
import { afterAll, expect, it } from "vitest";
import { listUsers } from "../../../../src/books/credits/users.ts";
import { iso } from "../../../../src/lib/time.ts";
import { countingD1 } from "../../../support/counting-d1.ts";
import { creditsWorld } from "../../../support/credits.ts";
import { expectLedgerInvariants } from "../../../support/invariants.ts";
import { describeRejections, expectError } from "../../../support/rejections.ts";
import { deadBalancesSql, liveBalancesSql } from "../../../support/seed.ts";
import { Clock, makeApp, makeCtx, makeOpenAmountPack, makePack } from "../../../support/world.ts";
import { wrappedD1 } from "../../../support/wrapped-d1.ts";

afterAll(expectLedgerInvariants);

async function makeWorld() {
  const w = await creditsWorld();
  for (const unit of ["tokens", "cents", "count"] as const) await makeOpenAmountPack(w.app.appId, unit, unit);
  const get = (query: string, key = w.app.keys.sk_live) => w.call("GET", `/api/v1/credits/users${query}`, { key });
  return {
    ...w,
    get,
    give: async (userId: string, packId: string, quantity: number, expiresAt?: string): Promise<string> =>
      (await w.grant({ userId, packId, quantity, ...(expiresAt === undefined ? {} : { expiresAt }) })).body.balanceId,
    /** Every page, and the users of all of them. */
    walk: async (limit: number) => {
      const pages = [];
      let cursor: string | null = null;
      do {
        const answer = await get(`?limit=${limit}${cursor === null ? "" : `&cursor=${cursor}`}`);
        expect(answer.status, JSON.stringify(answer.body)).toBe(200);
        pages.push(answer.body);
        cursor = answer.body.nextCursor;
      } while (cursor !== null);
      return { pages, userIds: pages.flatMap((page) => page.users.map((user: { userId: string }) => user.userId)) };
    },
  };
}

it("the list of users shows for each user the number of spendable balances, the exact amounts by unit, and the next expiry", async () => {
  const w = await makeWorld();
  await w.give("u", "tokens", 0.1);
  await w.give("u", "tokens", 0.2, iso(w.clock.ms + 2_000));
  await w.give("u", "tokens", 5, iso(w.clock.ms + 1_000));
  await w.give("u", "cents", 8_589_934);
  await w.give("u", "cents", 0.000001);
  await w.revoke({ balanceId: await w.give("u", "count", 1) });
  w.clock.advance(1_000);
  const answer = await w.get("");
  expect(answer.status).toBe(200);
  const remaining = { tokens: 0.3, cents: 8_589_934.000001 };
  expect(answer.body).toEqual({
    users: [{ userId: "u", balances: 4, remaining, nextExpiresAt: iso(w.clock.ms + 1_000) }],
    nextCursor: null,
  });
  w.clock.advance(1_000);
  expect((await w.get("")).body.users[0]).toMatchObject({ balances: 3, nextExpiresAt: null });
});

it("the list of users adds up a thousand of the largest balances", async () => {
  const app = await makeApp();
  const account = { environmentId: app.environments.live.id, userId: "u" };
  for (const sql of liveBalancesSql(account, 1_100))
    await env.DB.prepare(sql.replaceAll("1000000", "8796093022208000")).run();
  const { users } = await listUsers(makeCtx(app.environments.live, new Clock()), { limit: 1 });
  expect(users).toEqual([
    { userId: "u", balances: 1_100, remaining: { tokens: 9_675_702_324_428_800 }, nextExpiresAt: null },
  ]);
});

it("the list of users has no user without active balances, and each other user once, in the order of code points, for any page size", async () => {
  const w = await makeWorld();
  // The last two are in the other order by code units.
  const living = ["B", "a", "aa", "b", "z", "é", "\uffee", "\u{1f600}"];
  for (const userId of living.toReversed()) await w.give(userId, "tokens", 1);
  await w.revoke({ balanceId: await w.give("ab", "tokens", 1) });
  await w.give("c", "tokens", 1, iso(w.clock.ms + 5));
  await w.grant({ userId: "nobody", packId: "none", quantity: 1 });
  await w.call("POST", "/api/v1/credits/grant", {
    key: w.app.keys.sk_test,
    body: { userId: "other mode", packId: "tokens", quantity: 1 },
  });
  w.clock.advance(5);
  for (const limit of [1, 2, 3, 7, 8, 500]) {
    const { pages, userIds } = await w.walk(limit);
    expect(userIds).toEqual(living);
    for (const page of pages) expect(page.users.length).toBeLessThanOrEqual(limit);
  }
});

it("the list of users uses the state at the time of each page, and continues from the cursor", async () => {
  const w = await makeWorld();
  for (const userId of ["a", "b", "c"]) await w.give(userId, "tokens", 1, iso(w.clock.ms + 1_000));
  const first = (await w.get("?limit=1")).body;
  await w.give("aa", "tokens", 1);
  await w.give("0", "tokens", 1);
  w.clock.advance(1_000);
  const second = (await w.get(`?limit=10&cursor=${first.nextCursor}`)).body;
  expect(second.users.map(({ userId }: { userId: string }) => userId)).toEqual(["aa"]);
});

it("the list of users rejects a limit out of bounds, an altered cursor, and a cursor of another list", async () => {
  const w = await makeWorld();
  for (const userId of ["a", "b"]) await w.give(userId, "tokens", 1);
  for (const limit of ["0", "501", "x", "1.5"]) expectError(await w.get(`?limit=${limit}`), "invalid_request", "limit");
  const { nextCursor } = (await w.get("?limit=1")).body;
  const altered = `${nextCursor.slice(0, -1)}${nextCursor.endsWith("A") ? "B" : "A"}`;
  for (const cursor of [altered, "x", ""]) expectError(await w.get(`?cursor=${cursor}`), "invalid_request", "cursor");
  expectError(await w.get(`?cursor=${nextCursor}`, w.app.keys.sk_test), "invalid_request", "cursor");
});

it("the cost of a page of users is one trip, with rows for its users and their active balances, however many others there are", async () => {
  const { d1, spent } = countingD1(env.DB);
  const app = await makeApp();
  const environmentId = app.environments.live.id;
  for (let user = 0; user < 30; user++) {
    const account = { environmentId, userId: `u${user}` };
    const live = user % 3 === 0 ? 0 : 2;
    for (const sql of [...deadBalancesSql(account, 300), ...liveBalancesSql(account, live)])
      await env.DB.prepare(sql).run();
  }
  const ctx = makeCtx(app.environments.live, new Clock(), d1);
  for (const limit of [1, 10, 30]) {
    spent();
    const { users } = await listUsers(ctx, { limit });
    // Each user costs the user's row, an index entry of another user, and two rows a balance. All are sorted.
    expect(spent()).toEqual({
      roundTrips: 1,
      rowsRead: expect.toSatisfy((read) => read <= 6 * limit + 4 * users.length * 2 + 5),
      rowsWritten: 0,
    });
  }
});

it("the cost of a page of users returns a row for each unit of a user, however many balances there are", async () => {
  let rows = 0;
  const d1 = wrappedD1(env.DB, async (send, statements) => {
    const results = await send(statements);
    for (const { results: own } of results) rows += own.length;
    return results;
  });
  const app = await makeApp();
  for (const sql of liveBalancesSql({ environmentId: app.environments.live.id, userId: "u" }, 2_000))
    await env.DB.prepare(sql).run();
  const { users } = await listUsers(makeCtx(app.environments.live, new Clock(), d1), { limit: 50 });
  const remaining = { tokens: 2_000_000 };
  expect(users).toEqual([{ userId: "u", balances: 2_000, remaining, nextExpiresAt: null }]);
  expect(rows).toBe(1);
});

describeRejections("GET /api/v1/credits/users", {
  prepare: async (call, app) => {
    await makePack(app.appId, "Pack", [{ amountMinor: 1_000, unit: "tokens" }]);
    await call("POST", "/api/v1/credits/grant", { key: app.keys.sk_live, body: { userId: "u", packId: "Pack" } });
    return { method: "GET", path: "/api/v1/credits/users" };
  },
  publishable: "requires_secret_key",
  stranger: (answer) => expect(answer.body).toEqual({ users: [], nextCursor: null }),
});
