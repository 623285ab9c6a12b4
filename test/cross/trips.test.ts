import { env } from "cloudflare:workers";
import { afterAll, describe, expect, it } from "vitest";
import { END_USER_SETTING } from "../support/end-user-setting.ts";
import { farD1, type Trips } from "../support/far-d1.ts";
import { expectLedgerInvariants } from "../support/invariants.ts";
import { userToken } from "../support/keyed-routes.ts";
import { CREDITS, USAGE } from "../support/paths.ts";
import { type Answer, Clock, makeApp, makeClient, makePack } from "../support/world.ts";

// Checks "What each operation may cost" in docs/architecture.md: the trips in sequence, including the check of the key. A cold
// isolate has served nobody. A warm isolate has just written for this user.

afterAll(expectLedgerInvariants);

type World = Awaited<ReturnType<typeof makeWorld>>;

/** A user with credits, and two isolates over one far database. */
async function makeWorld() {
  const app = await makeApp(END_USER_SETTING);
  await makePack(app.appId, "Pack", [
    { amountMinor: 1_000_000, unit: "tokens" },
    { amountMinor: 1_000_000, unit: "tokens" },
  ]);
  const clock = new Clock();
  const token = await userToken("u", clock);
  const isolate = () => {
    const { d1, spent } = farD1(env.DB, { primaryMs: 0, replicaMs: 0 });
    const call = makeClient(clock, { DB: d1 });
    const get = (path: string) => call("GET", path, { key: app.keys.sk_live });
    const post = (path: string, body: object, key = app.keys.sk_live) => call("POST", path, { key, body });
    const asUser = (method: string, path: string, body?: object) =>
      call(method, path, {
        key: app.keys.pk_live,
        headers: { "x-user-token": token },
        ...(body === undefined ? {} : { body }),
      });
    return { get, post, asUser, call, spent };
  };
  return { app, first: isolate(), isolate, clock };
}

type Isolate = ReturnType<World["isolate"]>;
const use = { event: "chat", quantities: { count: 0, tokens: 1 } };

const sendGrant = ({ post }: Isolate, tag: string) =>
  post(`${CREDITS}/grant`, { userId: "u", packId: "Pack", externalRef: tag });
const sendEvent = ({ post }: Isolate, tag: string) => post(`${USAGE}/events`, { ...use, userId: "u", eventId: tag });
const sendReservation = ({ post }: Isolate, tag: string) =>
  post(`${USAGE}/reservations`, { ...use, userId: "u", reservationId: `res_${tag}` });
const consent = { distinctId: "u", purpose: "p", decision: "granted" };
const seenEvent = (tag: string, properties = {}) => ({
  event: "seen",
  distinct_id: "u",
  properties: { tag, ...properties },
});

const identified = {
  event: "$identify",
  distinct_id: "u",
  properties: {
    $anon_distinct_id: "0194685f-8a3c-7d11-9f2b-6c1d2e3f4a5b",
    $set: { plan: "a" },
    $set_once: { from: "b" },
  },
};

interface Operation {
  readonly name: string;
  /** Trips in sequence at most, cold and warm. */
  readonly cold: number;
  readonly warm: number;
  /** Where the trips may go. Default: the primary. */
  readonly to?: "replica";
  /** The setup: by another isolate before the cold call, and by the same isolate before the warm call. */
  readonly prepare?: (isolate: Isolate, tag: string) => Promise<Answer>;
  readonly run: (isolate: Isolate, tag: string) => Promise<Answer>;
}

const operations: readonly Operation[] = [
  { name: "list", cold: 1, warm: 1, to: "replica", run: ({ get }) => get(`${CREDITS}?userId=u`) },
  {
    name: "list by reference",
    cold: 1,
    warm: 1,
    to: "replica",
    run: ({ get }) => get(`${CREDITS}?userId=u&externalRef=a`),
  },
  {
    name: "list as of a moment",
    cold: 1,
    warm: 1,
    to: "replica",
    run: ({ get }) => get(`${CREDITS}?userId=u&asOf=2026-01-15T12:00Z`),
  },
  { name: "users", cold: 1, warm: 1, to: "replica", run: ({ get }) => get(`${CREDITS}/users`) },
  { name: "verify", cold: 1, warm: 1, to: "replica", run: ({ get }) => get(`${CREDITS}/verify?userId=u`) },
  {
    name: "list by an end-user",
    cold: 1,
    warm: 1,
    to: "replica",
    run: ({ asUser }) => asUser("GET", `${CREDITS}?userId=u`),
  },
  { name: "history", cold: 1, warm: 1, to: "replica", run: ({ get }) => get(`${CREDITS}/history?userId=u&limit=5`) },
  {
    name: "plan",
    cold: 1,
    warm: 1,
    to: "replica",
    run: ({ post }) => post(`${CREDITS}/plan`, { userId: "u", ...use }),
  },
  { name: "totals", cold: 1, warm: 1, to: "replica", run: ({ get }) => get(`${USAGE}?userId=u`) },
  {
    name: "reservations",
    cold: 1,
    warm: 1,
    to: "replica",
    run: ({ get }) => get(`${USAGE}/reservations?userId=u`),
  },
  {
    name: "reservation",
    cold: 1,
    warm: 1,
    to: "replica",
    prepare: sendReservation,
    run: ({ get }, tag) => get(`${USAGE}/reservations/res_${tag}`),
  },
  {
    name: "flags",
    cold: 1,
    warm: 1,
    to: "replica",
    run: ({ call }, tag) => call("POST", "/flags/", { body: { api_key: tag } }),
  },
  { name: "grant", cold: 2, warm: 2, run: sendGrant },
  {
    name: "grant, replayed",
    cold: 1,
    warm: 1,
    prepare: (at) => sendGrant(at, "same"),
    run: (at) => sendGrant(at, "same"),
  },
  {
    name: "revoke",
    cold: 2,
    warm: 2,
    run: async ({ post, get, spent }) => {
      const { credits } = (await get(`${CREDITS}?userId=u`)).body;
      spent();
      return post(`${CREDITS}/revoke`, { balanceId: credits.at(-1).balanceId });
    },
  },
  {
    name: "refund",
    cold: 2,
    warm: 2,
    prepare: (at, tag) => sendGrant(at, `order ${tag}`),
    run: ({ post }, tag) =>
      post(`${CREDITS}/refund`, {
        userId: "u",
        externalRef: `order ${tag}`,
        refundRef: "re",
        share: { part: 1, of: 3 },
      }),
  },
  {
    name: "refund, replayed",
    cold: 1,
    warm: 1,
    prepare: ({ post }) => post(`${CREDITS}/refund`, { userId: "u", externalRef: "a", refundRef: "re" }),
    run: ({ post }) => post(`${CREDITS}/refund`, { userId: "u", externalRef: "a", refundRef: "re" }),
  },
  { name: "usage event", cold: 2, warm: 1, run: sendEvent },
  {
    name: "usage event, replayed",
    cold: 1,
    warm: 2,
    prepare: (at) => sendEvent(at, "same"),
    run: (at) => sendEvent(at, "same"),
  },
  {
    name: "usage events, 100 of one user",
    cold: 2,
    warm: 1,
    run: ({ post }, tag) =>
      post(
        `${USAGE}/events`,
        Array.from({ length: 100 }, (_, index) => ({ ...use, userId: "u", eventId: `${tag} ${index}` })),
      ),
  },
  { name: "reserve", cold: 2, warm: 1, run: sendReservation },
  {
    name: "commit",
    cold: 2,
    warm: 1,
    prepare: sendReservation,
    run: ({ post }, tag) =>
      post(`${USAGE}/reservations/res_${tag}/commit`, { eventId: tag, quantities: use.quantities }),
  },
  {
    name: "release",
    cold: 2,
    warm: 1,
    prepare: sendReservation,
    run: ({ post }, tag) => post(`${USAGE}/reservations/res_${tag}/release`, {}),
  },
  {
    name: "extend",
    cold: 2,
    warm: 1,
    prepare: sendReservation,
    run: ({ post }, tag) => post(`${USAGE}/reservations/res_${tag}/extend`, { expiresInSeconds: 600 }),
  },
  { name: "consent", cold: 1, warm: 1, run: ({ post }) => post("/api/v1/consent", consent) },
  {
    name: "consent by an end-user",
    cold: 2,
    warm: 2,
    run: ({ asUser }) => asUser("POST", "/api/v1/consent", consent),
  },
  {
    name: "capture without changes of people",
    cold: 1,
    warm: 1,
    run: ({ call }, tag) =>
      call("POST", "/batch/", { body: { api_key: tag, batch: [seenEvent(tag), seenEvent(tag)] } }),
  },
  {
    name: "capture that repeats a $set",
    cold: 2,
    warm: 1,
    prepare: ({ call }, tag) =>
      call("POST", "/batch/", { body: { api_key: tag, batch: [seenEvent(tag, { $set: { a: 1 } })] } }),
    run: ({ call }, tag) =>
      call("POST", "/batch/", { body: { api_key: tag, batch: [seenEvent(tag, { $set: { a: 1 } })] } }),
  },
  {
    name: "capture that repeats an $identify",
    cold: 2,
    warm: 1,
    prepare: ({ call }, tag) => call("POST", "/batch/", { body: { api_key: tag, batch: [identified] } }),
    run: ({ call }, tag) => call("POST", "/batch/", { body: { api_key: tag, batch: [identified, identified] } }),
  },
  {
    name: "capture that sets a new value",
    cold: 2,
    warm: 2,
    run: ({ call }, tag) =>
      call("POST", "/batch/", {
        body: { api_key: tag, batch: [seenEvent(tag, { $set: { at: crypto.randomUUID() } })] },
      }),
  },
  { name: "mint", cold: 1, warm: 1, run: ({ post }) => post("/api/v1/export-person", { distinctId: "u" }) },
  {
    name: "end of links",
    cold: 2,
    warm: 2,
    run: ({ post }) => post("/api/v1/export-person/revoke", { distinctId: "u" }),
  },
];

const expectWithin = (trips: Trips, most: number, to: Operation["to"]) => {
  expect(trips.inSequence).toBeGreaterThan(0);
  expect(trips.inSequence).toBeLessThanOrEqual(most);
  if (to === "replica") expect(trips.primary).toBe(0);
};

describe.each(operations)("$name", ({ cold, warm, to, prepare, run }) => {
  it(`takes at most ${cold} trips in a cold isolate and ${warm} in a warm one`, async () => {
    const { app, first, isolate } = await makeWorld();
    // A route with its key in the body gets the key as its tag.
    const isKeyed = /api_key: tag/.test(run.toString());
    const tagOf = (tag: string) => (isKeyed ? app.keys.pk_live : tag);
    for (const order of ["a", "b"]) expect((await sendGrant(first, order)).status).toBe(200);
    await prepare?.(first, tagOf("cold"));
    const fresh = isolate();
    const answer = await run(fresh, tagOf("cold"));
    expect(answer.status, JSON.stringify(answer.body)).toBe(200);
    expectWithin(fresh.spent(), cold, to);

    expect((await sendEvent(fresh, "warming")).status).toBe(200);
    await prepare?.(fresh, tagOf("warm"));
    fresh.spent();
    expect((await run(fresh, tagOf("warm"))).status).toBe(200);
    expectWithin(fresh.spent(), warm, to);
  });
});

/** The writes that settle a due hold, after which the user's second order can be changed too. */
const settling: readonly Pick<Operation, "name" | "run">[] = [
  ...operations.filter(({ name }) => ["grant", "revoke", "usage event", "reserve"].includes(name)),
  ...operations.filter(({ name }) => name === "usage events, 100 of one user"),
  {
    name: "refund",
    run: ({ post }) =>
      post(`${CREDITS}/refund`, { userId: "u", externalRef: "b", refundRef: "re", share: { part: 1, of: 3 } }),
  },
  {
    name: "adjustment",
    run: async ({ get, call, spent }) => {
      const { credits } = (await get(`${CREDITS}?userId=u`)).body;
      spent();
      return call("POST", `/api/v1/admin/balances/${credits.at(-1).balanceId}/adjust`, {
        key: env.ADMIN_TOKEN,
        body: { delta: 1, note: "more" },
      });
    },
  },
  {
    name: "commit of another reservation",
    run: ({ post }) => post(`${USAGE}/reservations/res_open/commit`, { eventId: "e", quantities: use.quantities }),
  },
  {
    name: "release of another reservation",
    run: ({ post }) => post(`${USAGE}/reservations/res_open/release`, {}),
  },
  {
    name: "refused usage event",
    run: ({ post }) =>
      post(`${USAGE}/events`, { ...use, quantities: { count: 0, tokens: 1e9 }, userId: "u", eventId: "e" }),
  },
  {
    name: "replayed usage event",
    run: ({ post }) => post(`${USAGE}/events`, { ...use, userId: "u", eventId: "before" }),
  },
];

describe.each(settling)("$name that meets a due hold", ({ run, name }) => {
  it.each(["return", "charge"] as const)(
    "takes two trips in a cold isolate when the hold is to %s",
    async (onExpiry) => {
      const { first, isolate, clock } = await makeWorld();
      for (const order of ["a", "b"]) expect((await sendGrant(first, order)).status).toBe(200);
      expect((await sendEvent(first, "before")).status).toBe(200);
      expect((await sendReservation(first, "open")).status).toBe(200);
      const due = { ...use, userId: "u", reservationId: "res_due", expiresInSeconds: 1, onExpiry };
      expect((await first.post(`${USAGE}/reservations`, due)).status).toBe(200);
      clock.advance(1_000);
      const fresh = isolate();
      expect((await run(fresh, "cold")).status).toBe(name.startsWith("refused") ? 402 : 200);
      expect(fresh.spent().inSequence).toBe(name === "adjustment" ? 3 : 2);
      const { status, settledAt } = (await first.get(`${USAGE}/reservations/res_due`)).body;
      expect(status).toBe(onExpiry === "charge" ? "committed" : "expired");
      expect(settledAt).not.toBeNull();
    },
  );
});

it.each(["return", "charge"] as const)(
  "a usage event after a write that met a due hold takes one trip in the same isolate when the hold was to %s",
  async (onExpiry) => {
    const { first, isolate, clock } = await makeWorld();
    expect((await sendGrant(first, "a")).status).toBe(200);
    const due = { ...use, userId: "u", reservationId: "res_due", expiresInSeconds: 1, onExpiry };
    expect((await first.post(`${USAGE}/reservations`, due)).status).toBe(200);
    clock.advance(1_000);
    const fresh = isolate();
    expect((await sendEvent(fresh, "settling")).status).toBe(200);
    fresh.spent();
    expect((await sendEvent(fresh, "after")).status).toBe(200);
    expect(fresh.spent().inSequence).toBe(1);
  },
);

it("an export of a small person takes at most two trips: for the opening with the first page, and for the record of its completion", async () => {
  const { first, isolate } = await makeWorld();
  await sendGrant(first, "a");
  const { downloadUrl } = (await first.post("/api/v1/export-person", { distinctId: "u" })).body;
  const fresh = isolate();
  expect((await fresh.call("GET", downloadUrl)).status).toBe(200);
  expect(fresh.spent().inSequence).toBeLessThanOrEqual(2);
});
