import { env } from "cloudflare:workers";
import { afterAll, beforeEach, expect, it, vi } from "vitest";
import { scheduled } from "../../../src/cron.ts";
import { continueErasure } from "../../../src/erasure/erase-running.ts";
import { erasePerson } from "../../../src/erasure/start-erasure.ts";
import { randomId } from "../../../src/lib/ids.ts";
import {
  ANA,
  DEVICE,
  type ErasureWorld,
  erasureWorld,
  fillPerson,
  findInDatabase,
  oneToken,
  TRACES,
} from "../../support/erasure.ts";
import { FAULTS, faultyD1 } from "../../support/faulty-d1.ts";
import { expectLedgerInvariants } from "../../support/invariants.ts";
import { exportOf, send } from "../../support/people.ts";
import { expectError } from "../../support/rejections.ts";
import { isSoak } from "../../support/soak.ts";
import { bound, inTurn, makeClient, makeCtx } from "../../support/world.ts";

afterAll(expectLedgerInvariants);
// Repeated attempts do not wait.
beforeEach(() => {
  vi.spyOn(scheduler, "wait").mockResolvedValue();
});

const input = { distinctId: ANA, dryRun: false, keepConsent: false };

async function erase({ post }: ErasureWorld, more: object = {}): Promise<string> {
  const { status, body } = await post("erase-person", { distinctId: ANA, ...more });
  expect([status, body.status]).toEqual([200, "completed"]);
  return body.erasureId;
}

/** By unit, what was granted and what was used. */
async function books({ app }: ErasureWorld): Promise<unknown> {
  const { results } = await env.DB.prepare(
    `SELECT b.unit, sum(iif(l.reason = 'grant', l.delta_minor, 0)) AS granted, sum(iif(l.reason = 'event_committed', l.delta_minor, 0)) AS used,
       (SELECT sum(u.tokens_minor) FROM usage_events AS u CROSS JOIN accounts AS o ON o.id = u.account_id
        WHERE o.environment_id = ?1) AS tokens
     FROM credit_ledger AS l CROSS JOIN accounts AS a ON a.id = l.account_id
     CROSS JOIN credit_balances AS b ON b.account_id = a.id AND b.grant_seq = l.grant_seq
     WHERE a.environment_id = ?1 GROUP BY b.unit ORDER BY b.unit`,
  )
    .bind(app.environments.live.id)
    .all();
  return results;
}

it("an erased id is rejected by every write, even in an isolate that remembers its account, and is unknown to reads", async () => {
  const world = await erasureWorld();
  const { app, post, get, clock } = world;
  const { body: granted } = await post("credits/grant", { userId: ANA, packId: "Two" });
  const { body: held } = await post("usage/reservations", { userId: ANA, ...oneToken });
  const before = await books(world);
  const other = makeClient(clock);
  const key = app.keys.sk_live;
  await other("POST", "/api/v1/erase-person", { key, body: { distinctId: ANA } });

  const refused: [string, object][] = [
    ["usage/events", { eventId: "e1", userId: ANA, ...oneToken }],
    ["usage/events", { eventId: "e2", userId: ANA, event: "chat.done", quantities: { tokens: 1e6 } }],
    ["usage/reservations", { userId: ANA, ...oneToken }],
    ["credits/grant", { userId: ANA, packId: "Two" }],
    ["credits/refund", { userId: ANA, externalRef: "o", refundRef: "r" }],
    ["credits/revoke", { balanceId: granted.balanceId }],
    ["consent", { distinctId: ANA, purpose: "ads", decision: "denied" }],
  ];
  for (const [path, body] of refused) expectError(await post(path, body), "person_erased");
  for (const verb of ["commit", "release", "extend"]) {
    const bodies: Record<string, object> = {
      commit: { eventId: "e9", quantities: { tokens: 1 } },
      release: {},
      extend: { expiresInSeconds: 9 },
    };
    const answer = await post(`usage/reservations/${held.reservationId}/${verb}`, bodies[verb] ?? {});
    expectError(answer, "reservation_not_found");
  }
  const adjust = await world.call("POST", `/api/v1/admin/balances/${granted.balanceId}/adjust`, {
    key: env.ADMIN_TOKEN,
    body: { delta: 1, note: "x" },
  });
  expectError(adjust, "person_erased");
  const list = [
    { eventId: "l1", userId: ANA, ...oneToken },
    { eventId: "l2", userId: "bo", event: "x", quantities: { count: 0 } },
  ];
  const { results } = (await post("usage/events/batch", list)).body;
  expect(results.map((result: { error?: { code: string } }) => result.error?.code)).toEqual([
    "person_erased",
    undefined,
  ]);
  expect((await get(`credits?userId=${ANA}&includeExpired=true`)).body).toEqual({ credits: [] });
  expect(await books(world)).toEqual(before);
  expect(await findInDatabase(TRACES, app.environments.live.id)).toEqual([]);
});

it("an erased id gets the usual response in both protocols of analytics, is not stored, and is cut out of others' events", async () => {
  const world = await erasureWorld();
  const { app, call } = world;
  await erase(world);
  const uuid = "0194685f-8a3c-7d11-9f2b-6c1d2e3f4a5b";
  const event = { event: "seen", distinct_id: ANA, properties: { a: 1 } };
  const v0 = await call("POST", "/batch/", { body: { api_key: app.keys.pk_live, batch: [event] } });
  const v1 = await call("POST", "/i/v1/analytics/events", {
    key: app.keys.pk_live,
    body: { batch: [{ ...event, uuid }] },
  });
  expect([v0.status, v0.body]).toEqual([200, { status: 1 }]);
  expect([v1.status, v1.body]).toEqual([200, { results: { [uuid]: { result: "ok" } } }]);
  const named = [
    { event: "$identify", distinct_id: "bo", properties: { $anon_distinct_id: ANA, kept: 1 } },
    { event: "$create_alias", distinct_id: "bo", properties: { alias: ANA, kept: 2 } },
  ];
  const sent = await call("POST", "/batch/", { body: { api_key: app.keys.sk_live, batch: named } });
  expect(sent.body).toEqual({ status: 1 });
  const { id } = app.environments.live;
  expect(await findInDatabase(TRACES, id)).toEqual([]);
  const { results } = await env.DB.prepare(
    "SELECT properties FROM analytics_events WHERE environment_id = ? ORDER BY seq",
  )
    .bind(id)
    .all<{ properties: string }>();
  expect(results.map(({ properties }) => JSON.parse(properties))).toEqual([{ kept: 1 }, { kept: 2 }]);
});

it("an erased id counts towards the environment's daily limits like a new id, in both protocols", async () => {
  const world = await erasureWorld();
  const { app, call } = world;
  await erase(world);
  const { id } = app.environments.live;
  await env.DB.prepare(`UPDATE environments SET analytics_limits = '{"eventsADay":8}' WHERE id = ?`).bind(id).run();
  const event = (distinct_id: string) => ({
    ...{ uuid: crypto.randomUUID(), event: "seen", distinct_id, properties: { text: "ü" } },
  });
  const v0 = (ids: string[], key = app.keys.pk_live) =>
    call("POST", "/batch/", { body: { api_key: key, batch: ids.map(event) } });
  const day = () =>
    env.DB.prepare("SELECT events, bytes, id_events FROM analytics_days WHERE environment_id = ?").bind(id).first();
  expect((await v0([ANA, "bo", ANA])).body).toEqual({ status: 1 });
  // An event counts its id twice, its name, its properties and 400 bytes. A new id, and an erased one too, adds its id three times and 600.
  const ofAna = 400 + 2 * new TextEncoder().encode(ANA).length + "seen".length + 13;
  const ofRecord = 600 + 3 * new TextEncoder().encode(ANA).length;
  const bytes = 2 * ofAna + ofRecord + (400 + 4 + 4 + 13) + (600 + 6);
  expect(await day()).toEqual({ events: 3, bytes, id_events: 2 });
  expect((await v0([ANA])).body).toEqual({ status: 1 });
  await v0([ANA], app.keys.sk_live);
  expect(await day()).toMatchObject({ events: 4, bytes: bytes + ofAna });
  // Over three quarters of the limit nothing of the request is stored or counted, whichever of its ids are erased.
  for (const ids of [
    [ANA, ANA, ANA],
    ["bo", ANA, "bo"],
    ["new", "new", "new"],
  ]) {
    expect((await v0(ids)).body).toEqual({ status: 1, quota_limited: ["events"] });
    const batch = ids.map(event);
    const { body } = await call("POST", "/i/v1/analytics/events", { key: app.keys.pk_live, body: { batch } });
    const dropped = { result: "drop", details: "the day's limits of analytics are reached" };
    expect(body.results).toEqual(Object.fromEntries(batch.map(({ uuid }) => [uuid, dropped])));
  }
  expect(await day()).toMatchObject({ events: 4 });
  expect(await findInDatabase(TRACES, id)).toEqual([]);
});

it("an erased id is no person in an export by an older link, which has nothing but kept consent", async () => {
  const world = await erasureWorld();
  const { app, call, post } = world;
  await fillPerson(world);
  const { body: link } = await post("export-person", { distinctId: ANA });
  await erase(world, { keepConsent: true });
  const { body: document } = await call("GET", link.downloadUrl);
  expect(document).toMatchObject({ distinctId: ANA, person: { personId: null, distinctIds: [] } });
  expect(document.events).toEqual({ analytics: [], metering: [] });
  expect(document.consentLog).toHaveLength(1);
  expect((await exportOf(call, app, DEVICE)).person).toBeNull();
  expect(await findInDatabase([ANA, DEVICE], app.environments.live.id)).toEqual([]);
});

it("an erasure without keepConsent also deletes what an earlier, lifted erasure kept", async () => {
  const world = await erasureWorld();
  const { app, call, post } = world;
  await fillPerson(world);
  const kept = await erase(world, { keepConsent: true });
  const rows = () =>
    env.DB.prepare("SELECT count(*) AS count FROM consent_log WHERE environment_id = ?")
      .bind(app.environments.live.id)
      .first<number>("count");
  const before = await rows();
  const noDelete = env.DB.prepare("DELETE FROM consent_log WHERE environment_id = ?").bind(app.environments.live.id);
  await expect(noDelete.run()).rejects.toThrow("consent_log_append_only");
  expect((await exportOf(call, app, ANA)).consentLog).toHaveLength(1);
  await post(`erasures/${kept}/lift`, {});
  await expect(noDelete.run()).rejects.toThrow("consent_log_append_only");
  await erase(world);
  expect(await rows()).toBe((before ?? 0) - 1);
  expect(await exportOf(call, app, ANA)).toMatchObject({ person: null, consentLog: [] });
});

it("an erased id can be used again after its erasure is lifted, without any earlier data", async () => {
  const world = await erasureWorld();
  const { app, post, get, call } = world;
  await fillPerson(world);
  const erasureId = await erase(world);
  expect((await post(`erasures/${erasureId}/lift`, {})).body.liftedAt).not.toBeNull();
  expect((await post(`erasures/${erasureId}/lift`, {})).status).toBe(200);
  expect((await exportOf(call, app, ANA)).person).toBeNull();
  expect((await post("credits/grant", { userId: ANA, packId: "Two" })).status).toBe(200);
  expect((await get(`credits?userId=${ANA}&includeExpired=true`)).body.credits).toHaveLength(2);
  const { settingsSnapshot } = (await env.DB.prepare(
    "SELECT settings_snapshot AS settingsSnapshot FROM environments WHERE id = ?",
  )
    .bind(app.environments.live.id)
    .first<{ settingsSnapshot: string | null }>()) ?? { settingsSnapshot: "" };
  expect(JSON.parse(settingsSnapshot ?? "")).toEqual({ lifts: 1 });
  expect(await erase(world)).not.toBe(erasureId);
});

it("an isolate that remembers a user from before an erasure and its lift spends the new credits, and writes nothing into the old books", async () => {
  const world = await erasureWorld();
  const { app, clock, post, get } = world;
  const other = makeClient(clock);
  const elsewhere = (path: string, body: object) => other("POST", `/api/v1/${path}`, { key: app.keys.sk_live, body });
  await post("credits/grant", { userId: ANA, packId: "Two" });
  await post("usage/events", { eventId: "before", userId: ANA, ...oneToken });
  const { erasureId } = (await elsewhere("erase-person", { distinctId: ANA })).body;
  await elsewhere(`erasures/${erasureId}/lift`, {});
  const granted = await elsewhere("credits/grant", { userId: ANA, packId: "Two" });
  const spent = await post("usage/events", { eventId: "after", userId: ANA, ...oneToken });
  expect(spent.body.debits).toMatchObject([{ balanceId: granted.body.balances[0].balanceId, remaining: 399 }]);
  const free = { eventId: "free", userId: ANA, event: "seen", quantities: { count: 0 } };
  expect((await post("usage/events", free)).status).toBe(200);
  const { entries } = (await get(`credits/history?userId=${ANA}`)).body;
  expect(entries.map(({ reason }: { reason: string }) => reason)).toEqual(["event_committed", "grant", "grant"]);
});

it("an isolate that remembers a user from before an erasure and its lift does not spend an old balance after it recorded a list of events", async () => {
  const { app, clock, post } = await erasureWorld();
  const other = makeClient(clock);
  const elsewhere = (path: string, body: object) => other("POST", `/api/v1/${path}`, { key: app.keys.sk_live, body });
  await post("credits/grant", { userId: ANA, packId: "Two" });
  await post("usage/events", { eventId: "before", userId: ANA, ...oneToken });
  const { erasureId } = (await elsewhere("erase-person", { distinctId: ANA })).body;
  await elsewhere(`erasures/${erasureId}/lift`, {});
  const free = (eventId: string) => ({ eventId, userId: ANA, event: "seen", quantities: { count: 0 } });
  await elsewhere("usage/events", free("first"));
  for (const eventIds of [
    ["a", "b"],
    ["c", "d"],
  ])
    await post("usage/events", eventIds.map(free));
  expectError(await post("usage/events", { eventId: "after", userId: ANA, ...oneToken }), "insufficient_credits");
});

it("an isolate that remembers a user from before an erasure and its lift sets the same properties and links the same ids again", async () => {
  const world = await erasureWorld();
  const { app, clock, call } = world;
  const other = makeClient(clock);
  const set = (client: typeof call, properties: object) =>
    send(client, app.keys.sk_live, [
      { event: "seen", distinct_id: ANA, properties: { $set: properties } },
      { event: "$identify", distinct_id: ANA, properties: { $anon_distinct_id: DEVICE } },
    ]);
  await set(call, { a: 1 });
  await set(call, { a: 1 });
  const key = app.keys.sk_live;
  const { erasureId } = (await other("POST", "/api/v1/erase-person", { key, body: { distinctId: ANA } })).body;
  await other("POST", `/api/v1/erasures/${erasureId}/lift`, { key, body: {} });
  await send(other, key, [{ event: "seen", distinct_id: ANA, properties: { $set: { b: 2 } } }]);
  await set(call, { a: 1 });
  const { person } = await exportOf(call, app, ANA);
  expect(person?.properties).toEqual({ a: 1, b: 2 });
  expect(person?.distinctIds.map(({ distinctId }) => distinctId)).toEqual([ANA, DEVICE]);
});

it("without ERASURE_SECRET, nobody is erased, and if there are tombstones nothing is written or exported for any id", async () => {
  const world = await erasureWorld();
  const { app, clock } = world;
  const key = app.keys.sk_live;
  const without = makeClient(clock, { ERASURE_SECRET: "" });
  const grant = { key, body: { userId: "bo", packId: "Two" } };
  const seen = { body: { api_key: app.keys.pk_live, batch: [{ event: "seen", distinct_id: "bo" }] } };
  expectError(await without("POST", "/api/v1/erase-person", { key, body: { distinctId: ANA } }), "erasure_unavailable");
  expect((await without("POST", "/api/v1/credits/grant", grant)).status).toBe(200);
  await erase(world);
  const rotated = makeClient(clock, { ERASURE_SECRET: "another-secret-of-32-characters-0001" });
  for (const call of [without, rotated]) {
    expectError(await call("POST", "/api/v1/credits/grant", grant), "erasure_unavailable");
    expectError(await call("POST", "/batch/", seen), "erasure_unavailable");
    const consent = { key, body: { distinctId: "bo", purpose: "ads", decision: "denied" } };
    expectError(await call("POST", "/api/v1/consent", consent), "erasure_unavailable");
    expectError(
      await call("POST", "/api/v1/export-person", { key, body: { distinctId: "bo" } }),
      "erasure_unavailable",
    );
  }
  const kept = makeClient(clock, {
    ERASURE_SECRET: "another-secret-of-32-characters-0001",
    ERASURE_SECRET_PREVIOUS: env.ERASURE_SECRET,
  });
  expect((await kept("POST", "/api/v1/credits/grant", grant)).status).toBe(200);
  const ana = { key, body: { userId: ANA, packId: "Two" } };
  expectError(await kept("POST", "/api/v1/credits/grant", ana), "person_erased");
});

it.each(isSoak ? [1, 2, 7] : [1, 7])(
  "an interrupted erasure is finished by the cron, in pages of %i rows",
  async (rows) => {
    const world = await erasureWorld();
    const { app, clock, post, get } = world;
    await fillPerson(world);
    const before = await books(world);
    const ctx = makeCtx(app.environments.live, clock);
    const { output } = await erasePerson(ctx, input, { pages: 3, rows });
    expect(output.status).toBe("running");
    expectError(await post(`erasures/${output.erasureId}/lift`, {}), "changed_meanwhile");
    expectError(await post("consent", { distinctId: DEVICE, purpose: "ads", decision: "denied" }), "person_erased");
    for (
      let pages = 3;
      pages < 60 && !(await continueErasure(ctx, output.erasureId ?? "", { pages: 1, rows }));
      pages++
    );
    await scheduled(bound(), { isolate: {}, now: clock.now, newId: randomId });
    expect((await get(`erasures/${output.erasureId}`)).body.status).toBe("completed");
    expect(await findInDatabase(TRACES, app.environments.live.id)).toEqual([]);
    expect(await books(world)).toEqual(before);
  },
);

it.each(FAULTS)("an interrupted erasure is completed by a repeated call, whichever trip failed: %s", async (fault) => {
  const world = await erasureWorld();
  const { app, clock, post } = world;
  for (let at = 1; at <= 6; at++) {
    const distinctId = `${at}-${ANA}`;
    await post("credits/grant", { userId: distinctId, packId: "Two", externalRef: distinctId, notes: ANA });
    await post("usage/reservations", { userId: distinctId, ...oneToken, onExpiry: "charge" });
    const before = await books(world);
    const faulty = faultyD1(env.DB);
    faulty.plan({ fault, at });
    await erasePerson(makeCtx(app.environments.live, clock, faulty.d1), { ...input, distinctId }).catch(() => {});
    const { status, body } = await post("erase-person", { distinctId });
    expect([status, body.status, body.revoked]).toEqual([200, "completed", { tokens: 400, cents: 5 }]);
    expect(await books(world)).toEqual(before);
  }
  expect(await findInDatabase(TRACES, app.environments.live.id)).toEqual([]);
});

it.each(["amid", "after"] as const)(
  "an interrupted erasure is completed by repeated calls for a person with data of every kind, each of which fails one trip later: %s",
  { timeout: 120_000 },
  async (fault) => {
    const world = await erasureWorld();
    const { app, clock } = world;
    await fillPerson(world);
    const before = await books(world);
    const faulty = faultyD1(env.DB);
    const ctx = makeCtx(app.environments.live, clock, faulty.d1);
    let calls = 0;
    for (let isHit = true; isHit; ) {
      calls++;
      // The first two calls fail as they start the erasure, the others as they write a page or read the next one.
      const at = calls <= 2 ? calls : 3 + (calls % 2);
      faulty.plan({ fault, at, persists: true });
      await erasePerson(ctx, input, { pages: 20, rows: 4 }).catch(() => {});
      isHit = faulty.trips() >= at;
    }
    expect(calls).toBeGreaterThan(6);
    await erase(world);
    expect(await books(world)).toEqual(before);
    expect(await findInDatabase(TRACES, app.environments.live.id)).toEqual([]);
  },
);

it("an interrupted erasure is one erasure for any number of concurrent calls", async () => {
  const world = await erasureWorld();
  const { app, clock, get } = world;
  await fillPerson(world);
  const before = await books(world);
  const call = makeClient(clock, {}, randomId, inTurn(8));
  const erasures = Array.from({ length: 20 }, () =>
    call("POST", "/api/v1/erase-person", { key: app.keys.sk_live, body: { distinctId: ANA } }),
  );
  const answers = await Promise.all(erasures);
  expect(new Set(answers.map(({ status }) => status))).toEqual(new Set([200]));
  const erasureId = await erase(world);
  expect(new Set(answers.map(({ body }) => body.erasureId))).toEqual(new Set([erasureId]));
  expect(answers.filter(({ headers }) => headers.get("idempotent-replayed") === null)).toHaveLength(1);
  expect((await get(`erasures/${erasureId}`)).body.pseudonymised.balances).toBe(6);
  expect(await books(world)).toEqual(before);
  expect(await findInDatabase(TRACES, app.environments.live.id)).toEqual([]);
});

it("an interrupted erasure completes once among concurrent grants, debits, holds, analytics, consent, exports and a second erasure", async () => {
  const world = await erasureWorld();
  const { app, clock } = world;
  await fillPerson(world);
  const call = makeClient(clock, {}, randomId, inTurn(4));
  const key = app.keys.sk_live;
  const post = (path: string, body: object) => call("POST", path, { key, body });
  const events = [{ event: "seen", distinct_id: ANA, properties: { note: ANA } }];
  const storm = Array.from({ length: 4 }, (_, n) => [
    post("/api/v1/credits/grant", { userId: ANA, packId: "Two", notes: ANA }),
    post("/api/v1/usage/events", { eventId: `${ANA}-${n}`, userId: ANA, ...oneToken, properties: { note: ANA } }),
    post("/api/v1/usage/reservations", { userId: ANA, ...oneToken, reservationId: `res_Zq7ana${n}` }),
    post("/api/v1/consent", { distinctId: ANA, purpose: ANA, decision: "denied" }),
    call("POST", "/batch/", { body: { api_key: app.keys.pk_live, batch: events } }),
    exportOf(call, app, ANA).then(() => ({ status: 200, body: {} })),
    post("/api/v1/erase-person", { distinctId: ANA }),
  ]).flat();
  const answers = await Promise.all(storm);
  for (const { status, body } of answers) {
    expect([200, 409], JSON.stringify(body)).toContain(status);
    if (status === 409) expect(body.error.code).toBe("person_erased");
  }
  const ids = new Set(answers.flatMap(({ body }) => ("erasureId" in body ? [body.erasureId] : [])));
  expect(ids.size).toBe(1);
  await erase(world);
  expect(await findInDatabase(TRACES, app.environments.live.id)).toEqual([]);
});
