import { applyD1Migrations } from "cloudflare:test";
import { env } from "cloudflare:workers";
import { afterAll, beforeAll, beforeEach, expect, it, vi } from "vitest";
import { scheduled } from "../../../src/cron.ts";
import { DAY_MS, MINUTE_MS } from "../../../src/lib/time.ts";
import { oldEventsPart } from "../../../src/people/capture/delete-old-events.ts";
import { countingD1 } from "../../support/counting-d1.ts";
import { farD1 } from "../../support/far-d1.ts";
import { expectLedgerInvariants } from "../../support/invariants.ts";
import { copyApp, laggingD1 } from "../../support/lagging-d1.ts";
import { expectError } from "../../support/rejections.ts";
import { clockWorld } from "../../support/test-clock.ts";
import { withoutTrigger } from "../../support/without-trigger.ts";
import { bound, inTurn, makeClient } from "../../support/world.ts";

beforeAll(() => applyD1Migrations(env.REPLICA, env.TEST_MIGRATIONS));
afterAll(expectLedgerInvariants);

// Retries do not wait.
beforeEach(() => {
  vi.spyOn(scheduler, "wait").mockResolvedValue();
});

const MONTH_MS = 30 * DAY_MS;
const use = { userId: "u", event: "chat", quantities: { count: 0, tokens: 1 } };

it("the environment's time applies to everything that arrives and to the export, while links use real time", async () => {
  const w = await clockWorld();
  await w.move(MONTH_MS);
  await w.grant({ userId: "ana" });
  await w.callOk("POST", "/usage/events", { ...use, eventId: "e", userId: "ana" });
  await w.callOk("POST", "/consent", { distinctId: "ana", purpose: "ads", decision: "denied" });
  const seen = { api_key: w.app.keys.sk_test, event: "seen", distinct_id: "ana" };
  expect((await w.call("POST", "/e/", { body: seen })).status).toBe(200);
  const link = await w.callOk("POST", "/export-person", { distinctId: "ana" });
  expect(link.expiresAt).toBe(w.at(DAY_MS));
  w.clock.advance(MINUTE_MS);
  const { pathname, search } = new URL(link.downloadUrl);
  // The isolate that opens the link does not know the clock.
  const { status, body } = await makeClient(w.clock)("GET", `${pathname}${search}`);
  expect(status).toBe(200);
  const then = w.at(MONTH_MS);
  const now = w.at(MONTH_MS + MINUTE_MS);
  expect(body).toMatchObject({
    exportedAt: now,
    person: {
      createdAt: then,
      credits: { balances: [{ grantedAt: then }] },
      exports: [
        { action: "minted", occurredAt: then },
        { action: "opened", occurredAt: now },
      ],
    },
    events: {
      analytics: [{ receivedAt: then, timestamp: then }],
      metering: [{ receivedAt: then, occurredAt: then }],
    },
    consentLog: [{ receivedAt: then, occurredAt: then }],
  });
  w.clock.advance(DAY_MS);
  expectError(await w.call("GET", `${pathname}${search}`), "invalid_or_expired_token");
});

it("the environment's time bounds occurredAt, asOf and expiresAt and ends holds, while the daily limits of analytics use real time", async () => {
  const w = await clockWorld();
  await w.grant();
  await w.move(MONTH_MS);
  const event = { ...use, eventId: "e" };
  const post = (occurredAt: string) =>
    w.call("POST", "/api/v1/usage/events", { key: w.app.keys.sk_test, body: { ...event, occurredAt } });
  expectError(await post(w.at(MONTH_MS + DAY_MS + 1)), "invalid_request", "occurredAt");
  expect((await post(w.at(MONTH_MS + DAY_MS))).status).toBe(200);
  const list = (asOf: string) => w.call("GET", `/api/v1/credits?userId=u&asOf=${asOf}`, { key: w.app.keys.sk_test });
  expectError(await list(w.at(MONTH_MS + 1)), "invalid_request", "asOf");
  expect((await list(w.at(MONTH_MS))).status).toBe(200);
  expect(await w.reserve()).toMatchObject({ expiresAt: w.at(MONTH_MS + MINUTE_MS) });
  const past = { userId: "u", packId: w.packId, expiresAt: w.at(MONTH_MS) };
  const late = await w.call("POST", "/api/v1/credits/grant", { key: w.app.keys.sk_test, body: past });
  expectError(late, "invalid_request", "expiresAt");
  const { pk_test: page } = w.app.keys;
  await w.call("POST", "/batch/", { body: { api_key: page, batch: [{ event: "seen", distinct_id: "u" }] } });
  const limits = await w.admin("GET", "/limits?mode=test");
  expect(limits.body.today).toMatchObject({ day: w.at(0).slice(0, 10), events: 1, eventsOfOneId: 1 });
});

it("the environment's time is known to every isolate with its next request, whatever the isolate remembered of the user", async () => {
  const w = await clockWorld({ pick: inTurn(3) });
  await w.grant({ expiresAt: w.at(2 * DAY_MS) });
  for (let n = 0; n < 6; n++) await w.callOk("POST", "/usage/events", { ...use, eventId: `a${n}` });
  await w.move(DAY_MS);
  for (let n = 0; n < 3; n++) await w.callOk("POST", "/usage/events", { ...use, eventId: `b${n}` });
  expect((await w.ledger()).slice(7).map(({ occurredAt }: { occurredAt: string }) => occurredAt)).toEqual(
    Array(3).fill(w.at(DAY_MS)),
  );
  await w.move(2 * DAY_MS);
  for (let n = 0; n < 3; n++) {
    const body = { ...use, eventId: `c${n}` };
    const answer = await w.call("POST", "/api/v1/usage/events", { key: w.app.keys.sk_test, body });
    expectError(answer, "insufficient_credits");
  }
  for (let n = 0; n < 3; n++) expect((await w.callOk("GET", "/credits?userId=u")).credits).toEqual([]);
});

it("the environment's time does not apply to the live environment, or to another application", async () => {
  const w = await clockWorld();
  const other = await clockWorld();
  for (const key of [w.app.keys.sk_live, w.app.keys.sk_test]) {
    await w.callOk("POST", "/credits/grant", { userId: "u", packId: w.packId, expiresAt: w.at(DAY_MS) }, key);
  }
  await other.grant({ expiresAt: w.at(DAY_MS) });
  await w.move(MONTH_MS);
  const statusOf = async (world: typeof w, key: string) =>
    (await world.callOk("GET", "/credits?userId=u&includeExpired=true", undefined, key)).credits.map(
      ({ status }: { status: string }) => status,
    );
  expect(await statusOf(w, w.app.keys.sk_test)).toEqual(["expired"]);
  expect(await statusOf(w, w.app.keys.sk_live)).toEqual(["active"]);
  expect(await statusOf(other, other.app.keys.sk_test)).toEqual(["active"]);
  const { results } = await env.DB.prepare(
    "SELECT mode FROM environments WHERE app_id IN (?, ?) AND settings_snapshot ->> '$.clock' IS NOT NULL",
  )
    .bind(w.app.appId, other.app.appId)
    .all();
  expect(results).toEqual([{ mode: "test" }]);
});

it("the environment's time is the time of the cron, which settles holds and expiries as they become due, and of administration", async () => {
  const w = await clockWorld();
  await w.listen();
  const balanceId = await w.grant({ expiresAt: w.at(MONTH_MS + 5 * MINUTE_MS) });
  await w.move(MONTH_MS);
  await w.reserve();
  const adjusted = await w.call("POST", `/api/v1/admin/balances/${balanceId}/adjust`, {
    key: env.ADMIN_TOKEN,
    body: { delta: 5, note: "More" },
  });
  expect(adjusted.status).toBe(200);
  expect((await w.ledger()).at(-1)).toMatchObject({ reason: "admin_adjust", occurredAt: w.at(MONTH_MS) });
  await w.cron();
  expect((await w.ledger()).at(-1)).toMatchObject({ reason: "admin_adjust" });
  w.clock.advance(MINUTE_MS);
  await w.cron();
  expect((await w.ledger()).at(-1)).toMatchObject({
    reason: "reservation_expired",
    occurredAt: w.at(MONTH_MS + MINUTE_MS),
  });
  w.clock.advance(4 * MINUTE_MS);
  await w.cron();
  await w.cron();
  const expired = (await w.messages()).filter(({ type }) => type === "balance.expired");
  expect(expired).toMatchObject([{ at: w.at(MONTH_MS + 5 * MINUTE_MS), data: { remaining: 105 } }]);
});

it("the environment's time is the time from which notices count: none is sent for a moment before they were set", async () => {
  const w = await clockWorld();
  await w.listen();
  await w.grant({ expiresAt: w.at(10 * DAY_MS) });
  await w.move(5 * DAY_MS);
  expect((await w.admin("PUT", "/expiry-notices", { mode: "test", days: [7, 1] })).status).toBe(200);
  await w.cron();
  await w.move(20 * DAY_MS);
  const messages = (await w.messages()).filter(({ type }) => type.startsWith("balance."));
  expect(messages.map(({ type, at }) => [type, at])).toEqual([
    ["balance.expiring", w.at(9 * DAY_MS)],
    ["balance.expired", w.at(10 * DAY_MS)],
  ]);
});

it("the environment's time is a message's timestamp, while its attempts and its storage use real time", async () => {
  const w = await clockWorld();
  await w.listen();
  await w.move(10 * MONTH_MS);
  await w.grant();
  const deliveries = await env.DB.prepare(
    `SELECT d.next_attempt_at_ms AS nextMs FROM webhook_deliveries AS d JOIN webhook_messages AS m ON m.id = d.message_id
       WHERE m.environment_id = ?`,
  )
    .bind(w.app.environments.test.id)
    .all();
  expect(deliveries.results).toEqual([{ nextMs: w.clock.ms }]);
  expect((await w.messages()).map(({ at }) => at)).toEqual([w.at(10 * MONTH_MS)]);
  w.clock.advance(29 * DAY_MS);
  await w.cron();
  expect(await w.messages()).toHaveLength(1);
  w.clock.advance(2 * DAY_MS);
  await w.cron();
  expect(await w.messages()).toEqual([]);
});

it("the environment's time does not affect the retention of analytics, which uses real time", async () => {
  const w = await clockWorld();
  const retained = () => scheduled(bound({ ANALYTICS_RETENTION_DAYS: "30" }), w.runtime, [oldEventsPart]);
  // Events of other test files would be deleted first, and some of them are forged.
  await withoutTrigger("analytics_events_kept", env.DB.prepare("DELETE FROM analytics_events"));
  const kept = () =>
    env.DB.prepare("SELECT count(*) AS events FROM analytics_events WHERE environment_id = ?")
      .bind(w.app.environments.test.id)
      .first("events");
  const send = async (uuid: string) => {
    const body = { api_key: w.app.keys.sk_test, batch: [{ event: "seen", distinct_id: "ana", uuid }] };
    expect((await w.call("POST", "/batch/", { body })).status).toBe(200);
  };
  await send("0195f0a0-0000-7000-8000-000000000001");
  await w.move(12 * MONTH_MS);
  await send("0195f0a0-0000-7000-8000-000000000002");
  await retained();
  expect(await kept()).toBe(2);
  w.clock.advance(30 * DAY_MS + 1);
  await retained();
  expect(await kept()).toBe(0);
});

it("a clock costs no row and no trip in live environments, nor in test environments without one", async () => {
  const counting = countingD1(env.DB);
  const far = farD1(env.DB, { primaryMs: 0, replicaMs: 0 });
  const w = await clockWorld();
  const other = await clockWorld();
  await other.move(MONTH_MS);
  const costs: object[] = [];
  for (const key of [w.app.keys.sk_live, w.app.keys.sk_test]) {
    const [rows, trips] = [makeClient(w.clock, { DB: counting.d1 }), makeClient(w.clock, { DB: far.d1 })];
    for (const [call, spent] of [
      [rows, counting.spent],
      [trips, far.spent],
    ] as const) {
      const post = (path: string, body: object) =>
        call("POST", path === "/batch/" ? path : `/api/v1${path}`, { key, body });
      const userId = `u${costs.length}`;
      const consent = { distinctId: userId, purpose: "ads", decision: "denied" };
      await post("/credits/grant", { userId, packId: w.packId });
      // A grant in test mode also writes the quota's counter, so it is not compared.
      spent();
      for (const [path, body] of [
        ["/usage/events", { ...use, userId, eventId: userId }],
        ["/consent", consent],
        ["/export-person", { distinctId: userId }],
        ["/batch/", { api_key: key, batch: [{ event: "seen", distinct_id: userId }] }],
      ] as const) {
        expect((await post(path, body)).status, path).toBe(200);
        costs.push(spent());
      }
      await call("GET", `/api/v1/credits?userId=${userId}`, { key });
      costs.push(spent());
    }
  }
  // A request with a test key costs the same as with a live key.
  expect(costs.slice(costs.length / 2)).toEqual(costs.slice(0, costs.length / 2));
});

it("a clock takes six trips to move if nothing is due, and seven more for each due moment", async () => {
  const { d1, spent } = farD1(env.DB, { primaryMs: 0, replicaMs: 0 });
  const w = await clockWorld({ bindings: { DB: d1 } });
  spent();
  await w.move(DAY_MS);
  expect(spent().inSequence).toBe(6);
  await w.grant();
  await w.reserve({ reservationId: "res_one", expiresInSeconds: 60 });
  await w.reserve({ reservationId: "res_two", expiresInSeconds: 120 });
  spent();
  await w.move(2 * DAY_MS);
  expect(spent().inSequence).toBe(6 + 2 * 7);
});

it("a clock costs one more request in an isolate that does not know it, and none after that", async () => {
  const w = await clockWorld();
  await w.grant();
  await w.move(DAY_MS);
  const { d1, spent } = farD1(env.DB, { primaryMs: 0, replicaMs: 0 });
  const call = makeClient(w.clock, { DB: d1 });
  const list = () => call("GET", "/api/v1/credits?userId=u", { key: w.app.keys.sk_test });
  const trips = async () => {
    expect((await list()).status).toBe(200);
    return spent();
  };
  const [first, second] = [await trips(), await trips()];
  expect([first.inSequence, second.inSequence]).toEqual([3, 1]);
});

it("a clock is in force as soon as the isolate knows it, even if a replica lags", async () => {
  const lagging = laggingD1(env.DB, env.REPLICA);
  const w = await clockWorld({ bindings: { DB: lagging.d1 } });
  await copyApp(w.app);
  await w.grant({ expiresAt: w.at(DAY_MS) });
  await lagging.catchUpTo(lagging.written());
  const listed = async () => (await w.callOk("GET", "/credits?userId=u")).credits.length;
  expect(await listed()).toBe(1);
  await w.move(2 * DAY_MS);
  // Neither this isolate nor the replica knows that the clock moved, as with any setting while a replica lags.
  expect(await listed()).toBe(1);
  await w.callOk("POST", "/consent", { distinctId: "d", purpose: "ads", decision: "denied" });
  // Now the isolate knows, so it does not trust the replica, which still lags.
  expect(await listed()).toBe(0);
  await lagging.catchUpTo(lagging.written());
  expect(await listed()).toBe(0);
});

it.each(["DB", "DB_1"])("a clock moves for an application in either database: %s", async (database) => {
  const w = await clockWorld();
  const admin = async (method: string, path: string, body: object) => {
    const answer = await w.call(method, `/api/v1/admin/apps${path}`, { key: env.ADMIN_TOKEN, body });
    expect(answer.status, JSON.stringify(answer.body)).toBe(200);
    return answer.body;
  };
  const { appId } = await admin("POST", "", { name: "Clock", database });
  const { key } = await admin("POST", `/${appId}/keys`, { kind: "secret", mode: "test" });
  await admin("POST", `/${appId}/packs`, { packName: "Pack", items: [{ amount: 10, unit: "tokens" }] });
  const grant = { userId: "u", packId: "Pack" };
  expect((await w.call("POST", "/api/v1/credits/grant", { key, body: grant })).status).toBe(200);
  const hold = { ...use, expiresInSeconds: 60 };
  expect((await w.call("POST", "/api/v1/usage/reservations", { key, body: hold })).status).toBe(200);
  const now = w.at(DAY_MS);
  expect(await admin("PUT", `/${appId}/clock`, { now })).toEqual({ now, status: "ready" });
  const { entries } = (await w.call("GET", "/api/v1/credits/history?userId=u", { key })).body;
  expect(entries[0]).toMatchObject({ reason: "reservation_expired", occurredAt: w.at(MINUTE_MS) });
});

it("a request with any body is served once at the clock's time by an isolate that does not know the clock", async () => {
  const w = await clockWorld();
  await w.grant({ userId: "ana" });
  await w.move(DAY_MS);
  const fresh = () => makeClient(w.clock);
  const event = { api_key: w.app.keys.sk_test, batch: [{ event: "seen", distinct_id: "ana" }] };
  const zipped = new Response(JSON.stringify(event)).body?.pipeThrough(new CompressionStream("gzip"));
  const bytes = new Uint8Array(await new Response(zipped).arrayBuffer());
  const headers = { "content-encoding": "gzip" };
  expect((await fresh()("POST", "/batch/", { body: bytes, headers })).body).toEqual({ status: 1 });
  const stream = new Response(JSON.stringify({ ...use, userId: "ana", eventId: "e" })).body;
  expect(stream).not.toBeNull();
  const recorded = await fresh()("POST", "/api/v1/usage/events", { key: w.app.keys.sk_test, body: stream });
  expect(recorded.status).toBe(200);
  const refused = await fresh()("GET", "/api/v1/credits?userId=ana&asOf=2126-01-01T00:00:00Z", {
    key: w.app.keys.sk_test,
  });
  expectError(refused, "invalid_request", "asOf");
  const { results } = await env.DB.prepare(
    "SELECT received_at_ms AS atMs FROM analytics_events WHERE environment_id = ?",
  )
    .bind(w.app.environments.test.id)
    .all();
  expect(results).toEqual([{ atMs: w.clock.ms + DAY_MS }]);
});

it("a list of events of several users is recorded at the clock's time by an isolate that does not know the clock", async () => {
  const w = await clockWorld();
  for (const userId of ["ana", "ben"]) await w.grant({ userId });
  await w.move(DAY_MS);
  const list = ["ana", "ben"].map((userId) => ({ ...use, userId, eventId: `of ${userId}` }));
  const answer = await makeClient(w.clock)("POST", "/api/v1/usage/events", { key: w.app.keys.sk_test, body: list });
  expect(answer.body.results).toMatchObject(list.map(({ eventId }) => ({ eventId, debits: [{ amount: 1 }] })));
  expect((await w.ledger("ana"))[1]).toMatchObject({ occurredAt: w.at(DAY_MS) });
});

it("an erasure writes entries at the clock's time, and its receipt is in real time", async () => {
  const w = await clockWorld();
  await w.grant({ userId: "ana" });
  await w.move(MONTH_MS);
  const { erasureId, status } = await w.callOk("POST", "/erase-person", { distinctId: "ana" });
  expect(status).toBe("completed");
  const receipt = await w.callOk("GET", `/erasures/${erasureId}`);
  expect(receipt).toMatchObject({ startedAt: w.at(0), completedAt: w.at(0), recoverableUntil: w.at(30 * DAY_MS) });
  const { results } = await env.DB.prepare(
    `SELECT l.occurred_at_ms AS atMs FROM credit_ledger AS l JOIN accounts AS a ON a.id = l.account_id
     WHERE a.environment_id = ? ORDER BY l.seq`,
  )
    .bind(w.app.environments.test.id)
    .all();
  expect(results).toEqual([{ atMs: w.clock.ms }, { atMs: w.clock.ms + MONTH_MS }]);
});
