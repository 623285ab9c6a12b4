import { env } from "cloudflare:workers";
import { expect, it } from "vitest";
import { globMatches } from "../../../../src/books/amounts/match.ts";
import { HOUR_MS, iso } from "../../../../src/lib/time.ts";
import { countingD1 } from "../../../support/counting-d1.ts";
import { END_USER_SETTING } from "../../../support/end-user-setting.ts";
import { userToken } from "../../../support/keyed-routes.ts";
import { USAGE } from "../../../support/paths.ts";
import { createRandom } from "../../../support/random.ts";
import { expectError } from "../../../support/rejections.ts";
import { isSoak } from "../../../support/soak.ts";
import { Clock, makeApp, makeClient, makePack } from "../../../support/world.ts";

interface Sent {
  readonly eventId: string;
  readonly event: string;
  readonly model: string | null;
  readonly atMs: number;
  readonly tokens: number;
}

async function makeWorld(tokens = 5_000) {
  const app = await makeApp(END_USER_SETTING);
  const clock = new Clock();
  const counting = countingD1(env.DB);
  const call = makeClient(clock, { DB: counting.d1 });
  const key = app.keys.sk_live;
  const packId = await makePack(app.appId, "Tokens", [{ amountMinor: 1_000 * tokens, unit: "tokens" }]);
  await call("POST", "/api/v1/credits/grant", { key, body: { userId: "u", packId } });
  const sent: Sent[] = [];
  const record = async (events: readonly Sent[], more: object = {}) => {
    const body = events.map(({ eventId, event, model, atMs, tokens }) => ({
      ...{ userId: "u", eventId, event, occurredAt: iso(atMs), onShortage: "partial", quantities: { tokens } },
      ...(model === null ? {} : { model }),
      ...more,
    }));
    const answer = await call("POST", `${USAGE}/events/batch`, { key, body });
    expect(answer.body.results.filter((result: { error?: unknown }) => result.error !== undefined)).toEqual([]);
    sent.push(...events);
  };
  const get = (query: string, headers: Record<string, string> = {}, by = key) =>
    call("GET", `${USAGE}${query}`, { key: by, headers });
  const token = async (userId = "u") => ({ "x-user-token": await userToken(userId, clock) });
  return { app, clock, counting, record, sent, get, token };
}
type World = Awaited<ReturnType<typeof makeWorld>>;

const random = createRandom(29);
function someEvents({ clock, sent }: World, count: number): Sent[] {
  return Array.from({ length: count }, (_, n) => ({
    eventId: `e${sent.length + n}`,
    event: random.pick(["chat.done", "chat.failed", "image"]),
    model: random.pick([null, "small", "large-1", "large-2"]),
    // Several events have the same time.
    atMs: clock.ms - random.integer(0, 39) * HOUR_MS,
    tokens: random.pick([0, 0.1, 0.2, 1, 250.25]),
  }));
}

/** The events' ids in the list's order: the newest first, and of equal times the later arrival first. */
const inOrder = (sent: readonly Sent[]): string[] =>
  sent
    .map((event, index) => ({ ...event, index }))
    .sort((a, b) => b.atMs - a.atMs || b.index - a.index)
    .map(({ eventId }) => eventId);

async function walk({ get }: World, query: string, between: () => Promise<unknown> = async () => null) {
  const ids: string[] = [];
  for (let cursor = ""; ; ) {
    const { status, body } = await get(`/events?userId=u${query}${cursor}`);
    expect(status).toBe(200);
    ids.push(...body.events.map(({ eventId }: Sent) => eventId));
    if (body.nextCursor === null) return ids;
    cursor = `&cursor=${body.nextCursor}`;
    await between();
  }
}

it("a list of usage events has every event once and in order, page by page, with and without filters and spans", async () => {
  const w = await makeWorld();
  for (let n = 0; n < 3; n++) await w.record(someEvents(w, 60));
  const fromMs = w.clock.ms - 20 * HOUR_MS;
  const toMs = w.clock.ms - 3 * HOUR_MS;
  const passing = (test: (event: Sent) => boolean) => inOrder(w.sent.filter(test));
  expect(await walk(w, "&limit=7")).toEqual(passing(() => true));
  expect(await walk(w, "&limit=500&event=chat.*")).toEqual(passing(({ event }) => globMatches("chat.*", event)));
  expect(await walk(w, "&limit=3&event=image&model=large-*")).toEqual(
    passing(({ event, model }) => event === "image" && model?.startsWith("large-") === true),
  );
  expect(await walk(w, "&model=*")).toEqual(passing(({ model }) => model !== null));
  expect(await walk(w, `&limit=9&from=${iso(fromMs)}&to=${iso(toMs)}`)).toEqual(
    passing(({ atMs }) => atMs >= fromMs && atMs < toMs),
  );
});

it("a list of usage events shows each existing event once while others arrive", async () => {
  const w = await makeWorld();
  await w.record(someEvents(w, 50));
  const before = inOrder(w.sent);
  const seen = await walk(w, "&limit=6", () => w.record(someEvents(w, 3)));
  expect(seen.filter((id) => before.includes(id))).toEqual(before);
  expect(new Set(seen).size).toBe(seen.length);
});

it("a list of usage events shows an event's quantities, debits, settled reservation, and properties of any size", async () => {
  const w = await makeWorld();
  const atMs = w.clock.ms;
  const large = { text: "x".repeat(3_000) };
  await w.record([{ eventId: "a", event: "chat", model: null, atMs, tokens: 0.3 }], { properties: large });
  await w.record([{ eventId: "b", event: "chat", model: "m", atMs, tokens: 6_000 }], { properties: { b: 1 } });
  const { events } = (await w.get("/events?userId=u")).body;
  const unpriced = { memberId: null, meters: null, priceVersion: null, cost: null };
  const common = { event: "chat", ...unpriced, occurredAt: iso(atMs), receivedAt: iso(atMs), reservationId: null };
  const leg = { balanceId: expect.stringMatching(/^crb_/), packId: expect.stringMatching(/^cpk_/), unit: "tokens" };
  const second = {
    ...common,
    ...{ eventId: "b", model: "m", quantities: { count: 1, tokens: 6_000 }, properties: { b: 1 } },
    ...{ debits: [{ ...leg, amount: 4_999.7 }], uncovered: expect.anything() },
  };
  expect(events).toEqual([
    second,
    {
      ...common,
      ...{ eventId: "a", model: null, quantities: { count: 1, tokens: 0.3 }, properties: large },
      ...{ debits: [{ ...leg, amount: 0.3 }], uncovered: null },
    },
  ]);
  expect((await w.get("/events?eventId=b")).body).toEqual({ ...second, userId: "u" });
  expectError(await w.get("/events?eventId=none"), "not_found", "eventId");
});

it("a list of usage events by a publishable key shows only the user's own events, without properties", async () => {
  const w = await makeWorld();
  await w.record([{ eventId: "a", event: "chat", model: null, atMs: w.clock.ms, tokens: 1 }], {
    properties: { a: 1 },
  });
  const pk = w.app.keys.pk_live;
  const { status, body } = await w.get("/events?userId=u", await w.token(), pk);
  expect([status, body.events.length]).toEqual([200, 1]);
  for (const hidden of ["properties", "cost"]) expect(body.events[0]).not.toHaveProperty(hidden);
  expectError(await w.get("/events?userId=u", await w.token("other"), pk), "forbidden", "userId");
  expectError(await w.get("/events?userId=u", {}, pk), "invalid_user_token");
  expectError(await w.get("/events?eventId=a", await w.token(), pk), "requires_secret_key");
  expect((await w.get("?userId=u", await w.token(), pk)).body.totals).toHaveLength(2);
});

it.each([
  ["/events", "userId"],
  ["/events?userId=u&eventId=a", "eventId"],
  ["/events?userId=u&cursor=made-up", "cursor"],
  ["/events?userId=u&limit=501", "limit"],
  ["/events?userId=u&from=2026-01-02T00:00Z&to=2026-01-01T00:00Z", "to"],
  ["?userId=u&groupBy=day", "from"],
  ["?userId=u&from=2026-01-02T00:00Z&to=2026-01-01T00:00Z&groupBy=day", "to"],
  ["?userId=u&from=2026-01-01T00:00Z&groupBy=", "groupBy"],
  ["?userId=u&from=2026-01-01T00:00Z&groupBy=week", "groupBy"],
  ["?userId=u&from=2026-01-01T00:00Z&groupBy=day,hour", "groupBy"],
  ["?userId=u&from=2026-01-01T00:00Z&groupBy=event,event", "groupBy"],
])("a list of usage events refuses %s", async (query, param) => {
  const w = await makeWorld();
  const { status, body } = await w.get(query);
  expect([status, body.error.code, body.error.param.split("[")[0].split(".")[0]]).toEqual([
    400,
    "invalid_request",
    param,
  ]);
});

it("a list of usage events rejects an altered cursor, and a cursor of another user", async () => {
  const w = await makeWorld();
  await w.record(someEvents(w, 3));
  const { nextCursor } = (await w.get("/events?userId=u&limit=1")).body;
  expectError(await w.get(`/events?userId=v&cursor=${nextCursor}`), "invalid_request", "cursor");
  expectError(await w.get(`/events?userId=u&cursor=A${nextCursor}`), "invalid_request", "cursor");
  expect((await w.get(`/events?userId=u&event=none&cursor=${nextCursor}`)).body.events).toEqual([]);
});

it("a list of usage events reads at most 2n + 5 rows in one trip, and with a filter at most 4,000 a page", async () => {
  const w = await makeWorld();
  await env.DB.prepare(
    `INSERT INTO usage_events (account_id, seq, environment_id, event_id, event, count_minor, occurred_at_ms,
         received_after_ms, request_hash, debits)
       WITH RECURSIVE n (i) AS (SELECT 1 UNION ALL SELECT i + 1 FROM n WHERE i < 6000)
       SELECT (SELECT id FROM accounts WHERE environment_id = ?1), i, CAST(?1 AS INTEGER), 'e' || i, 'event ' || (i % 5000), 1000, 1,
         1, '', '[]' FROM n`,
  )
    .bind(w.app.environments.live.id)
    .run();
  for (const limit of [1, 50, 500]) {
    w.counting.spent();
    await w.get(`/events?userId=u&limit=${limit}`);
    const { roundTrips, rowsRead } = w.counting.spent();
    expect(roundTrips).toBe(1);
    // The page reads one more event, and the key's rows.
    expect(rowsRead).toBeLessThanOrEqual(2 * (limit + 1) + 6);
  }
  for (const filter of ["event=none", "event=*none", "event=event 7&model=x*"]) {
    const page = await w.get(`/events?userId=u&${encodeURI(filter)}`);
    expect([page.body.events, page.body.nextCursor === null]).toEqual([[], false]);
    const { roundTrips, rowsRead } = w.counting.spent();
    expect(roundTrips).toBe(1);
    expect(rowsRead).toBeLessThanOrEqual(4_000);
  }
  expect(await walk(w, "&event=*event 7")).toEqual(["e5007", "e7"]);
  w.counting.spent();
  await w.get("?userId=u&from=1970-01-01T00:00Z&groupBy=day,model");
  expect(w.counting.spent().rowsRead).toBeLessThanOrEqual(3 * 6_000 + 8);
});

it("totals by group are the exact sums of sent and debited amounts", async () => {
  const w = await makeWorld(1_000_000);
  for (let n = 0; n < 3; n++) await w.record(someEvents(w, 70));
  const fromMs = w.clock.ms - 30 * HOUR_MS;
  const keyOf = {
    event: ({ event }: Sent) => ({ event }),
    model: ({ model }: Sent) => ({ model }),
    hour: ({ atMs }: Sent) => ({ time: `${iso(atMs).slice(0, 13)}:00:00.000Z` }),
    day: ({ atMs }: Sent) => ({ time: `${iso(atMs).slice(0, 10)}T00:00:00.000Z` }),
    month: ({ atMs }: Sent) => ({ time: `${iso(atMs).slice(0, 7)}-01T00:00:00.000Z` }),
  };
  for (const [by, filter] of [
    [["day", "model"], undefined],
    [["hour"], "chat.*"],
    [["month", "event", "model"], undefined],
    [["event"], "image"],
    [["model", "event"], "*"],
  ] as [(keyof typeof keyOf)[], string | undefined][]) {
    const expected = new Map<string, { events: number; tokens: number }>();
    for (const event of w.sent) {
      if (event.atMs < fromMs || (filter !== undefined && !globMatches(filter, event.event))) continue;
      const key = Object.assign({}, ...by.map((group) => keyOf[group](event)));
      const text = JSON.stringify({ time: key.time, event: key.event, model: key.model });
      const { events, tokens } = expected.get(text) ?? { events: 0, tokens: 0 };
      expected.set(text, { events: events + 1, tokens: tokens + Math.round(event.tokens * 1_000) });
    }
    const query = `?userId=u&from=${iso(fromMs)}&groupBy=${by.join()}${filter === undefined ? "" : `&event=${filter}`}`;
    const { totals } = (await w.get(query)).body;
    type Total = Record<string, string> & { events: number; quantities: Record<string, number>; debited: unknown };
    const sums = new Map(
      totals.map(({ events, quantities, time, event, model }: Total) => [
        JSON.stringify({ time, event, model }),
        { events, tokens: Math.round((quantities.tokens ?? 0) * 1_000) },
      ]),
    );
    expect(sums).toEqual(expected);
    for (const { events, quantities, debited } of totals as Total[]) {
      expect(quantities.count).toBe(events);
      expect(debited).toEqual(quantities.tokens === undefined ? {} : { tokens: quantities.tokens });
    }
    const order = totals.map(({ time = "", event = "", model }: Total) => [time, event, model ?? ""].join(" "));
    expect(order).toEqual(order.toSorted());
  }
});

/** A user with this number of events, one at each millisecond since 1970. */
async function makeBusyWorld(count: number) {
  const w = await makeWorld();
  await env.DB.prepare(
    `INSERT INTO usage_events (account_id, seq, environment_id, event_id, event, count_minor, occurred_at_ms,
         received_after_ms, request_hash, debits)
       WITH RECURSIVE n (i) AS (SELECT 1 UNION ALL SELECT i + 1 FROM n WHERE i < CAST(?2 AS INTEGER))
       SELECT (SELECT id FROM accounts WHERE environment_id = ?1), i, CAST(?1 AS INTEGER), 'e' || i, 'chat', 1000, i, 1, '', '[]' FROM n`,
  )
    .bind(w.app.environments.live.id, count)
    .run();
  return w;
}
const since = (ms: number) => `?userId=u&from=${iso(ms)}&groupBy=day`;
const totalsOf = (count: number) => [
  { time: "1970-01-01T00:00:00.000Z", events: count, quantities: { count }, debited: {}, meters: {} },
];

it("totals by group are rejected above 5,000 events with a publishable key", async () => {
  const w = await makeBusyWorld(5_001);
  expectError(await w.get(since(0), await w.token(), w.app.keys.pk_live), "invalid_request", "from");
  expect((await w.get(since(0))).body.totals).toEqual(totalsOf(5_001));
  expect((await w.get(since(2), await w.token(), w.app.keys.pk_live)).body.totals).toEqual(totalsOf(5_000));
});

it.runIf(isSoak)(
  "totals by group are rejected above 200,000 events with a secret key",
  { timeout: 600_000 },
  async () => {
    const w = await makeBusyWorld(200_001);
    expectError(await w.get(since(0)), "invalid_request", "from");
    expect((await w.get(since(2))).body.totals).toEqual(totalsOf(200_000));
  },
);
