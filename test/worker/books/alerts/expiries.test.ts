import { env } from "cloudflare:workers";
import { afterAll, beforeEach, expect, it, vi } from "vitest";
import { systemCtx } from "../../../../src/auth/system-ctx.ts";
import { findExpiries } from "../../../../src/books/alerts/find-expiries.ts";
import { scheduled } from "../../../../src/cron.ts";
import { randomId } from "../../../../src/lib/ids.ts";
import { DAY_MS } from "../../../../src/lib/time.ts";
import { countingD1 } from "../../../support/counting-d1.ts";
import { runPart } from "../../../support/cron.ts";
import { faultyD1 } from "../../../support/faulty-d1.ts";
import { expectLedgerInvariants } from "../../../support/invariants.ts";
import { makeEndpoint, storedMessages } from "../../../support/webhooks.ts";
import { bound, Clock, makeApp, makeClient, makePack } from "../../../support/world.ts";

afterAll(expectLedgerInvariants);

// Retries do not wait.
beforeEach(() => {
  vi.spyOn(scheduler, "wait").mockResolvedValue();
});

let events = 0;

async function world({ endpointAtMs = 0 }: { endpointAtMs?: number | null } = {}) {
  // A run of the cron reads a limited number of pages, and none of them may belong to another test.
  await env.DB.prepare("DELETE FROM balance_expiries").run();
  const clock = new Clock();
  const app = await makeApp();
  const { environments } = app;
  const call = makeClient(clock);
  const packId = await makePack(app.appId, "Pack", [{ amountMinor: 100_000, unit: "tokens" }]);
  const open = (createdAtMs: number) => makeEndpoint(environments.live, ["credits.*", "balance.*"], createdAtMs);
  if (endpointAtMs !== null) await open(endpointAtMs);
  const admin = (method: string, path: string, body: object) =>
    call(method, `/api/v1/admin/apps/${app.appId}${path}`, { key: env.ADMIN_TOKEN, body });
  const post = async (path: string, body: object) => {
    const answer = await call("POST", `/api/v1${path}`, { key: app.keys.sk_live, body });
    expect(answer.status, JSON.stringify(answer.body)).toBe(200);
    return answer.body;
  };
  /** Grants a balance that expires so many days from now. */
  const grant = async (days: number | null, userId = "u"): Promise<string> => {
    const expiresAt = days === null ? null : new Date(clock.ms + days * DAY_MS).toISOString();
    return (await post("/credits/grant", { userId, packId, expiresAt })).balanceId;
  };
  const spend = (amount: number) =>
    post("/usage/events", {
      eventId: `x${events++}`,
      userId: "u",
      event: "chat",
      quantities: { count: 0, tokens: amount },
    });
  const runtime = { isolate: {}, now: clock.now, newId: randomId };
  const cron = (d1: D1Database = env.DB) => runPart(findExpiries, systemCtx(bound({ DB: d1 }), runtime));
  const setDays = (days: readonly number[]) => admin("PUT", "/expiry-notices", { mode: "live", days });
  const alert = (below: object) => admin("POST", "/alerts", { mode: "live", name: "Low", unit: "tokens", below });
  /** The messages since the last call, except those of grants. */
  const looked = new Set<string>();
  const sent = async () => {
    const fresh = (await storedMessages(environments.live)).filter(({ id }) => !looked.has(id));
    for (const { id } of fresh) looked.add(id);
    return fresh
      .filter(({ type }) => type !== "credits.granted")
      .map(({ type, data }) => {
        if (type === "balance.expiring") return `${data.balanceId} in ${data.days}`;
        if (type === "balance.expired") return `${data.balanceId} expired`;
        return type === "credits.depleted" ? "depleted" : `low ${data.remaining}`;
      })
      .sort();
  };
  return { clock, app, call, packId, runtime, open, admin, post, grant, spend, cron, setDays, alert, sent };
}

it("a balance that expires causes one message from the cron, with the remaining amount", async () => {
  const { app, clock, packId, grant, spend, cron, sent } = await world();
  const balanceId = await grant(1);
  await grant(null);
  await spend(0.5);
  await cron();
  expect(await sent()).toEqual([]);
  clock.advance(DAY_MS);
  await cron();
  const messages = await storedMessages(app.environments.live);
  const expiresAt = new Date(clock.ms).toISOString();
  expect(messages.filter(({ type }) => type === "balance.expired")).toMatchObject([
    {
      subject: "u",
      deliveries: 1,
      data: { userId: "u", balanceId, packId, unit: "tokens", remaining: 99.5, expiresAt },
    },
  ]);
  expect(await sent()).toEqual([`${balanceId} expired`]);
  await cron();
  clock.advance(60_000);
  await cron();
  expect(await sent()).toEqual([]);
});

it("a balance that expires causes no message if it is empty or revoked, or if it expired before the first endpoint was made", async () => {
  const { clock, open, post, grant, spend, cron, sent } = await world({ endpointAtMs: null });
  await grant(1);
  clock.advance(DAY_MS);
  await cron();
  clock.advance(1);
  await open(clock.ms);
  await cron();
  await grant(1);
  await spend(100);
  await post("/credits/revoke", { balanceId: await grant(1) });
  await sent();
  clock.advance(DAY_MS);
  await cron();
  expect(await sent()).toEqual([]);
  const last = await grant(1);
  clock.advance(7 * DAY_MS);
  await cron();
  expect(await sent()).toEqual([`${last} expired`, "depleted"].sort());
});

it("a balance that expires causes one message even if crons run concurrently or fail", async () => {
  const { clock, grant, cron, sent } = await world();
  const first = await grant(1);
  const second = await grant(1, "v");
  clock.advance(DAY_MS);
  await Promise.all(Array.from({ length: 8 }, () => cron()));
  expect(await sent()).toEqual([`${first} expired`, `${second} expired`, "depleted", "depleted"].sort());
  const others = [await grant(1), await grant(1, "v")];
  clock.advance(DAY_MS);
  const faulty = faultyD1(env.DB);
  faulty.plan(null);
  await cron(faulty.d1);
  expect(await sent()).toEqual([...others.map((id) => `${id} expired`), "depleted", "depleted"].sort());
  for (const fault of ["before", "amid", "after"] as const) {
    for (let at = 1; at <= 4; at++) {
      const ids = [await grant(1), await grant(1, "v")];
      clock.advance(DAY_MS);
      faulty.plan({ fault, at, persists: true });
      await cron(faulty.d1);
      faulty.plan({ fault, at });
      await cron(faulty.d1);
      await cron();
      expect(await sent(), `${fault} at ${at}`).toEqual(
        [...ids.map((id) => `${id} expired`), "depleted", "depleted"].sort(),
      );
    }
  }
});

it("a balance that expires causes no message in another environment, nor in its own if that has no endpoint", async () => {
  const mine = await world();
  const other = await world();
  const none = await world({ endpointAtMs: null });
  const id = await other.grant(1);
  await none.grant(1);
  for (const { clock } of [mine, other, none]) clock.advance(DAY_MS);
  await mine.cron();
  expect(await mine.sent()).toEqual([]);
  expect(await none.sent()).toEqual([]);
  expect(await other.sent()).toEqual([`${id} expired`, "depleted"].sort());
});

it("notices are sent the given number of days before the expiry, each once", async () => {
  const { clock, grant, cron, setDays, sent } = await world();
  await setDays([30, 7, 1]);
  const id = await grant(31);
  const expected = new Map([
    [1, [`${id} in 30`]],
    [24, [`${id} in 7`]],
    [30, [`${id} in 1`]],
    [31, [`${id} expired`, "depleted"].sort()],
  ]);
  for (let day = 1; day <= 32; day++) {
    clock.advance(DAY_MS);
    await cron();
    expect(await sent(), `day ${day}`).toEqual(expected.get(day) ?? []);
  }
});

it("notices that were missed are sent as one, with the fewest days, and not at all after the expiry", async () => {
  const { clock, grant, cron, setDays, sent } = await world();
  await setDays([30, 7, 1]);
  const near = await grant(31);
  const far = await grant(40);
  clock.advance(30 * DAY_MS + 1);
  await cron();
  expect(await sent()).toEqual([`${near} in 1`, `${far} in 30`].sort());
  clock.advance(20 * DAY_MS);
  await cron();
  expect(await sent()).toEqual([`${near} expired`, `${far} expired`, "depleted"].sort());
});

it("notices are not sent for a moment before the grant, before the number was set, or before the first endpoint", async () => {
  const { clock, open, grant, cron, setDays, sent } = await world({ endpointAtMs: null });
  const old = await grant(10);
  clock.advance(DAY_MS);
  await setDays([9]);
  clock.advance(DAY_MS);
  await open(clock.ms);
  clock.advance(1);
  await setDays([9, 8]);
  await cron();
  await grant(8.5);
  await cron();
  expect(await sent()).toEqual([]);
  await setDays([9, 8, 7]);
  clock.advance(DAY_MS);
  await cron();
  expect(await sent()).toContain(`${old} in 7`);
});

it("notices are not sent for a moment at which their number of days was not set", async () => {
  const { clock, grant, cron, setDays, sent } = await world();
  await setDays([7]);
  const id = await grant(10);
  clock.advance(2 * DAY_MS);
  await setDays([]);
  clock.advance(2 * DAY_MS);
  await setDays([7, 5]);
  clock.advance(DAY_MS + 1);
  await cron();
  expect(await sent()).toEqual([`${id} in 5`]);
});

it("an alert fires once for an expiry that the cron finds, with the user's last seq", async () => {
  const { app, clock, grant, cron, alert, sent } = await world();
  await alert({ amount: 150 });
  const id = await grant(1);
  await grant(null);
  clock.advance(DAY_MS);
  await cron();
  expect(await sent()).toEqual([`${id} expired`, "low 100"].sort());
  const low = (await storedMessages(app.environments.live)).find(({ type }) => type === "credits.low");
  expect(low?.data).toMatchObject({ userId: "u", remaining: 100, threshold: 150, seq: 2 });
  await cron();
  expect(await sent()).toEqual([]);
});

it("an alert fires once if its threshold is reached by an expiry and a debit comes before the cron", async () => {
  const { clock, grant, spend, cron, alert, sent } = await world();
  await alert({ amount: 150 });
  const id = await grant(1);
  await grant(null);
  clock.advance(DAY_MS);
  await spend(60);
  expect(await sent()).toEqual(["low 40"]);
  await cron();
  expect(await sent()).toEqual([`${id} expired`]);
});

it("an alert fires by a debit after an expiry, and the cron repeats neither the alert nor credits.depleted", async () => {
  const { clock, grant, spend, cron, alert, sent } = await world();
  await alert({ amount: 20 });
  const id = await grant(1);
  await grant(null);
  clock.advance(DAY_MS);
  await spend(90);
  await spend(10);
  expect(await sent()).toEqual(["depleted", "low 10"]);
  await cron();
  expect(await sent()).toEqual([`${id} expired`]);
});

it("an alert fires when a completely held balance expires", async () => {
  const { clock, grant, post, cron, alert, sent } = await world();
  await alert({ percent: 100 });
  await grant(0.5);
  await post("/usage/reservations", {
    userId: "u",
    event: "chat",
    quantities: { count: 0, tokens: 100 },
    expiresInSeconds: 86_400,
  });
  clock.advance(DAY_MS / 2);
  await cron();
  expect(await sent()).toEqual(["depleted", "low 0"]);
});

it("an alert on a percentage is evaluated over the balances that were active before the expiry", async () => {
  const { clock, grant, cron, alert, sent } = await world();
  await alert({ percent: 60 });
  const id = await grant(1);
  await grant(null);
  clock.advance(DAY_MS);
  await cron();
  expect(await sent()).toEqual([`${id} expired`, "low 100"].sort());
});

it("the cron's search for expiries takes one trip and writes no row if nothing expires, whatever expires in environments without an endpoint", async () => {
  const { clock, grant, cron } = await world({ endpointAtMs: null });
  const busy = await world();
  await cron();
  const { d1, spent } = countingD1(env.DB);
  const cost = async () => {
    spent();
    await cron(d1);
    return spent();
  };
  const before = await cost();
  for (let i = 0; i < 20; i++) await grant(1, `user ${i}`);
  clock.advance(2 * DAY_MS);
  busy.clock.advance(2 * DAY_MS);
  const after = await cost();
  expect([after.roundTrips, after.rowsWritten]).toEqual([1, 0]);
  // The search also reads rows that other tests left.
  expect(after.rowsRead - before.rowsRead).toBeLessThan(20);
});

it("the Worker's scheduled run searches for expiries", async () => {
  const { app, clock, runtime, grant } = await world();
  // No endpoint asks for these messages, so that nothing is sent.
  await env.DB.prepare("UPDATE environments SET settings_snapshot = NULL WHERE id = ?")
    .bind(app.environments.live.id)
    .run();
  await grant(1);
  clock.advance(DAY_MS);
  await scheduled(bound(), runtime);
  const doneMs = await env.DB.prepare(
    "SELECT done_expires_at_ms FROM expiry_notices WHERE environment_id = ? AND days = 0",
  )
    .bind(app.environments.live.id)
    .first("done_expires_at_ms");
  expect(doneMs).toBe(clock.ms);
});
