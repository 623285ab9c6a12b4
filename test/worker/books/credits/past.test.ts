import { env } from "cloudflare:workers";
import { afterAll, expect, it } from "vitest";
import { listBalances } from "../../../../src/books/credits/list.ts";
import { iso } from "../../../../src/lib/time.ts";
import { countingD1 } from "../../../support/counting-d1.ts";
import { creditsWorld } from "../../../support/credits.ts";
import { END_USER_SETTING } from "../../../support/end-user-setting.ts";
import { expectLedgerInvariants } from "../../../support/invariants.ts";
import { userToken } from "../../../support/keyed-routes.ts";
import { describeRejections, expectError } from "../../../support/rejections.ts";
import { deadBalancesSql, entriesSql, liveBalancesSql, seededId } from "../../../support/seed.ts";
import { Clock, makeApp, makeClient, makeCtx, makeOpenAmountPack, makePack } from "../../../support/world.ts";

afterAll(expectLedgerInvariants);

interface Listed {
  readonly balanceId: string;
  readonly remaining: number;
  readonly status: string;
}
const shown = ({ body }: { body: { credits: Listed[] } }) =>
  Object.fromEntries(body.credits.map(({ balanceId, remaining, status }) => [balanceId, [remaining, status]]));

async function makeWorld() {
  const w = await creditsWorld();
  await makeOpenAmountPack(w.app.appId, "Chat", "tokens", [{ event: "chat.*" }]);
  await makeOpenAmountPack(w.app.appId, "Any", "tokens");
  const grant = async (packId: string, externalRef: string, more: object = {}): Promise<string> =>
    (await w.grant({ userId: "u", packId, quantity: 10, externalRef, ...more })).body.balanceId;
  const spend = (eventId: string, tokens: number) =>
    w.call("POST", "/api/v1/usage/events", {
      key: w.app.keys.sk_live,
      body: { userId: "u", event: "chat.done", eventId, quantities: { count: 0, tokens } },
    });
  return { ...w, balance: grant, spend };
}

it("a list by reference has all balances of the user that were granted under it, of any status and pack", async () => {
  const w = await makeWorld();
  const any = await w.balance("Any", "order-1");
  const chat = await w.balance("Chat", "order-1", { expiresAt: iso(w.clock.ms + 1_000) });
  await w.balance("Any", "order-2");
  await w.grant({ userId: "v", packId: "Any", quantity: 1, externalRef: "order-1" });
  await w.revoke({ balanceId: any });
  w.clock.advance(1_000);
  for (const includeExpired of ["true", "false"]) {
    const listed = await w.list({ userId: "u", externalRef: "order-1", includeExpired });
    // In the order of C13 the balance with rules comes first.
    expect(listed.body.credits.map(({ balanceId }: Listed) => balanceId)).toEqual([chat, any]);
    expect(shown(listed)).toEqual({ [chat]: [10, "expired"], [any]: [0, "revoked"] });
  }
  const narrowed = await w.list({ userId: "u", externalRef: "order-1", event: "image.made" });
  expect(Object.keys(shown(narrowed))).toEqual([any]);
  for (const query of [
    { userId: "u", externalRef: "order-3" },
    { userId: "w", externalRef: "order-1" },
  ]) {
    expect((await w.list(query)).body).toEqual({ credits: [] });
  }
});

it("a list as of a moment has every balance that was issued by then, with its state at the end of that millisecond", async () => {
  const w = await makeWorld();
  const start = w.clock.ms;
  const first = await w.balance("Any", "order-1", { expiresAt: iso(start + 30) });
  w.clock.advance(10);
  await w.spend("e1", 4);
  const second = await w.balance("Any", "order-2");
  w.clock.advance(10);
  await w.revoke({ balanceId: second });
  w.clock.advance(1_000);
  const at = async (ms: number) => shown(await w.list({ userId: "u", asOf: iso(ms) }));
  expect(await at(start - 1)).toEqual({});
  expect(await at(start)).toEqual({ [first]: [10, "active"] });
  expect(await at(start + 9)).toEqual({ [first]: [10, "active"] });
  expect(await at(start + 10)).toEqual({ [first]: [6, "active"], [second]: [10, "active"] });
  expect(await at(start + 19)).toEqual({ [first]: [6, "active"], [second]: [10, "active"] });
  expect(await at(start + 20)).toEqual({ [first]: [6, "active"], [second]: [0, "revoked"] });
  expect(await at(start + 30)).toEqual({ [first]: [6, "expired"], [second]: [0, "revoked"] });
  expect(await at(w.clock.ms)).toEqual({ [first]: [6, "expired"], [second]: [0, "revoked"] });
});

it("a list as of a moment can be combined with the reference and the event, and accepts any offset", async () => {
  const w = await makeWorld();
  const chat = await w.balance("Chat", "order-1");
  const any = await w.balance("Any", "order-1");
  await w.balance("Any", "order-2");
  const asOf = "2026-01-15T13:00:00+01:00";
  w.clock.advance(5_000);
  await w.revoke({ balanceId: chat });
  const listed = await w.list({ userId: "u", externalRef: "order-1", asOf });
  expect(shown(listed)).toEqual({ [chat]: [10, "active"], [any]: [10, "active"] });
  const narrowed = await w.list({
    userId: "u",
    externalRef: "order-1",
    event: "image",
    asOf,
    includeExpired: "false",
  });
  expect(Object.keys(shown(narrowed))).toEqual([any]);
});

it("a list as of a moment shows the amount that a hold took, and its return only from the time when the return was written", async () => {
  const w = await makeWorld();
  const any = await w.balance("Any", "order-1");
  const body = { userId: "u", event: "e", quantities: { count: 0, tokens: 3 }, expiresInSeconds: 1 };
  w.clock.advance(1);
  await w.call("POST", "/api/v1/usage/reservations", { key: w.app.keys.sk_live, body });
  w.clock.advance(5_000);
  await w.spend("e1", 0.5);
  const at = async (ms: number) => shown(await w.list({ userId: "u", asOf: iso(ms) }))[any]?.[0];
  expect([await at(w.clock.ms - 5_001), await at(w.clock.ms - 1), await at(w.clock.ms)]).toEqual([10, 7, 9.5]);
});

it("a list as of a moment is rejected for the future, and for an invalid time", async () => {
  const w = await makeWorld();
  for (const asOf of [iso(w.clock.ms + 1), "yesterday", "", "2026-01-15"]) {
    expectError(await w.list({ userId: "u", asOf }), "invalid_request", "asOf");
  }
  for (const externalRef of ["", "x".repeat(501)]) {
    expectError(await w.list({ userId: "u", externalRef }), "invalid_request", "externalRef");
  }
  expectError(
    await w.list({ userId: "u", externalRef: "a", includeExpired: "yes" }),
    "invalid_request",
    "includeExpired",
  );
});

it("the time of a ledger entry never decreases within a user's ledger, even if the clocks of machines differ", async () => {
  const app = await makeApp();
  await makePack(app.appId, "Pack", [{ amountMinor: 100_000, unit: "tokens" }]);
  const clocks = [new Clock(), new Clock(), new Clock()];
  for (const [index, clock] of clocks.entries()) clock.advance(index * 40);
  const calls = clocks.map((clock) => makeClient(clock));
  const post = (index: number, path: string, body: object) =>
    calls[index % 3]?.("POST", `/api/v1/${path}`, { key: app.keys.sk_live, body: { userId: "u", ...body } });
  for (let index = 5; index > 0; index--) {
    for (const clock of clocks) clock.advance(7);
    const grant = await post(index, "credits/grant", { packId: "Pack", externalRef: `order-${index}` });
    const use = { event: "e", quantities: { count: 0, tokens: 30 } };
    await post(index + 1, "usage/events", { ...use, eventId: `e${index}` });
    await post(index + 2, "usage/reservations", { ...use, reservationId: `res_${app.appId}${index}` });
    await calls[index % 3]?.("POST", `/api/v1/usage/reservations/res_${app.appId}${index}/release`, {
      ...{ key: app.keys.sk_live, body: {} },
    });
    await post(index, "credits/refund", { externalRef: `order-${index}`, refundRef: "a", share: { part: 1, of: 9 } });
    if (index % 2 === 0)
      await post(index + 1, "credits/revoke", { userId: undefined, balanceId: grant?.body.balanceId });
  }
  const { results } = await env.DB.prepare(
    `SELECT occurred_at_ms AS at, reason FROM accounts AS a CROSS JOIN credit_ledger AS l ON l.account_id = a.id
       WHERE a.environment_id = ? ORDER BY l.seq`,
  )
    .bind(app.environments.live.id)
    .all<{ at: number; reason: string }>();
  const times = results.map(({ at }) => at);
  expect(times).toEqual(times.toSorted((a, b) => a - b));
  expect(new Set(results.map(({ reason }) => reason)).size).toBe(5);
});

const clock = new Clock();

it("the cost of lists of the past by reference is one trip and 2n + 5 rows, however many other balances the user has", async () => {
  const { d1, spent } = countingD1(env.DB);
  const app = await makeApp();
  const account = { environmentId: app.environments.live.id, userId: "u" };
  for (const sql of [...deadBalancesSql(account, 3_000), ...liveBalancesSql(account, 20)])
    await env.DB.prepare(sql).run();
  const ctx = makeCtx(app.environments.live, clock, d1);
  spent();
  const listed = await listBalances(ctx, { userId: "u", externalRef: "live 3", includeExpired: false });
  expect(listed.credits.map(({ balanceId }) => balanceId)).toEqual([seededId(account, "live", 3)]);
  expect(spent()).toEqual({ roundTrips: 1, rowsRead: expect.toSatisfy((read) => read <= 7), rowsWritten: 0 });
});

it("the cost of lists of the past as of a moment is one trip, with rows for the balances and their later entries", async () => {
  const { d1, spent } = countingD1(env.DB);
  const app = await makeApp();
  const account = { environmentId: app.environments.live.id, userId: "u" };
  const balances = 20;
  // 200 entries of each balance at the millisecond 2, then two of each later.
  for (const sql of [...liveBalancesSql(account, balances), ...entriesSql(account, balances, 200)]) {
    await env.DB.prepare(sql).run();
  }
  const ctx = makeCtx(app.environments.live, clock, d1);
  const cost = async (asOf: number, externalRef?: string) => {
    spent();
    const { credits } = await listBalances(ctx, { userId: "u", asOf, externalRef, includeExpired: false });
    return { credits, ...spent() };
  };
  const now = await cost(clock.ms);
  expect(now.credits.map(({ remaining }) => remaining)).toEqual(Array(balances).fill(999.8));
  expect(now.roundTrips).toBe(1);
  expect(now.rowsRead).toBeLessThanOrEqual(4 * balances + 5);
  const before = await cost(1);
  expect(before.credits.map(({ remaining }) => remaining)).toEqual(Array(balances).fill(1_000));
  expect(before.rowsRead).toBeLessThanOrEqual(4 * balances + 2 * 200 * balances + 5);
  const costOfOne = await cost(1, "live 7");
  expect(costOfOne.credits).toHaveLength(1);
  expect(costOfOne.rowsRead).toBeLessThanOrEqual(10 + 2 * 200);
});

it.each(["externalRef=order-1", "asOf=2026-01-15T12:00:00Z", "asOf=", "externalRef="])(
  "a publishable key in a list of the past is refused as requires_secret_key, with a valid user token, an invalid one or none: %s",
  async (query) => {
    const clock = new Clock();
    const app = await makeApp(END_USER_SETTING);
    const call = makeClient(clock);
    const token = await userToken("u", clock);
    for (const headers of [{}, { "x-user-token": token }, { "x-user-token": "nonsense" }]) {
      const answer = await call("GET", `/api/v1/credits?userId=u&${query}`, { key: app.keys.pk_live, headers });
      expectError(answer, "requires_secret_key");
    }
  },
);

for (const query of ["externalRef=order", "asOf=2026-01-15T12:00:00Z"]) {
  describeRejections(`GET /api/v1/credits?${query}`, {
    prepare: async (call, app) => {
      await makePack(app.appId, "Pack", [{ amountMinor: 1_000, unit: "tokens" }]);
      const body = { userId: "u", packId: "Pack", externalRef: "order" };
      await call("POST", "/api/v1/credits/grant", { key: app.keys.sk_live, body });
      return { method: "GET", path: `/api/v1/credits?userId=u&${query}` };
    },
    publishable: "requires_secret_key",
    stranger: (answer) => expect(answer.body).toEqual({ credits: [] }),
  });
}
