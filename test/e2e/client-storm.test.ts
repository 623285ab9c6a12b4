import { afterAll, beforeAll, describe, expect, it } from "vitest";
import { PurserAdmin } from "../../clients/typescript/src/admin.ts";
import { Purser } from "../../clients/typescript/src/index.ts";
import { createRandom, type Random } from "../support/random.ts";
import { type Fault, type FaultyProxy, startFaultyProxy } from "./support/faulty-proxy.ts";
import { ADMIN_TOKEN, type ServedApp, type Server, sharedServer } from "./support/server.ts";
import { RANDOM_SEED, SOAK_OPERATIONS } from "./support/soak.ts";

const USERS = 3;
/** Each user has two workers, so that debits race. */
const WORKERS = 2 * USERS;
/** The calls of each worker. */
const CALLS = SOAK_OPERATIONS > 0 ? 150 : 15;
const GRANTED = 1_000_000;
/** The most faults of one request, so that its last try arrives. */
const FAULTS_MAX = 3;
const FAULTS = ["refused", "half", "beside", "lost", "cut", { status: 502, body: "<html>" }] as const;

let server: Server;
let proxy: FaultyProxy;
let app: ServedApp;
let admin: PurserAdmin;
beforeAll(async () => {
  server = await sharedServer();
  proxy = await startFaultyProxy(server.url);
  app = await server.makeApp();
  admin = new PurserAdmin({ url: server.url, key: ADMIN_TOKEN });
  await admin.createPack({ appId: app.appId, packName: "Tokens", items: [], unit: "tokens" });
});
afterAll(async () => {
  await proxy.close();
});

/** Cuts about 4 of 10 connections, in every way, and counts each way. */
function cutConnections(random: Random): Map<Fault, number> {
  const met = new Map<string, number>();
  const cuts = new Map<Fault, number>();
  proxy.chance = (request) => {
    const before = met.get(request) ?? 0;
    if (before === FAULTS_MAX || !random.chance(0.4)) return null;
    met.set(request, before + 1);
    const fault: Fault = random.pick(FAULTS);
    cuts.set(fault, (cuts.get(fault) ?? 0) + 1);
    return fault;
  };
  return cuts;
}

/** The expected books of a user at the end. */
interface Expected {
  readonly userId: string;
  remaining: number;
  /** The number of charged usage events. */
  events: number;
  released: number;
}

const wait = (ms: number) => new Promise((resolve) => setTimeout(resolve, ms));

/** One call of a worker, and its expected effect. */
async function act(random: Random, purser: Purser, expected: Expected): Promise<void> {
  const { userId } = expected;
  const usage = (tokens: number) => ({ userId, event: "chat", quantities: { tokens } });
  const amount = random.integer(1, 9);
  const charge = (tokens: number, events = 1) => {
    expected.remaining -= tokens;
    expected.events += events;
  };
  const kind = random.weighted({ event: 5, list: 1, commit: 2, abort: 1, fail: 1, grant: 1, adjust: 1, long: 1 });
  if (kind === "event") {
    const { debits } = await purser.recordUsageEvent(usage(amount));
    expect(debits.map((debit) => debit.amount).reduce((sum, each) => sum + each)).toBe(amount);
    return charge(amount);
  }
  if (kind === "list") {
    const { results } = await purser.recordUsageEvents([usage(amount), usage(1), usage(2)]);
    expect(results.every((result) => "debits" in result)).toBe(true);
    return charge(amount + 3, 3);
  }
  if (kind === "grant") {
    await purser.grantCredits({ userId, packId: "tokens", quantity: amount });
    expected.remaining += amount;
    return;
  }
  if (kind === "adjust") {
    const [balance] = (await purser.listBalances({ userId })).credits;
    const adjusting = new PurserAdmin({ url: proxy.url, key: ADMIN_TOKEN, retries: 8 });
    await adjusting.adjustBalance({ balanceId: balance?.balanceId ?? "", delta: amount, note: "storm" });
    expected.remaining += amount;
    return;
  }
  const controller = new AbortController();
  const { signal } = controller;
  const expiresInSeconds = kind === "long" ? 2 : 60;
  const held = purser.usage.hold({ ...usage(10), expiresInSeconds, signal }, async ({ used }) => {
    if (kind === "fail") throw new RangeError("the model failed");
    used({ tokens: amount });
    // Longer than it was reserved for.
    if (kind === "long") await wait(2_600);
    if (kind === "abort") controller.abort();
    signal.throwIfAborted();
  });
  const name = await held.then(
    () => "committed",
    (error: Error) => error.name,
  );
  expect(name).toBe({ commit: "committed", long: "committed", abort: "AbortError", fail: "RangeError" }[kind]);
  if (kind === "fail") expected.released += 1;
  else charge(amount);
}

describe(`the client while connections are cut, PROOF_SEED=${RANDOM_SEED}`, () => {
  it("debits each call exactly once, and leaves no hold open", async () => {
    const random = createRandom(RANDOM_SEED);
    const cuts = cutConnections(random);
    const everybody: Expected[] = [];
    for (let n = 0; n < USERS; n++) {
      const userId = `user-${n}`;
      await new Purser({ url: server.url, key: app.keys.sk_live }).grantCredits({
        userId,
        packId: "tokens",
        quantity: GRANTED,
      });
      everybody.push({ userId, remaining: GRANTED, events: 0, released: 0 });
    }
    await Promise.all(
      Array.from({ length: WORKERS }, async (_, worker) => {
        const purser = new Purser({ url: proxy.url, key: app.keys.sk_live, retries: 8 });
        const own = createRandom(RANDOM_SEED + worker + 1);
        // `everybody` has this index.
        const expected = everybody[worker % USERS] as Expected;
        for (let call = 0; call < CALLS; call++) await act(own, purser, expected);
      }),
    );
    console.info(
      `client-storm.test.ts: PROOF_SEED=${RANDOM_SEED}, cut ${JSON.stringify([...cuts])} of ${proxy.seen.length}`,
    );
    expect(cuts.size).toBe(FAULTS.length);
    expect([...cuts.values()].reduce((sum, each) => sum + each)).toBeGreaterThan(40);

    const plain = new Purser({ url: server.url, key: app.keys.sk_live });
    for (const { userId, remaining, events, released } of everybody) {
      const { credits } = await plain.listBalances({ userId, includeExpired: true });
      expect(credits.reduce((sum, each) => sum + each.remaining, 0)).toBe(remaining);
      const eventIds: (string | null)[] = [];
      let unsettled = 0;
      let releasedAlone = 0;
      for await (const entry of plain.listLedgerEntries({ userId, limit: 500 })) {
        if (entry.reason === "event_committed") eventIds.push(entry.eventId);
        if (entry.reason === "reservation_held") unsettled++;
        if (entry.reason === "reservation_released" || entry.reason === "reservation_expired") unsettled--;
      }
      for await (const { status } of plain.listReservations({ userId, limit: 500 })) {
        expect(status).not.toBe("open");
        if (status === "released") releasedAlone++;
      }
      expect([new Set(eventIds).size, unsettled, releasedAlone]).toEqual([events, 0, released]);
      expect(await plain.verifyUser({ userId })).toMatchObject({ isSound: true });
    }
  }, 240_000);

  it("treats only a deletion whose response was lost as done when it is not found", async () => {
    const { appId } = app;
    const impatient = new PurserAdmin({ url: proxy.url, key: ADMIN_TOKEN });
    const alertOf = () => admin.createAlert({ appId, mode: "live", name: "low", unit: "tokens", below: { amount: 5 } });
    const gateway = { status: 502, body: "<html>" };
    for (const [fault, hasAnswer] of [
      ["lost", [false]],
      ["cut", [false]],
      // The second try runs concurrently with the first, and either may be first.
      ["beside", [false, true]],
      // This request never arrived.
      [gateway, [true]],
    ] as const) {
      const { alertId } = await alertOf();
      proxy.chance = () => null;
      proxy.faults.push(fault);
      const answer = await impatient.deleteAlert({ appId, alertId });
      expect(hasAnswer, String(fault)).toContain(answer.alertId === alertId);
      expect((await admin.listAlerts({ appId, mode: "live" })).alerts).toEqual([]);
      await expect(impatient.deleteAlert({ appId, alertId })).rejects.toMatchObject({ code: "not_found" });
    }
    // A 429 deletes nothing, so the alert is missing for another reason.
    const body = JSON.stringify({ error: { code: "rate_limited", message: "Wait.", requestId: "req_1" } });
    proxy.faults.push({ status: 429, headers: { "content-type": "application/json", "retry-after": "0" }, body });
    const nothing = impatient.deleteAlert({ appId, alertId: "alr_7hNc4kR9wZ2yTfBq8mLx3D" });
    await expect(nothing).rejects.toMatchObject({ code: "not_found" });
    expect(proxy.faults).toEqual([]);
  });
});
