import { env } from "cloudflare:workers";
import { afterAll, beforeEach, expect, it, vi } from "vitest";
import { DAY_MS, MINUTE_MS } from "../../../src/lib/time.ts";
import { FAULTS, faultyD1 } from "../../support/faulty-d1.ts";
import { expectLedgerInvariants } from "../../support/invariants.ts";
import { expectError } from "../../support/rejections.ts";
import { seedHolds } from "../../support/seed-rows.ts";
import { isSoak, RANDOM_SEED } from "../../support/soak.ts";
import { clockWorld } from "../../support/test-clock.ts";
import { inTurn } from "../../support/world.ts";

afterAll(expectLedgerInvariants);

// Retries do not wait.
beforeEach(() => {
  vi.spyOn(scheduler, "wait").mockResolvedValue();
});

const TEN_YEARS_MS = 3_653 * DAY_MS;

const auditOf = async (w: Awaited<ReturnType<typeof clockWorld>>) =>
  (await w.admin("GET", "/audit")).body.entries.map(({ action, target, details }: Record<string, unknown>) => ({
    action,
    target,
    details,
  }));

it("setting the clock sets the time, which runs on from there, and adds one entry to the audit in real time", async () => {
  const w = await clockWorld();
  expect((await w.admin("GET", "/clock")).body).toEqual({ now: null, status: "ready" });
  const set = await w.put(DAY_MS);
  expect(set.body).toEqual({ now: w.at(DAY_MS), status: "ready" });
  expect(set.headers.has("idempotent-replayed")).toBe(false);
  w.clock.advance(MINUTE_MS);
  expect((await w.admin("GET", "/clock")).body).toEqual({ now: w.at(DAY_MS + MINUTE_MS), status: "ready" });
  const { entries } = (await w.admin("GET", "/audit")).body;
  expect(entries).toMatchObject([
    { action: "clock.set", target: w.app.appId, at: w.at(0), details: { mode: "test", now: w.at(DAY_MS) } },
  ]);
});

it("setting the clock to the same time again returns the first response, without a second entry, even if time has run on since", async () => {
  const w = await clockWorld();
  await w.move(DAY_MS);
  w.clock.advance(MINUTE_MS);
  const again = await w.put(DAY_MS);
  expect(again.body).toEqual({ now: w.at(DAY_MS), status: "ready" });
  expect(again.headers.get("idempotent-replayed")).toBe("true");
  expect(await auditOf(w)).toHaveLength(1);
  expect((await w.admin("GET", "/clock")).body.now).toBe(w.at(DAY_MS + MINUTE_MS));
});

it("setting the clock works only forward, at most ten years in all, and adds no entry to the audit if it is rejected", async () => {
  const w = await clockWorld();
  for (const ms of [-1, 0, TEN_YEARS_MS + 1]) expectError(await w.put(ms), "invalid_request", "now");
  expect(await w.state()).toBeNull();
  await w.move(DAY_MS);
  for (const ms of [-1, 0, DAY_MS - 1, TEN_YEARS_MS + 1]) expectError(await w.put(ms), "invalid_request", "now");
  w.clock.advance(MINUTE_MS);
  for (const ms of [DAY_MS + MINUTE_MS, DAY_MS + 1]) {
    const answer = await w.put(ms);
    expectError(answer, "invalid_request", "now");
    expect(answer.body.error.message).toContain(w.at(DAY_MS + MINUTE_MS));
  }
  expect(await auditOf(w)).toHaveLength(1);
  await w.move(TEN_YEARS_MS + MINUTE_MS);
  expectError(await w.put(TEN_YEARS_MS + MINUTE_MS + 1), "invalid_request", "now");
  expect(await auditOf(w)).toHaveLength(2);
});

it.each([
  ["an empty body", {}, "now"],
  ["a text that is not a time", { now: "tomorrow" }, "now"],
  ["a number", { now: 1 }, "now"],
  ["null", { now: null }, "now"],
  ["a mode, because only test mode has a clock", { now: "2027-01-01T00:00:00Z", mode: "live" }, "mode"],
])("setting the clock refuses %s", async (_, body, param) => {
  const w = await clockWorld();
  expectError(await w.admin("PUT", "/clock", body), "invalid_request", param);
  expect(await w.state()).toBeNull();
});

it("setting the clock is rejected to a secret key, and for an unknown application", async () => {
  const w = await clockWorld();
  const path = `/api/v1/admin/apps/${w.app.appId}/clock`;
  for (const method of ["PUT", "GET", "DELETE"]) {
    const body = method === "PUT" ? { body: { now: w.at(DAY_MS) } } : {};
    expectError(await w.call(method, path, { key: w.app.keys.sk_test, ...body }), "invalid_key");
    const nobody = "/api/v1/admin/apps/app_none0/clock";
    expectError(await w.call(method, nobody, { key: env.ADMIN_TOKEN, ...body }), "not_found", "appId");
  }
  expect(await w.state()).toBeNull();
});

it("setting the clock takes effect once if ten set the same time at once, and ends at the latest if ten set different times", async () => {
  const w = await clockWorld({ pick: inTurn(10) });
  const same = await Promise.all(Array.from({ length: 10 }, () => w.put(DAY_MS)));
  expect(same.map(({ status, body }) => [status, body.now, body.status])).toEqual(
    Array(10).fill([200, w.at(DAY_MS), "ready"]),
  );
  expect(await auditOf(w)).toHaveLength(1);
  const times = Array.from({ length: 10 }, (_, index) => (2 + index) * DAY_MS);
  const answers = await Promise.all(times.map((ms) => w.put(ms)));
  const successful = answers.filter(({ status }) => status === 200);
  for (const answer of answers) if (answer.status !== 200) expectError(answer, "invalid_request", "now");
  expect(successful.length).toBeGreaterThan(0);
  expect(await auditOf(w)).toHaveLength(1 + successful.length);
  expect((await w.admin("GET", "/clock")).body).toEqual({ now: w.at(11 * DAY_MS), status: "ready" });
});

// The trips of each step of the clock are the same. So in the suite each trip fails in one way, which differs from run to run.
it.each(isSoak ? [...FAULTS.keys()] : [RANDOM_SEED])(
  "setting the clock takes effect once whichever trip fails, and a repeat continues it: %i",
  async (turn) => {
    let isHit = true;
    let at = 0;
    while (isHit) {
      at++;
      const fault = FAULTS[(isSoak ? turn : turn + at) % FAULTS.length] ?? expect.fail();
      const faulty = faultyD1(env.DB);
      const w = await clockWorld({ bindings: { DB: faulty.d1 } });
      await w.listen();
      await w.grant({ expiresAt: w.at(DAY_MS) });
      await w.reserve();
      faulty.plan({ fault, at });
      const first = await w.put(2 * DAY_MS);
      isHit = faulty.trips() >= at;
      faulty.plan(null);
      if (first.status !== 200) expectError(first, "temporarily_unavailable");
      await w.move(2 * DAY_MS);
      expect(await auditOf(w)).toHaveLength(1);
      expect(
        (await w.messages()).map(({ type, at }) => [type, at]),
        `${fault} at ${at}`,
      ).toEqual([
        ["credits.granted", w.at(0)],
        ["reservation.expired", w.at(MINUTE_MS)],
        ["balance.expired", w.at(DAY_MS)],
        ["credits.depleted", w.at(DAY_MS)],
      ]);
    }
    expect(at).toBeGreaterThan(10);
  },
);

/** More due moments than one request processes. */
const HOLDS = 36;
/** A day on which a hold ends every minute, from the fifth on. */
const busy = async () => {
  const w = await clockWorld({ pick: inTurn(2) });
  await w.listen();
  await w.grant();
  await seedHolds(w.app.environments.test, new Map([["u", HOLDS]]), {
    ...{ minor: 1_000, quantities: { count: 0, tokens: 1 } },
    ...{ createdAtMs: w.clock.ms, expiresAtMs: w.clock.ms + 5 * MINUTE_MS, intervalMs: MINUTE_MS },
  });
  return w;
};

it("changingCredits a clock far returns `advancing`, serves requests at the reached moment meanwhile, and is finished by the cron", async () => {
  const w = await busy();
  const set = await w.put(DAY_MS);
  expect(set.body).toEqual({ now: w.at(DAY_MS), status: "advancing" });
  const reached = (await w.admin("GET", "/clock")).body;
  expect(reached.status).toBe("advancing");
  expect(Date.parse(reached.now)).toBeGreaterThan(Date.parse(w.at(5 * MINUTE_MS)));
  expect(Date.parse(reached.now)).toBeLessThan(Date.parse(w.at((5 + HOLDS) * MINUTE_MS)));
  // The clock stands still at that moment, for every isolate.
  w.clock.advance(MINUTE_MS);
  for (const eventId of ["one", "two", "three"]) {
    const event = { eventId, userId: "u", event: "chat", quantities: { count: 0, tokens: 1 } };
    await w.callOk("POST", "/usage/events", event);
    expect((await w.ledger()).at(-1)).toMatchObject({ eventId, occurredAt: reached.now });
  }
  expectError(await w.put(DAY_MS - 1), "invalid_request", "now");
  for (let runs = 0; (await w.admin("GET", "/clock")).body.status === "advancing"; runs++) {
    expect(runs).toBeLessThan(5);
    await w.cron();
  }
  const again = await w.put(DAY_MS);
  expect(again.headers.get("idempotent-replayed")).toBe("true");
  const expiries = (await w.ledger()).filter(({ reason }: { reason: string }) => reason === "reservation_expired");
  expect(expiries.map(({ occurredAt }: { occurredAt: string }) => occurredAt)).toEqual(
    Array.from({ length: HOLDS }, (_, index) => w.at((5 + index) * MINUTE_MS)),
  );
  expect((await w.put(DAY_MS)).body).toEqual({ now: w.at(DAY_MS), status: "ready" });
  expect((await w.admin("GET", "/clock")).body.now).toBe(w.at(DAY_MS));
});

it("changingCredits a clock far continues to a later time that is set meanwhile", async () => {
  const w = await busy();
  expect((await w.put(DAY_MS)).body.status).toBe("advancing");
  const later = await w.put(2 * DAY_MS);
  expect(later.body).toEqual({ now: w.at(2 * DAY_MS), status: "ready" });
  expect((await w.ledger()).filter(({ reason }: { reason: string }) => reason === "reservation_expired")).toHaveLength(
    HOLDS,
  );
  expect(await auditOf(w)).toHaveLength(2);
});

it("changingCredits a clock far does everything once even if the cron and four requests continue it at once and others write meanwhile", async () => {
  const w = await busy();
  const writes = Array.from({ length: 10 }, (_, index) => {
    const event = { eventId: `e${index}`, userId: "u", event: "chat", quantities: { count: 0, tokens: 1 } };
    return w.call("POST", "/api/v1/usage/events", { key: w.app.keys.sk_test, body: event });
  });
  const moves = Array.from({ length: 4 }, () => w.put(DAY_MS));
  await Promise.all([...moves, w.cron()]);
  // Each write was served at the moment that was reached by then.
  expect((await Promise.all(writes)).map(({ status }) => status)).toEqual(Array(10).fill(200));
  for (let runs = 0; (await w.put(DAY_MS)).body.status === "advancing"; runs++) expect(runs).toBeLessThan(5);
  const ledger = await w.ledger();
  expect(ledger.filter(({ reason }: { reason: string }) => reason === "reservation_expired")).toHaveLength(HOLDS);
  const times = ledger.map(({ occurredAt }: { occurredAt: string }) => occurredAt);
  expect(times).toEqual(times.toSorted());
  expect((await w.messages()).filter(({ type }) => type === "reservation.expired")).toHaveLength(HOLDS);
});

it("deleting the clock returns to real time if the environment is empty, takes effect once, and allows to set a clock again", async () => {
  const w = await clockWorld();
  await w.listen();
  expect((await w.admin("DELETE", "/clock")).body).toEqual({ now: null, status: "ready" });
  await w.move(DAY_MS);
  for (let n = 0; n < 2; n++) {
    expect((await w.admin("DELETE", "/clock")).body).toEqual({ now: null, status: "ready" });
    expect((await w.admin("GET", "/clock")).body).toEqual({ now: null, status: "ready" });
  }
  expect((await auditOf(w)).map(({ action }: { action: string }) => action)).toEqual(["clock.removed", "clock.set"]);
  await w.grant();
  expect((await w.ledger())[0].occurredAt).toBe(w.at(0));
  await w.move(MINUTE_MS);
});

it.each([
  ["credits", (w) => w.grant()],
  [
    "usage",
    (w) =>
      w.callOk("POST", "/usage/events", {
        ...{ eventId: "e", userId: "u", event: "chat", onShortage: "partial" },
        quantities: { tokens: 1 },
      }),
  ],
  ["people", (w) => w.call("POST", "/e/", { body: { api_key: w.app.keys.pk_test, event: "seen", distinct_id: "d" } })],
  ["consent", (w) => w.callOk("POST", "/consent", { distinctId: "d", purpose: "ads", decision: "denied" })],
] satisfies [string, (w: Awaited<ReturnType<typeof clockWorld>>) => Promise<unknown>][])(
  "deleting the clock is refused while the environment holds %s",
  async (_, write) => {
    const w = await clockWorld();
    await w.move(DAY_MS);
    await write(w);
    expectError(await w.admin("DELETE", "/clock"), "invalid_request");
    expect((await w.admin("GET", "/clock")).body.now).toBe(w.at(DAY_MS));
    expect(await auditOf(w)).toHaveLength(1);
  },
);

it.each(FAULTS)("deleting the clock takes effect once whichever trip fails: %s", async (fault) => {
  for (let at = 1; at <= 2; at++) {
    const faulty = faultyD1(env.DB);
    const w = await clockWorld({ bindings: { DB: faulty.d1 } });
    await w.move(DAY_MS);
    faulty.plan({ fault, at });
    const first = await w.admin("DELETE", "/clock");
    faulty.plan(null);
    if (first.status !== 200) expectError(first, "temporarily_unavailable");
    expect((await w.admin("DELETE", "/clock")).status).toBe(200);
    expect(await auditOf(w)).toHaveLength(2);
    expect(await w.state()).toBeNull();
  }
});
