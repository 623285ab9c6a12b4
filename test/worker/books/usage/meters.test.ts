import { env } from "cloudflare:workers";
import { afterAll, expect, it } from "vitest";
import { documentOf } from "../../../support/exports.ts";
import { faultyD1 } from "../../../support/faulty-d1.ts";
import { expectLedgerInvariants } from "../../../support/invariants.ts";
import { expectError } from "../../../support/rejections.ts";
import { changeReservation, makeSpender, runHoldsPart, type Spender, wallet } from "../../../support/spender.ts";
import { makeClient, type TestItem } from "../../../support/world.ts";

afterAll(expectLedgerInvariants);

const million = (amount: number) => ({ amount, units: 1_000_000 });
/** 2 cents a million input tokens, 0.2 cached, 8 output; an image is 4 cents. */
const GPT = { model: "gpt-5*", unit: "cents", per: { input: million(2), cacheRead: million(0.2), output: million(8) } };
const IMAGE = { event: "image", unit: "cents", perEvent: 4 };
const RULES = [GPT, IMAGE];
const COSTS = [{ model: "gpt-5*", per: { input: million(1), cacheRead: million(0.1), output: million(4) } }];
const METERS = { input: 1_000_000, output: 250_000 };

/** A spender whose application has a price list. */
async function metered({
  items = [wallet],
  rules = RULES,
  bindings = {},
}: {
  items?: readonly TestItem[];
  rules?: readonly object[] | null;
  bindings?: Partial<Env>;
} = {}) {
  const spender = await makeSpender(items, bindings);
  const call = makeClient(spender.clock);
  const set = async (list: readonly object[], more: object = {}) => {
    const path = `/api/v1/admin/apps/${spender.app.appId}/prices`;
    const answer = await call("PUT", path, { key: env.ADMIN_TOKEN, body: { mode: "live", rules: list, ...more } });
    expect(answer.status, JSON.stringify(answer.body)).toBe(200);
    return answer.body.version as number;
  };
  if (rules !== null) await set(rules, { costs: COSTS });
  const use = (eventId: string, body: object = {}) =>
    spender.spend(eventId, { event: "chat", model: "gpt-5", meters: METERS, ...body });
  const event = async (eventId: string) => (await spender.get(`/api/v1/usage/events?eventId=${eventId}`)).body;
  const stored = () =>
    env.DB.prepare(`SELECT count(*) AS n FROM usage_events WHERE environment_id = ?`)
      .bind(spender.app.environments.live.id)
      .first("n");
  return { ...spender, spender, set, use, event, stored };
}

const later = ({ clock }: Pick<Spender, "clock">, ms: number) => new Date(clock.ms + ms).toISOString();

it("an event with meters is debited by the price list, and tells its quantities, meters, version and cost wherever it is shown", async () => {
  const w = await metered();
  const answer = await w.use("e1");
  expect(answer.body).toMatchObject({
    ...{ eventId: "e1", quantities: { cents: 4 }, meters: METERS, priceVersion: 1 },
    ...{ debits: [{ unit: "cents", amount: 4, remaining: 6 }], uncovered: null },
  });
  const replay = await w.use("e1");
  expect([replay.body, replay.headers.get("idempotent-replayed")]).toEqual([answer.body, "true"]);
  expect(await w.event("e1")).toMatchObject({ quantities: { cents: 4 }, meters: METERS, priceVersion: 1, cost: 2 });
  const { body } = await w.get(`/api/v1/usage?userId=${w.userId}&from=2026-01-01T00:00:00Z&groupBy=event`);
  expect(body.totals).toMatchObject([{ event: "chat", events: 1, quantities: { cents: 4 } }]);
  const document = await documentOf(w.app, w.userId, w.clock);
  expect(document.events.metering).toMatchObject([{ quantities: { cents: 4 }, meters: METERS, priceVersion: 1 }]);
  expect(JSON.stringify(document)).not.toContain('"cost"');
});

it("an event with meters sends nothing of a price or a meter in the answer of an event with quantities", async () => {
  const w = await metered();
  const { body } = await w.spend("e1", { quantities: { cents: 1 } });
  expect(Object.keys(body).sort()).toEqual(["debits", "eventId", "uncovered"]);
  expect(await w.event("e1")).toMatchObject({ meters: null, priceVersion: null, cost: null });
});

it("an event with meters keeps every digit of its meters, and rounds its price up once", async () => {
  const w = await metered({ rules: [{ unit: "tokens", per: { input: 1e-12, output: 1e-12 } }], items: [] });
  const meters = { input: 9_007_199_254_740_992, output: 0.0005 };
  const { body } = await w.use("e1", { meters, onShortage: "partial" });
  expect(body).toMatchObject({ quantities: { tokens: 9007.2 }, meters: { input: 2 ** 53, output: 0.001 } });
  expect((await w.event("e1")).meters).toEqual({ input: 2 ** 53, output: 0.001 });
});

it("an event with meters warns of a meter with more decimals than a thousandth", async () => {
  const w = await metered();
  const warned = async (id: string, meters: object) => (await w.use(id, { meters })).headers.get("purser-warning");
  expect(await warned("e1", { input: 1.001, output: 2 })).toBeNull();
  expect(await warned("e2", { input: 1.0001, output: 2 })).toMatch(/rounded up/);
  const hold = await w.reserve({ event: "chat", model: "gpt-5", meters: { input: 1e-9 } });
  expect(hold.headers.get("purser-warning")).toMatch(/rounded up/);
});

it("an event with meters is free only if the list says so, and a flat rule takes any meters", async () => {
  const w = await metered({ rules: [{ event: "free", unit: "cents", perEvent: 0 }, IMAGE] });
  expect((await w.use("e1", { event: "free" })).body).toMatchObject({
    quantities: { cents: 0 },
    debits: [],
    uncovered: null,
  });
  expect((await w.use("e2", { event: "image", meters: {} })).body).toMatchObject({
    quantities: { cents: 4 },
    meters: {},
  });
  expect((await w.use("e3", { event: "image", meters: { pixels: 9 } })).body).toMatchObject({
    quantities: { cents: 4 },
  });
  expect(await w.remaining()).toEqual([2]);
});

it("an event with meters has alternative quantities of several units, of which a balance pays its own", async () => {
  const rules = [...RULES, { unit: "count", perEvent: 1 }];
  const w = await metered({ rules, items: [{ amountMinor: 2_000, unit: "count" }] });
  expect((await w.use("e1")).body).toMatchObject({
    quantities: { count: 1, cents: 4 },
    debits: [{ unit: "count", amount: 1 }],
  });
  expect((await w.event("e1")).quantities).toEqual({ count: 1, cents: 4 });
});

it("an event with meters implies no count", async () => {
  const w = await metered({ items: [{ amountMinor: 2_000, unit: "count" }] });
  expectError(await w.use("e1"), "insufficient_credits");
  expect((await w.use("e1", { onShortage: "partial" })).body).toMatchObject({ debits: [], uncovered: { cents: 4 } });
});

it("an event with meters without a price is rejected, records nothing, and may be sent again once there is one", async () => {
  const w = await metered();
  for (const more of [{}, { onShortage: "partial" }, { occurredAt: later(w, -60_000) }]) {
    const unknown = await w.use("e1", { model: "claude", ...more });
    expectError(unknown, "price_not_found", "meters");
    expect(unknown.body.error.details).toEqual({ event: "chat", model: "claude", meters: ["input", "output"] });
  }
  const missing = await w.use("e1", { meters: { input: 1, images: 2, none: 0 } });
  expectError(missing, "price_not_found");
  expect(missing.body.error.details).toEqual({ event: "chat", model: "gpt-5", meters: ["images"], unit: "cents" });
  expect([await w.stored(), await w.remaining()]).toEqual([0, [10]]);
  await w.set([...RULES, { model: "claude", unit: "cents", per: { input: million(1), output: million(4) } }]);
  expect((await w.use("e1", { model: "claude" })).body).toMatchObject({ quantities: { cents: 2 }, priceVersion: 2 });
});

it("an event with meters has no price in an environment without a list, and none once the list has ended", async () => {
  const w = await metered({ rules: null });
  expectError(await w.use("e1"), "price_not_found");
  await w.set(RULES);
  expect((await w.use("e1")).status).toBe(200);
  await w.set([]);
  expectError(await w.use("e2"), "price_not_found");
});

it("an event with meters costs too much for a unit as invalid_request, and nothing is recorded", async () => {
  const w = await metered({ rules: [{ unit: "cents", per: { input: 1_000_000 } }] });
  expectError(await w.use("e1", { meters: { input: 1_000_000 } }), "invalid_request", "meters");
  expect(await w.stored()).toBe(0);
});

it("an event with meters is rejected by a limit, and for lack of credits with its quantities, meters and version", async () => {
  const w = await metered();
  const { error } = (await w.use("e1", { meters: { output: 10_000_000 } })).body;
  expect(error.details).toMatchObject({
    ...{ quantities: { cents: 80 }, uncovered: { cents: 70 } },
    ...{ meters: { output: 10_000_000 }, priceVersion: 1 },
  });
});

it.each<[string, object, string]>([
  ["with quantities too", { meters: {}, quantities: { cents: 1 } }, "meters"],
  ["with 21 meters", { meters: Object.fromEntries(Array.from({ length: 21 }, (_, n) => [`m${n}`, 1])) }, "meters"],
  ["with a name that is none", { meters: { "in put": 1 } }, "meters.in put"],
  ["with a name that begins with a capital letter", { meters: { Input: 1 } }, "meters.Input"],
  ["with a negative meter", { meters: { input: -1 } }, "meters.input"],
  ["with a meter above 2^53", { meters: { input: 2 ** 54 } }, "meters.input"],
  ["with a meter as text", { meters: { input: "1" } }, "meters.input"],
  ["with a meter of null", { meters: { input: null } }, "meters.input"],
  ["with a list", { meters: [] }, "meters"],
])("an event with meters is rejected %s, and nothing is recorded", async (_, body, param) => {
  const w = await metered();
  expectError(await w.use("e1", body), "invalid_request", param);
  expectError(
    await w.post("/api/v1/credits/plan", { userId: w.userId, event: "chat", ...body }),
    "invalid_request",
    param,
  );
  expectError(await w.reserve(body), "invalid_request", param);
  expect([await w.stored(), await w.remaining()]).toEqual([0, [10]]);
});

it("an event with meters and its repeat differ if a meter does, or one of 0 is left out, or quantities replace them", async () => {
  const w = await metered();
  await w.use("e1");
  const differs = async (body: object) => {
    const answer = await w.use("e1", body);
    expectError(answer, "idempotency_conflict");
    return answer.body.error.details.differs;
  };
  expect(await differs({ meters: { ...METERS, cacheRead: 0 } })).toEqual(["meters"]);
  expect(await differs({ meters: undefined, quantities: { cents: 4 } })).toEqual(["meters", "quantities"]);
  expect(
    (await w.use("e1", { meters: { output: 250_000, input: 1_000_000 } })).headers.get("idempotent-replayed"),
  ).toBe("true");
});

it("an event with meters with neither meters nor quantities is rejected if a rule of count prices it, in whatever call", async () => {
  const w = await metered({ rules: [{ event: "chat", unit: "count", per: { input: 1 } }] });
  for (const body of [{}, { quantities: {} }]) {
    expectError(await w.spend("e1", { event: "chat", ...body }), "invalid_request", "meters");
    const plan = { userId: w.userId, event: "chat", ...body };
    expectError(await w.post("/api/v1/credits/plan", plan), "invalid_request", "meters");
  }
  expectError(await w.reserve({ event: "chat", quantities: {} }), "invalid_request", "meters");
  expect((await w.spend("e1", { event: "other", onShortage: "partial" })).status).toBe(200);
  expect((await w.spend("e2", { event: "chat", quantities: { count: 1 }, onShortage: "partial" })).status).toBe(200);
});

const dearer = [{ ...GPT, per: { input: million(20), cacheRead: million(2), output: million(80) } }];
const small = { input: 100_000, output: 0 };

it("the version of a price is the one in force when an event is recorded, also in an isolate that remembers the one before", async () => {
  const w = await metered();
  expect((await w.use("e1", { meters: small })).body).toMatchObject({ quantities: { cents: 0.2 }, priceVersion: 1 });
  await w.set(dearer, { effectiveAt: later(w, 1_000) });
  expect((await w.use("e2", { meters: small })).body).toMatchObject({ priceVersion: 1 });
  w.clock.advance(999);
  expect((await w.use("e3", { meters: small })).body).toMatchObject({ priceVersion: 1 });
  w.clock.advance(1);
  expect((await w.use("e4", { meters: small })).body).toMatchObject({ quantities: { cents: 2 }, priceVersion: 2 });
  expect((await w.use("e1", { meters: small })).body).toMatchObject({ quantities: { cents: 0.2 }, priceVersion: 1 });
  expect((await w.use("e5", { meters: small, occurredAt: later(w, -1) })).body).toMatchObject({ priceVersion: 1 });
});

it("the version of a price is chosen by `occurredAt` for 31 days, and is the one in force for older events", async () => {
  const w = await metered();
  w.clock.advance(1_000);
  await w.set(dearer);
  w.clock.advance(31 * 86_400_000 - 1_000);
  const of = async (id: string, ms: number) =>
    (await w.use(id, { meters: small, occurredAt: later(w, ms) })).body.priceVersion;
  expect(await of("e1", -31 * 86_400_000)).toBe(1);
  expect(await of("e2", -31 * 86_400_000 - 1)).toBe(2);
  expect(await of("e3", -31 * 86_400_000 + 1_000)).toBe(2);
  expect(await of("e4", 1_000)).toBe(2);
});

it("the version of a price is, where the one of its time has no price, the first later one that has, and never one of the future", async () => {
  const w = await metered({ rules: [IMAGE] });
  const occurredAt = later(w, 0);
  for (const [n, rules] of [[IMAGE], RULES, dearer].entries()) {
    w.clock.advance(1_000);
    await w.set(rules, { note: `${n}` });
  }
  w.clock.advance(1_000);
  await w.set([{ model: "m", unit: "cents", perEvent: 1 }], { effectiveAt: later(w, 1_000) });
  expect((await w.use("e1", { meters: small, occurredAt })).body).toMatchObject({ priceVersion: 3 });
  expectError(await w.use("e2", { meters: small, model: "m", occurredAt }), "price_not_found");
  w.clock.advance(1_000);
  expect((await w.use("e2", { meters: small, model: "m", occurredAt })).body).toMatchObject({ priceVersion: 5 });
  // There was no version yet.
  expect((await w.use("e3", { meters: small, occurredAt: later(w, -86_400_000) })).body).toMatchObject({
    priceVersion: 3,
  });
});

/** Stores versions a second apart, the first now, by one statement. The tests of price lists make them by the API. */
const storeVersions = (w: Awaited<ReturnType<typeof metered>>, lists: readonly (readonly object[])[]) =>
  env.DB.prepare(
    `INSERT INTO price_lists (environment_id, version, effective_at_ms, created_at_ms, rules, costs, audit_entry_id)
       SELECT CAST(?1 AS INTEGER), key + 1, ?2 + 1000 * key, ?2, value, '[]', key FROM json_each(?3)`,
  )
    .bind(w.app.environments.live.id, w.clock.ms, JSON.stringify(lists))
    .run();

it("the version of a price is looked for in all later versions, however many there are, and is the first that has a price", async () => {
  const w = await metered({ rules: null });
  const occurredAt = later(w, 0);
  const of = (model: string) => [{ model, unit: "cents", perEvent: 2 }];
  const many = [...Array.from({ length: 1_200 }, (_, n) => of(n === 0 ? "first" : "other")), of("late"), of("late")];
  await storeVersions(w, many);
  w.clock.advance(1_000 * many.length);
  await w.set(of("newest"));
  const use = (id: string, model: string) =>
    w.inNewIsolate().spend(id, { event: "chat", model, meters: {}, occurredAt });
  expect((await use("e1", "late")).body).toMatchObject({ priceVersion: 1_201 });
  expect((await use("e2", "other")).body).toMatchObject({ priceVersion: 2 });
  expect((await use("e3", "newest")).body).toMatchObject({ priceVersion: 1_203 });
  expectError(await use("e4", "none"), "price_not_found");
});

it("the version of a price is looked for among the largest lists, of which one read takes a few", async () => {
  const w = await metered({ rules: null });
  const occurredAt = later(w, 0);
  const event = "e".repeat(190);
  const padding = Array.from({ length: 1_150 }, (_, n) => ({ model: `${n}`.padEnd(190, "m"), event, unit: "cents" }));
  const flat = { unit: "cents", perEvent: 0.01 };
  const lists = Array.from({ length: 10 }, (_, n) => [
    ...padding.map((rule) => ({ ...rule, ...flat })),
    { ...flat, model: `m${n + 1}` },
  ]);
  await storeVersions(w, lists);
  w.clock.advance(10_000);
  await w.set([{ unit: "count", perEvent: 1, event: "none" }]);
  const use = (id: string, model: string) =>
    w.inNewIsolate().spend(id, { event: "chat", model, meters: {}, occurredAt });
  expect((await use("e1", "m10")).body).toMatchObject({ priceVersion: 10, quantities: { cents: 0.01 } });
  expectError(await use("e2", "m11"), "price_not_found");
});

it("the version of a price of a list's events is that of each event's own time, even among more versions than one read has", async () => {
  const w = await metered({ rules: null });
  const startMs = w.clock.ms;
  for (let n = 1; n <= 14; n++) {
    await w.set([{ unit: "cents", perEvent: n / 1_000 }]);
    w.clock.advance(1_000);
  }
  const batch = Array.from({ length: 14 }, (_, n) => ({
    ...{
      eventId: `e${n}`,
      userId: n % 3 === 0 ? "other" : w.userId,
      event: "chat",
      meters: { any: 1 },
      onShortage: "partial",
    },
    occurredAt: new Date(startMs + n * 1_000).toISOString(),
  }));
  for (const spender of [w.spender, w.inNewIsolate()]) {
    const { body } = await spender.post("/api/v1/usage/events/batch", batch);
    expect(body.results.map(({ priceVersion }: { priceVersion: number }) => priceVersion)).toEqual(
      batch.map((_, n) => n + 1),
    );
  }
});

it("the version of a price is pinned by a hold: its commit, in time or late, and its charge are priced by it", async () => {
  const w = await metered();
  const hold = (id: string, body: object = {}) =>
    w.reserve({ reservationId: id, event: "chat", model: "gpt-5", meters: METERS, expiresInSeconds: 60, ...body });
  expect((await hold("res_1")).body).toMatchObject({ holds: [{ amount: 4 }] });
  await hold("res_2", { meters: undefined, quantities: { cents: 1 } });
  await hold("res_3", { onExpiry: "charge", meters: { output: 125_000 } });
  await hold("res_4", { meters: small });
  await w.set(dearer);
  expect((await w.get("/api/v1/usage/reservations/res_1")).body).toMatchObject({
    ...{ quantities: { cents: 4 }, meters: METERS, priceVersion: 1 },
  });
  expect((await w.get("/api/v1/usage/reservations/res_2")).body).toMatchObject({ meters: null, priceVersion: null });
  const commit = (at: Spender, id: string, eventId: string) =>
    changeReservation(at, id, "commit", { eventId, meters: small });
  const first = await commit(w, "res_1", "e1");
  expect(first.body).toMatchObject({ quantities: { cents: 0.2 }, priceVersion: 1 });
  expect((await commit(w.inNewIsolate(), "res_2", "e2")).body).toMatchObject({
    quantities: { cents: 0.2 },
    priceVersion: 1,
  });
  w.clock.advance(60_000);
  await runHoldsPart(w);
  expect(await w.event("res_3")).toMatchObject({
    ...{ quantities: { cents: 1 }, meters: { output: 125_000 }, priceVersion: 1, cost: 0.5 },
  });
  expect((await commit(w, "res_4", "e4")).body).toMatchObject({ quantities: { cents: 0.2 }, priceVersion: 1 });
  expect((await commit(w, "res_1", "e1")).body).toEqual(first.body);
  expect((await w.use("e5", { meters: small })).body).toMatchObject({ quantities: { cents: 2 }, priceVersion: 2 });
});

it("the version of a price that a hold pins and that has no price for the model that answered is repaired by a later one; until then the hold stands", async () => {
  const w = await metered();
  await w.reserve({ reservationId: "res_1", event: "chat", model: "gpt-5", meters: METERS });
  const commit = () => changeReservation(w, "res_1", "commit", { eventId: "e1", model: "new", meters: small });
  w.clock.advance(1_000);
  expectError(await commit(), "price_not_found", "meters");
  expect((await w.get("/api/v1/usage/reservations/res_1")).body.status).toBe("open");
  await w.set([...dearer, { model: "new", unit: "cents", perEvent: 3 }]);
  expect((await commit()).body).toMatchObject({ quantities: { cents: 3 }, priceVersion: 2 });
  expect(await w.remaining()).toEqual([7]);
});

it("the version of a price is stored once, whatever is lost and however many requests race with a new version", async () => {
  const faulty = faultyD1(env.DB);
  const w = await metered({ bindings: { DB: faulty.d1 } });
  for (const at of [1, 2]) {
    for (const fault of ["before", "after"] as const) {
      faulty.plan({ fault, at });
      const { body } = await w.use(`${fault}${at}`, { meters: small });
      expect(body).toMatchObject({ quantities: { cents: 0.2 }, priceVersion: 1 });
    }
  }
  const isolates = Array.from({ length: 4 }, () => w.inNewIsolate());
  const racing = await Promise.all([
    ...Array.from({ length: 24 }, (_, n) =>
      isolates[n % 4]?.spend(`r${n % 12}`, { event: "chat", model: "gpt-5", meters: small }),
    ),
    w.set(dearer).then(() => null),
  ]);
  const answers = racing.flatMap((answer) => (answer === null || answer === undefined ? [] : [answer.body]));
  for (const body of answers) {
    expect(body).toMatchObject(body.priceVersion === 1 ? { quantities: { cents: 0.2 } } : { quantities: { cents: 2 } });
    expect(await w.event(body.eventId)).toMatchObject({
      quantities: body.quantities,
      priceVersion: body.priceVersion,
    });
  }
});

it("previews with meters a plan tells the quantities, meters and version, and the debits of the event that follows", async () => {
  const w = await metered();
  const usage = { userId: w.userId, event: "chat", model: "gpt-5", meters: METERS };
  const plan = await w.post("/api/v1/credits/plan", usage);
  expect(plan.body).toMatchObject({
    quantities: { cents: 4 },
    meters: METERS,
    priceVersion: 1,
    debits: [{ amount: 4 }],
  });
  expectError(await w.post("/api/v1/credits/plan", { ...usage, model: "x" }), "price_not_found", "meters");
  expect((await w.use("e1")).body.debits).toEqual(plan.body.debits);
});

it("previews with meters a price needs no user, names its rules, and changes nothing", async () => {
  const w = await metered();
  const price = (body: object) => w.post("/api/v1/usage/price", { event: "chat", meters: METERS, ...body });
  expect((await price({ model: "gpt-5-mini" })).body).toEqual({
    ...{ quantities: { cents: 4 }, priceVersion: 1, rules: [{ unit: "cents", rule: 0 }] },
  });
  expectError(await price({ model: "claude" }), "price_not_found", "meters");
  expectError(await price({ meters: undefined }), "invalid_request", "meters");
  w.clock.advance(1_000);
  await w.set([{ unit: "cents", perEvent: 9 }]);
  expect((await price({ occurredAt: later(w, -1), model: "gpt-5" })).body).toMatchObject({ priceVersion: 1 });
  // The version of that time has no price, so the later one repairs it.
  expect((await price({ occurredAt: later(w, -1) })).body).toMatchObject({
    quantities: { cents: 9 },
    priceVersion: 2,
  });
  expect(await w.stored()).toBe(0);
});

it("takes meters in CloudEvents", async () => {
  const w = await metered();
  const event = { specversion: "1.0", id: "1", source: "/chat", type: "chat", subject: w.userId };
  const send = (data: object) =>
    w.post("/api/v1/usage/events", { ...event, data }, { "content-type": "application/cloudevents+json" });
  expect((await send({ model: "gpt-5", meters: METERS })).body).toMatchObject({
    quantities: { cents: 4 },
    priceVersion: 1,
  });
  expectError(await send({ meters: METERS, quantities: { cents: 1 } }), "invalid_request", "data.meters");
});
