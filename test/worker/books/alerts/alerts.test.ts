import { env } from "cloudflare:workers";
import { afterAll, expect, it } from "vitest";
import { systemCtx } from "../../../../src/auth/system-ctx.ts";
import { findExpiries } from "../../../../src/books/alerts/find-expiries.ts";
import { randomId } from "../../../../src/lib/ids.ts";
import { countingD1 } from "../../../support/counting-d1.ts";
import { runPart } from "../../../support/cron.ts";
import { expectLedgerInvariants } from "../../../support/invariants.ts";
import { deadBalancesSql, liveBalancesSql } from "../../../support/seed.ts";
import { makeEndpoint, storedMessages } from "../../../support/webhooks.ts";
import { bound, Clock, inTurn, makeApp, makeClient, makePack, type TestItem } from "../../../support/world.ts";

afterAll(expectLedgerInvariants);

const ALERTS = ["credits.low", "credits.depleted"];
const itemOfTokens = (amount: number, others: Partial<TestItem> = {}): TestItem => ({
  amountMinor: amount * 1_000,
  unit: "tokens",
  ...others,
});

interface Given {
  readonly items?: readonly TestItem[];
  readonly alerts?: readonly object[];
  readonly types?: readonly string[];
}

let events = 0;

/** An application with a pack, an endpoint and alerts, and calls for the user `u`. */
async function world({ items = [itemOfTokens(100)], alerts = [], types = ALERTS }: Given = {}) {
  const clock = new Clock();
  const app = await makeApp();
  const { d1, spent } = countingD1(env.DB);
  const call = makeClient(clock, { DB: d1 });
  const key = app.keys.sk_live;
  const packId = await makePack(app.appId, "Pack", items);
  const endpointId = await makeEndpoint(app.environments.live, types, clock.ms);
  const admin = (method: string, path: string, body?: object) =>
    call(method, `/api/v1/admin${path}`, { key: env.ADMIN_TOKEN, ...(body === undefined ? {} : { body }) });
  const alertIds: string[] = [];
  for (const alert of alerts) {
    const answer = await admin("POST", `/apps/${app.appId}/alerts`, {
      mode: "live",
      name: "Low",
      unit: "tokens",
      ...alert,
    });
    expect(answer.status, JSON.stringify(answer.body)).toBe(200);
    alertIds.push(answer.body.alertId);
  }
  const post = async (path: string, body: object) => {
    const answer = await call("POST", `/api/v1${path}`, { key, body });
    expect(answer.status, JSON.stringify(answer.body)).toBe(200);
    return answer.body;
  };
  const grant = async (others: object = {}): Promise<string[]> =>
    (await post("/credits/grant", { userId: "u", packId, ...others })).balances.map(
      ({ balanceId }: { balanceId: string }) => balanceId,
    );
  const spend = (amount: number, others: object = {}) =>
    post("/usage/events", {
      eventId: `e${events++}`,
      userId: "u",
      event: "chat",
      quantities: { count: 0, tokens: amount },
      ...others,
    });
  /** The messages since the last call: the remaining amount of each alert, or `depleted`. */
  let seen = 0;
  const sent = async () => {
    const all = await storedMessages(app.environments.live);
    const fresh = all.slice(seen);
    seen = all.length;
    for (const { deliveries } of fresh) expect(deliveries).toBe(1);
    return fresh.map(({ type, data }) => (type === "credits.depleted" ? "depleted" : data.remaining));
  };
  const adjust = (balanceId: string, delta: number) =>
    admin("POST", `/balances/${balanceId}/adjust`, { delta, note: "n" });
  const states = async () =>
    (await env.DB.prepare("SELECT count(*) AS n FROM alert_states WHERE environment_id = ?")
      .bind(app.environments.live.id)
      .first("n")) as number;
  return { clock, app, call, key, post, admin, grant, spend, sent, adjust, alertIds, states, spent, endpointId };
}

it("an alert on an amount fires when a debit brings the remaining amount below it", async () => {
  const { app, grant, spend, alertIds } = await world({ alerts: [{ below: { amount: 50 } }] });
  await grant();
  await spend(50);
  expect(await storedMessages(app.environments.live)).toEqual([]);
  await spend(0.001);
  const [message, ...others] = await storedMessages(app.environments.live);
  expect(others).toEqual([]);
  expect(message).toMatchObject({ type: "credits.low", subject: "u", deliveries: 1 });
  const data = { userId: "u", alertId: alertIds[0], name: "Low", unit: "tokens" };
  expect(message?.data).toEqual({ ...data, remaining: 49.999, threshold: 50, seq: 3 });
  expect(message?.id).toMatch(/^msg_[0-9A-Za-z]+$/);
});

it("an alert on an amount fires once, and again only after a grant or an adjustment has re-armed it", async () => {
  const { grant, spend, sent, adjust, states } = await world({ alerts: [{ below: { amount: 50 } }] });
  const [first = ""] = await grant();
  await spend(60);
  await spend(10);
  expect(await sent()).toEqual([40]);
  await adjust(first, 19);
  await spend(1);
  expect(await sent()).toEqual([]);
  await adjust(first, 2);
  expect(await states()).toBe(0);
  await spend(1);
  expect(await sent()).toEqual([49]);
  await grant();
  await spend(100);
  expect(await sent()).toEqual([49]);
});

it("an alert on an amount does not fire for a user who was below it at its creation", async () => {
  const { app, grant, spend, sent, admin } = await world();
  await grant();
  await spend(60);
  await admin("POST", `/apps/${app.appId}/alerts`, {
    mode: "live",
    name: "Low",
    unit: "tokens",
    below: { amount: 50 },
  });
  await spend(10);
  expect(await sent()).toEqual([]);
});

it("an alert on an amount counts reserved credits as remaining: a hold and its return do not fire it, a charge does", async () => {
  const { post, grant, sent, clock } = await world({ alerts: [{ below: { amount: 50 } }] });
  await grant();
  const reserve = (id: string, amount: number, others: object = {}) =>
    post("/usage/reservations", {
      reservationId: id,
      userId: "u",
      event: "chat",
      quantities: { count: 0, tokens: amount },
      ...others,
    });
  await reserve("res_a", 60);
  await reserve("res_b", 40);
  await post("/usage/reservations/res_a/release", {});
  expect(await sent()).toEqual([]);
  const commit = { eventId: `c${events++}`, quantities: { count: 0, tokens: 40 } };
  await post("/usage/reservations/res_b/commit", commit);
  expect(await sent()).toEqual([]);
  await reserve("res_c", 59.999, { onExpiry: "charge", expiresInSeconds: 1 });
  await reserve("res_d", 0.001);
  clock.advance(2_000);
  expect(await sent()).toEqual([]);
  await post("/usage/reservations/res_d/release", {});
  expect(await sent()).toEqual([0.001]);
});

it("an alert on an amount fires by a charge although the write that settles it grants more, and then can fire again", async () => {
  const { post, grant, spend, sent, clock } = await world({ alerts: [{ below: { amount: 50 } }] });
  await grant();
  await post("/usage/reservations", {
    userId: "u",
    event: "chat",
    quantities: { count: 0, tokens: 60 },
    onExpiry: "charge",
    expiresInSeconds: 1,
  });
  clock.advance(1_000);
  await grant();
  expect(await sent()).toEqual([40]);
  await spend(100);
  expect(await sent()).toEqual([40]);
});

it("an alert on an amount fires by a charge and the event that settles it together, once", async () => {
  const { post, grant, spend, sent, clock } = await world({ alerts: [{ below: { amount: 50 } }] });
  await grant();
  await post("/usage/reservations", {
    userId: "u",
    event: "chat",
    quantities: { count: 0, tokens: 30 },
    onExpiry: "charge",
    expiresInSeconds: 1,
  });
  clock.advance(1_000);
  await spend(30);
  expect(await sent()).toEqual([40]);
});

it("an alert on an amount fires after an adjustment, a refund, and a revoke, even of a completely held balance", async () => {
  const { post, grant, sent, adjust } = await world({ alerts: [{ below: { amount: 150 } }] });
  const [first = ""] = await grant();
  const [second = ""] = await grant({ externalRef: "order" });
  await adjust(first, -60);
  expect(await sent()).toEqual([140]);
  await adjust(first, 60);
  await post("/credits/refund", { userId: "u", externalRef: "order", refundRef: "r", share: { part: 3, of: 4 } });
  expect(await sent()).toEqual([125]);
  await adjust(second, 75);
  await post("/usage/reservations", { userId: "u", event: "chat", quantities: { count: 0, tokens: 150 } });
  await post("/credits/revoke", { balanceId: first });
  expect(await sent()).toEqual([100]);
  await post("/credits/revoke", { balanceId: second });
  expect(await sent()).toEqual(["depleted"]);
});

it("an alert on an amount watches the balances of its unit that cover its event", async () => {
  const items = [
    itemOfTokens(100, { matches: [{ event: "chat.*" }] }),
    itemOfTokens(100, { matches: [{ event: "image" }, { model: "m" }] }),
    { amountMinor: 100_000_000, unit: "cents" } as const,
  ];
  const alerts = [
    { event: "chat.*", below: { amount: 50 } },
    { event: "image", below: { amount: 100 } },
    { unit: "cents", below: { amount: 100 } },
  ];
  const { grant, spend, sent } = await world({ items, alerts });
  await grant();
  await spend(1, { event: "image" });
  expect(await sent()).toEqual([99]);
  await spend(100, { event: "chat.done" });
  expect(await sent()).toEqual([]);
  await spend(50, { event: "other", model: "m" });
  expect(await sent()).toEqual([49]);
  await spend(0, { event: "other", quantities: { count: 0, cents: 1 } });
  expect(await sent()).toEqual([99]);
});

it("an alert on an amount fires once for twenty racing debits in several isolates", async () => {
  const { clock, key, app, grant, sent } = await world({ alerts: [{ below: { amount: 50 } }] });
  await grant();
  const racing = makeClient(clock, {}, undefined, inTurn(5));
  const answers = await Promise.all(
    Array.from({ length: 20 }, (_, i) =>
      racing("POST", "/api/v1/usage/events", {
        key,
        body: { eventId: `r${i} ${app.appId}`, userId: "u", event: "chat", quantities: { count: 0, tokens: 5 } },
      }),
    ),
  );
  expect(answers.map(({ status }) => status)).toEqual(answers.map(() => 200));
  expect(await sent()).toEqual([45, "depleted"]);
});

it("an alert on an amount adds no row and no trip to a debit that does not fire it", async () => {
  const plain = await world({ alerts: [{ below: { amount: 50 } }] });
  const { app, clock, grant, spend, spent } = plain;
  await grant();
  await spend(1);
  const cost = async (amount: number) => {
    spent();
    await spend(amount);
    return spent();
  };
  const watched = await cost(1);
  expect([watched.roundTrips, watched.rowsWritten]).toEqual([1, 5]);
  expect((await cost(50)).rowsWritten).toBeGreaterThan(4);
  await env.DB.prepare("UPDATE environments SET settings_snapshot = NULL WHERE id = ?")
    .bind(app.environments.live.id)
    .run();
  await spend(1);
  clock.advance(2_000);
  await spend(1);
  const without = await cost(1);
  expect([without.roundTrips, without.rowsWritten]).toEqual([1, 5]);
});

const alerts = [{ below: { percent: 25 } }];

it("an alert on a percentage compares the remaining amount of balances that were active just before with their issued amount", async () => {
  const { app, grant, spend, sent } = await world({ alerts });
  await grant();
  await grant();
  // 50 of 200 remain. The debit empties the first balance, which was active before it and so counts.
  await spend(150);
  expect(await sent()).toEqual([]);
  // Now the second balance alone counts: 25 of 100 remain.
  await spend(25);
  expect(await sent()).toEqual([]);
  await spend(0.001);
  expect(await sent()).toEqual([24.999]);
  expect((await storedMessages(app.environments.live)).at(-1)?.data.threshold).toBe(25);
});

it("an alert on a percentage computes the threshold after added credits from the balances that are active then", async () => {
  const { grant, spend, sent, adjust, states } = await world({ alerts });
  const [first = ""] = await grant();
  await spend(80);
  expect(await sent()).toEqual([20]);
  await adjust(first, 4);
  expect(await states()).toBe(1);
  await grant();
  expect(await states()).toBe(0);
  await spend(74.001);
  expect(await sent()).toEqual([49.999]);
});

it("an alert on a percentage does not fire again if the share rises only because a balance was used up", async () => {
  const { grant, spend, sent } = await world({ alerts: [{ below: { percent: 60 } }] });
  await grant();
  await grant();
  await spend(90);
  expect(await sent()).toEqual([110]);
  await spend(10);
  // The second balance alone counts now, and all of it remained before this debit.
  await spend(50);
  expect(await sent()).toEqual([]);
});

it("an alert on a percentage rounds the threshold up to a step, and is exact for amounts beyond doubles", async () => {
  const items = [{ amountMinor: 8_796_093_022_208_000, unit: "tokens" } as const];
  const { app, grant, spend, sent } = await world({ items, alerts: [{ below: { percent: 99.999 } }] });
  await grant();
  await grant();
  // 99.999 % of 17,592,186,044,416 is 17,592,010,122,555.55584.
  await spend(175_921_860.444);
  expect(await sent()).toEqual([]);
  await spend(0.001);
  const { results } = await env.DB.prepare("SELECT data FROM webhook_messages WHERE environment_id = ?")
    .bind(app.environments.live.id)
    .all<{ data: string }>();
  expect(results.map(({ data }) => data)).toEqual([
    expect.stringContaining('"remaining":17592010122555.555,"threshold":17592010122555.556,'),
  ]);
});

it("credits.depleted fires once when a user has no active credits left in any unit, even without alerts", async () => {
  const items = [itemOfTokens(1), { amountMinor: 1_000_000, unit: "cents" } as const];
  const { app, grant, spend, sent } = await world({ items });
  await grant();
  await spend(1);
  expect(await sent()).toEqual([]);
  await spend(0, { quantities: { count: 0, cents: 1 } });
  expect(await sent()).toEqual(["depleted"]);
  expect((await storedMessages(app.environments.live)).at(-1)?.data).toEqual({ userId: "u", seq: 4 });
  await grant();
  await spend(1);
  await spend(0, { quantities: { count: 0, cents: 1 } });
  expect(await sent()).toEqual(["depleted"]);
});

it("an erasure fires no alert, neither immediately nor by the cron", async () => {
  const { clock, post, grant, sent } = await world({
    alerts: [{ below: { amount: 50 } }],
    types: [...ALERTS, "balance.*"],
  });
  await grant({ expiresAt: new Date(clock.ms + 60_000).toISOString() });
  await post("/erase-person", { distinctId: "u" });
  clock.advance(120_000);
  await runPart(findExpiries, systemCtx(bound(), { isolate: {}, now: clock.now, newId: randomId }));
  expect(await sent()).toEqual([]);
});

it("an endpoint receives only the types of messages that it asked for", async () => {
  const { grant, spend, sent } = await world({ alerts: [{ below: { amount: 50 } }], types: ["credits.depleted"] });
  await grant();
  await spend(60);
  expect(await sent()).toEqual([]);
  await spend(40);
  expect(await sent()).toEqual(["depleted"]);
});

it("an endpoint deletes the state of alerts when it is disabled, and alerts are armed again when it is enabled", async () => {
  const { app, grant, spend, sent, states } = await world({ alerts: [{ below: { amount: 50 } }] });
  const set = (settingsSnapshot: string | null) =>
    env.DB.prepare("UPDATE environments SET settings_snapshot = ? WHERE id = ?")
      .bind(settingsSnapshot, app.environments.live.id)
      .run();
  await grant();
  await spend(60);
  expect(await sent()).toEqual([40]);
  expect(await states()).toBe(1);
  const settingsSnapshot = await env.DB.prepare(
    "SELECT settings_snapshot AS settingsSnapshot FROM environments WHERE id = ?",
  )
    .bind(app.environments.live.id)
    .first<string>("settingsSnapshot");
  await set(null);
  expect(await states()).toBe(0);
  await grant();
  await spend(95);
  await set(settingsSnapshot);
  await spend(1);
  expect(await sent()).toEqual([]);
  await grant();
  await spend(100);
  expect(await sent()).toEqual([44]);
});

it("the cost of evaluating alerts depends on the user's active balances and on the alerts, not on other balances", async () => {
  const reads = async (dead: number) => {
    const { app, clock, grant, spend, spent } = await world({
      alerts: [{ below: { amount: 1 } }, { event: "chat.*", below: { percent: 1 } }],
    });
    const account = { environmentId: app.environments.live.id, userId: "u" };
    for (const sql of [...deadBalancesSql(account, dead), ...liveBalancesSql(account, 10)]) {
      await env.DB.prepare(sql).run();
    }
    await grant();
    await spend(1);
    clock.advance(1);
    spent();
    await spend(1);
    return spent();
  };
  const [few, many] = [await reads(0), await reads(2_000)];
  expect(many).toEqual(few);
  expect(few.rowsRead).toBeLessThan(200);
});
