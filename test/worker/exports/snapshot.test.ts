import { env } from "cloudflare:workers";
import { afterAll, expect, it, vi } from "vitest";
import type { ExportDocument } from "../../../src/api/exports/export-document.ts";
import { releaseReservation } from "../../../src/books/usage/release.ts";
import { auditOf, documentOf, linkTo, open, readAll, readDocument, withoutOpenings } from "../../support/exports.ts";
import { hookedD1 } from "../../support/hooked-d1.ts";
import { expectLedgerInvariants } from "../../support/invariants.ts";
import { limitsWorld } from "../../support/limits.ts";
import { device, identify, seen, send } from "../../support/people.ts";
import {
  seedAnalytics,
  seedBalances,
  seedConsents,
  seedEntries,
  seedPerson,
  seedUsage,
} from "../../support/seed-rows.ts";
import { withoutTrigger } from "../../support/without-trigger.ts";
import { Clock, makeApp, makeClient, makeCtx, type TestApp } from "../../support/world.ts";

afterAll(expectLedgerInvariants);

// A page has 2,000 rows, so the lists of two ids take two pages.
const EVENT_COUNT = 1_050;
const CONSENT_COUNT = 1_010;
const plain = (count: number): string[] => Array.from({ length: count }, (_, index) => `{"index":${index}}`);

/** The document without the fields that every opening changes. */
const dataOf = (document: ExportDocument) => ({ ...withoutOpenings(document), exportedAt: "" });

/** Seeds a person with two ids whose lists take two pages, and with two pages of balances, one of which has many entries. */
async function longLife(app: TestApp): Promise<{ balanceIds: string[] }> {
  const { live } = app.environments;
  await seedPerson(live, {}, ["ana", "device"]);
  for (const id of ["ana", "device"]) {
    await seedAnalytics(live, id, plain(EVENT_COUNT));
    await seedUsage(live, id, EVENT_COUNT);
    await seedConsents(live, id, CONSENT_COUNT);
  }
  const balanceIds = await seedBalances(live, "ana", 550);
  await seedEntries(live, "ana", balanceIds[0] ?? "", 1_600);
  return { balanceIds };
}

async function readWhile(app: TestApp, clock: Clock, meanwhile: (trip: number) => Promise<void>) {
  const response = await open(await linkTo(app, "ana", clock), clock, hookedD1(env.DB, meanwhile));
  return { status: response.status, text: await readAll(response) };
}

it("an export shows one moment, whatever is written while it is sent", async () => {
  const clock = new Clock();
  const call = makeClient(clock);
  const app = await makeApp();
  const { live } = app.environments;
  const { balanceIds } = await longLife(app);
  const before = dataOf(await documentOf(app, "ana", clock));
  let isMerged = false;
  const { text } = await readWhile(app, clock, async (trip) => {
    if (trip === 1) return;
    for (const id of ["ana", "device"]) {
      await seedAnalytics(live, id, plain(3));
      await seedUsage(live, id, EVENT_COUNT + trip * 3 - 3, EVENT_COUNT + trip * 3 - 5);
      await seedConsents(live, id, CONSENT_COUNT + trip - 1, CONSENT_COUNT + trip - 1);
    }
    await seedBalances(live, "ana", 2);
    for (const balanceId of balanceIds.slice(trip * 20, trip * 20 + 4)) await seedEntries(live, "ana", balanceId, 2);
    clock.advance(1_000);
    for (const balanceId of balanceIds.slice(trip * 20 + 2, trip * 20 + 6)) {
      await call("POST", "/api/v1/credits/revoke", { key: app.keys.sk_live, body: { balanceId } });
    }
    if (isMerged) return;
    // Another id becomes a part of the person.
    await send(call, app.keys.sk_live, [
      { event: "seen", distinct_id: "other", properties: {} },
      { event: "$identify", distinct_id: "ana", properties: { $anon_distinct_id: "other", $set: { plan: "pro" } } },
    ]);
    isMerged = true;
  });
  expect(dataOf(readDocument(text))).toEqual(before);
  expect(isMerged).toBe(true);
  expect((await documentOf(app, "ana", clock)).person?.distinctIds).toHaveLength(3);
});

it("an export shows that moment even for a revoked balance to which a hold returns afterwards", async () => {
  const clock = new Clock();
  const call = makeClient(clock);
  const app = await makeApp();
  const { live } = app.environments;
  await seedPerson(live, {}, ["ana"]);
  const balanceIds = await seedBalances(live, "ana", 510);
  const last = balanceIds.at(-1) ?? "";
  await call("POST", "/api/v1/credits/revoke", { key: app.keys.sk_live, body: { balanceId: last } });
  const before = await documentOf(app, "ana", clock);
  expect(before.person?.credits.balances.at(-1)).toMatchObject({ balanceId: last, status: "revoked", remaining: 0 });
  let isDone = false;
  const { text } = await readWhile(app, clock, async (trip) => {
    if (trip === 1 || isDone) return;
    isDone = true;
    clock.advance(1_000);
    // A hold returns to the revoked balance, and is taken away at once (U9).
    await env.DB.prepare(
      `INSERT INTO reservations (environment_id, id, account_id, reservation_number, event, quantities, legs, state, created_at_ms, expires_at_ms,
         request_hash)
       SELECT CAST(?1 AS INTEGER), 'res_back', account_id, 1, 'e', '{}', json_array(json_array(grant_seq, 0, 5, 0)), 'open', 0, 9000000000000, '' FROM credit_balances WHERE id = ?2`,
    )
      .bind(live.id, last)
      .run();
    await releaseReservation(makeCtx(live, clock), "res_back");
  });
  expect(isDone).toBe(true);
  expect(dataOf(readDocument(text))).toEqual(dataOf(before));
});

it.each([
  {
    name: "events",
    guard: "analytics_events_kept",
    sql: "DELETE FROM analytics_events WHERE environment_id = ?1 AND distinct_id = 'device' AND seq = 1040",
  },
  {
    name: "ids",
    guard: "distinct_ids_kept",
    sql: "DELETE FROM distinct_ids WHERE environment_id = ?1 AND distinct_id = 'ana'",
  },
])(
  "an export never completes if its person lost $name while it streamed, and the failure is recorded",
  async ({ guard, sql }) => {
    const clock = new Clock();
    const app = await makeApp();
    await longLife(app);
    let lost = 0;
    const { status, text } = await readWhile(app, clock, async (trip) => {
      if (trip !== 3) return;
      lost = await withoutTrigger(guard, env.DB.prepare(sql).bind(app.environments.live.id));
    });
    expect(lost).toBeGreaterThan(0);
    expect(status).toBe(200);
    expect(() => JSON.parse(text)).toThrow();
    expect(await auditOf(app, "ana")).toEqual(["opened", "failed"]);
  },
);

it.each([
  { name: "is erased", isLifted: false },
  { name: "is erased, and the erasure lifted,", isLifted: true },
])(
  "an export never completes if its person $name while it streams, and the failure is recorded, but not logged as a bug",
  async ({ isLifted }) => {
    const logged = vi.spyOn(console, "error");
    const clock = new Clock();
    const app = await makeApp();
    await longLife(app);
    const call = makeClient(clock);
    const post = (path: string, body: object) => call("POST", `/api/v1/${path}`, { key: app.keys.sk_live, body });
    let erasureId = "";
    const { status, text } = await readWhile(app, clock, async (trip) => {
      if (trip !== 3) return;
      for (let running = true; running; ) {
        const { body } = await post("erase-person", { distinctId: "ana" });
        running = body.status === "running";
        erasureId = body.erasureId;
      }
      if (isLifted) await post(`erasures/${erasureId}/lift`, {});
    });
    expect([status, erasureId]).toEqual([200, expect.stringMatching(/^era_/)]);
    expect(() => JSON.parse(text)).toThrow();
    const { results } = await env.DB.prepare(
      "SELECT distinct_id AS id, action FROM export_audit WHERE environment_id = ? ORDER BY action DESC",
    )
      .bind(app.environments.live.id)
      .all<{ id: string; action: string }>();
    expect(results.map(({ action }) => action)).toEqual(["opened", "failed"]);
    // After the lift the id is a new person's, so the row carries the id and not its hash.
    expect(results.map(({ id }) => id === "ana")).toEqual([false, isLifted]);
    expect(logged).not.toHaveBeenCalled();
  },
);

it("an export of a member is cut if its payer is erased while it streams, and the failure is recorded, but not logged as a bug", async () => {
  const { app, clock, ask, use } = await limitsWorld({ limits: [] });
  await use(1, { memberId: "ada" });
  const logged = vi.spyOn(console, "error");
  let isErased = false;
  const erasePayer = async (trip: number) => {
    if (trip !== 2) return;
    isErased = (await ask("POST", "/erase-person", { distinctId: "u" })).body.status === "completed";
  };
  const response = await open(await linkTo(app, "ada", clock), clock, hookedD1(env.DB, erasePayer));
  const text = await readAll(response);
  expect(isErased).toBe(true);
  expect(() => JSON.parse(text)).toThrow();
  await expect.poll(() => auditOf(app, "ada")).toEqual(["opened", "failed"]);
  expect(logged).not.toHaveBeenCalled();
});

it("exports complete while others are erased, and erasures lifted, before each of their trips, with devices that are only cut out", async () => {
  const clock = new Clock();
  const app = await makeApp();
  const call = makeClient(clock);
  await longLife(app);
  await seedUsage(app.environments.live, "bo", 3);
  const before = dataOf(await documentOf(app, "ana", clock));
  let erased = 0;
  const eraseStranger = async () => {
    const [user, other] = [`stranger-${++erased}`, device(erased)];
    await send(call, app.keys.pk_live, [seen(other), identify(user, other)]);
    const { body } = await call("POST", "/api/v1/erase-person", { key: app.keys.sk_live, body: { distinctId: user } });
    expect([body.status, body.distinctIds]).toEqual(["completed", [user, other]]);
    if (erased % 2 === 1) return;
    const lift = `/api/v1/erasures/${body.erasureId}/lift`;
    expect((await call("POST", lift, { key: app.keys.sk_live, body: {} })).status).toBe(200);
  };
  for (const id of ["ana", "bo"]) {
    const response = await open(await linkTo(app, id, clock), clock, hookedD1(env.DB, eraseStranger));
    const document = readDocument(await readAll(response));
    if (id === "ana") expect(dataOf(document)).toEqual(before);
    else expect(document.events.metering).toHaveLength(3);
    expect((await auditOf(app, id)).slice(-2)).toEqual(["opened", "completed"]);
  }
  expect(erased).toBeGreaterThan(12);
});

it("an export completes while a thousand devices that its person claims change before each of its trips", async () => {
  const clock = new Clock();
  const app = await makeApp();
  const call = makeClient(clock);
  const { live } = app.environments;
  const devices = Array.from({ length: 1_000 }, (_, n) => device(n));
  await seedPerson(live, {}, ["ana"]);
  await env.DB.prepare(
    `INSERT INTO distinct_ids (environment_id, distinct_id, is_device_form, first_seen_at_ms, last_seen_at_ms, claimed_by,
       claimed_via, claimed_at_ms) SELECT CAST(?1 AS INTEGER), value, 1, 1, 1, 'ana', 'identify', 1 FROM json_each(?2)`,
  )
    .bind(live.id, JSON.stringify(devices))
    .run();
  let changes = 0;
  /** Sets a new property of each device, so that each row of properties grows. */
  const changeAll = async () => {
    clock.advance(1_000);
    const set = { [`name ${++changes}`]: "x".repeat(250) };
    const events = devices.map((id) => ({ event: "$set", distinct_id: id, properties: { $set: set } }));
    await send(call, app.keys.pk_live, events);
  };
  for (let n = 0; n < 3; n++) await changeAll();
  const response = await open(await linkTo(app, "ana", clock), clock, hookedD1(env.DB, changeAll));
  const document = readDocument(await readAll(response));
  expect(changes).toBeGreaterThan(6);
  expect(document.person?.distinctIds.map(({ distinctId }) => distinctId).sort()).toEqual(["ana", ...devices].sort());
  expect(document.person?.properties).toMatchObject({ "name 1": "x".repeat(250), "name 3": "x".repeat(250) });
  // Data that arrives after the document's moment is not in it.
  const received = document.events.analytics.map(({ receivedAt }) => receivedAt).sort();
  expect([received.length, received.at(-1)]).toEqual([5_000, document.exportedAt]);
  expect(await auditOf(app, "ana")).toEqual(["opened", "completed"]);
});

it("an export records one failure if its reader leaves while a page is being read", async () => {
  const clock = new Clock();
  const app = await makeApp();
  await longLife(app);
  const reached = Promise.withResolvers<void>();
  const released = Promise.withResolvers<void>();
  const stalling = hookedD1(env.DB, async (trip) => {
    if (trip !== 3) return;
    reached.resolve();
    await released.promise;
  });
  const reader = (await open(await linkTo(app, "ana", clock), clock, stalling)).body?.getReader();
  const drained = (async () => {
    while ((await reader?.read())?.done === false);
  })();
  await reached.promise;
  // The reader has taken all earlier pages, and waits for the page that stalls.
  await scheduler.wait(0);
  await reader?.cancel();
  released.resolve();
  await drained;
  await documentOf(app, "ana", clock);
  expect(await auditOf(app, "ana")).toEqual(["opened", "failed", "opened", "completed"]);
});

it.each([
  { name: "while pages of their books are read", fits: false, last: false },
  { name: "between the last page and the audit's row", fits: false, last: true },
  { name: "between a small document's reading and the audit's row", fits: true, last: true },
])("an export contains no earlier data if its person is erased $name", async ({ fits, last }) => {
  const clock = new Clock();
  const app = await makeApp();
  const { live } = app.environments;
  await seedUsage(live, "ana", fits ? 3 : 2_500);
  const call = makeClient(clock);
  const post = (path: string, body: object) => call("POST", `/api/v1/${path}`, { key: app.keys.sk_live, body });
  let trips = 0;
  const whole = hookedD1(env.DB, async (trip) => {
    trips = trip;
  });
  await readAll(await open(await linkTo(app, "ana", clock), clock, whole));
  let isDone = false;
  const { status, text } = await readWhile(app, clock, async (trip) => {
    if (isDone || trip < (last ? trips : 2)) return;
    isDone = true;
    const { body } = await post("erase-person", { distinctId: "ana" });
    expect(body.status).toBe("completed");
    expect((await post(`erasures/${body.erasureId}/lift`, {})).status).toBe(200);
  });
  expect([status, isDone]).toEqual([200, true]);
  if (fits) expect(readDocument(text)).toMatchObject({ person: null, events: { analytics: [], metering: [] } });
  else expect(() => JSON.parse(text)).toThrow();
});
