import { env } from "cloudflare:workers";
import { afterAll, expect, it, vi } from "vitest";
import { documentOf } from "../../../support/exports.ts";
import { faultyD1 } from "../../../support/faulty-d1.ts";
import { expectLedgerInvariants } from "../../../support/invariants.ts";
import { EVENTS } from "../../../support/paths.ts";
import { expectError } from "../../../support/rejections.ts";
import { chatTokens, makeSpender, wallet } from "../../../support/spender.ts";

afterAll(expectLedgerInvariants);

it("an event is paid by several balances, each for a share in its own unit, with a ledger entry each", async () => {
  const { spend, balanceIds, ledger, remaining } = await makeSpender([chatTokens, wallet]);
  const answer = await spend("e1", { quantities: { tokens: 1_200, cents: 3.6 } });
  expect(answer.status).toBe(200);
  expect(answer.body).toEqual({
    eventId: "e1",
    debits: [
      { balanceId: balanceIds[0], packId: expect.stringMatching(/^cpk_/), unit: "tokens", amount: 400, remaining: 0 },
      {
        balanceId: balanceIds[1],
        packId: expect.stringMatching(/^cpk_/),
        unit: "cents",
        amount: 2.4,
        remaining: 7.6,
      },
    ],
    uncovered: null,
  });
  expect(await remaining()).toEqual([0, 7.6]);
  expect((await ledger()).slice(0, 2)).toMatchObject([
    { balanceId: balanceIds[1], delta: -2.4, reason: "event_committed", eventId: "e1", reservationId: null },
    { balanceId: balanceIds[0], delta: -400, reason: "event_committed", eventId: "e1", reservationId: null },
  ]);
});

it("an event has a count of 1 without quantities, and counts nothing with count 0", async () => {
  const { spend, remaining } = await makeSpender([{ amountMinor: 2_000, unit: "count" }]);
  expect((await spend("e1")).body.debits).toMatchObject([{ unit: "count", amount: 1, remaining: 1 }]);
  expect((await spend("e2", { quantities: { count: 0 } })).body).toEqual({
    eventId: "e2",
    debits: [],
    uncovered: null,
  });
  expect(await remaining()).toEqual([1]);
});

it("an event is rejected with 402 if credits are short, stores nothing, and may be tried again", async () => {
  const { spend, remaining, post, ledger } = await makeSpender([wallet]);
  const short = await spend("e1", { quantities: { cents: 10.000001 } });
  expectError(short, "insufficient_credits");
  expect(short.body.error.details).toMatchObject({ uncovered: { count: 0.001, cents: 0.000001 } });
  expect(await remaining()).toEqual([10]);
  expect(await ledger()).toHaveLength(1);
  expect((await spend("e1", { quantities: { cents: 10 } })).status).toBe(200);
  expect((await post(EVENTS, { eventId: "e9", userId: "nobody", event: "chat" })).status).toBe(402);
});

it("an event with `partial` is recorded if credits are short, debits what is left, and reports the uncovered part", async () => {
  const { spend, remaining } = await makeSpender([chatTokens]);
  const answer = await spend("e1", { quantities: { tokens: 1_000, cents: 5 }, onShortage: "partial" });
  expect(answer.body).toMatchObject({
    debits: [{ amount: 400, remaining: 0 }],
    uncovered: { count: 0.6, tokens: 600, cents: 3 },
  });
  const again = await spend("e1", { quantities: { tokens: 1_000, cents: 5 }, onShortage: "partial" });
  expect(again.body).toEqual(answer.body);
  expect(await remaining()).toEqual([0]);
});

it("an event returns the first response for a repeat, and rejects another body with its id", async () => {
  const { spend, remaining } = await makeSpender([wallet]);
  const body = { quantities: { cents: 1 }, properties: { b: [1, { y: 1, x: 2 }], a: null } };
  const first = await spend("e1", body);
  expect(first.headers.get("idempotent-replayed")).toBeNull();
  await spend("e2", { quantities: { cents: 1 } });
  const again = await spend("e1", { properties: { a: null, b: [1, { x: 2, y: 1 }] }, quantities: { cents: 1.0 } });
  expect(again.headers.get("idempotent-replayed")).toBe("true");
  expect(again.body).toEqual(first.body);
  expectError(await spend("e1", { quantities: { cents: 2 } }), "idempotency_conflict", "eventId");
  expectError(await spend("e1", { ...body, userId: "another" }), "idempotency_conflict", "eventId");
  expect(await remaining()).toEqual([8]);
});

it("the fields of an event are rejected by name when malformed", async () => {
  const { spend, post, userId } = await makeSpender([wallet]);
  const wrong: [string, object][] = [
    ["quantities.tokens", { quantities: { tokens: -1 } }],
    ["quantities.tokens", { quantities: { tokens: null } }],
    ["quantities.tokens", { quantities: { tokens: "5" } }],
    ["quantities.cents", { quantities: { cents: 8_589_934_593 } }],
    ["quantities.bytes", { quantities: { bytes: 1 } }],
    ["quantities", { quantities: [] }],
    ["quantities", { quantities: null }],
    ["event", { event: "" }],
    ["model", { model: "" }],
    ["occurredAt", { occurredAt: "yesterday" }],
    ["properties", { properties: [] }],
    ["onShortage", { onShortage: "ignore" }],
    ["quantity", { quantity: 1 }],
    ["userId", { userId: "a\u0000b" }],
  ];
  for (const [param, body] of wrong) expectError(await spend("e1", body), "invalid_request", param);
  expectError(await spend("", {}), "invalid_request", "eventId");
  for (const body of ["5", "null", '"text"', "{", ""]) {
    expectError(await post(EVENTS, body), "invalid_request", "body");
  }
  const deep = `{"a":${"[".repeat(20_000)}${"]".repeat(20_000)}}`;
  const raw = (properties: string) => `{"eventId":"e1","userId":"${userId}","event":"e","properties":${properties}}`;
  expectError(await post(EVENTS, raw(deep)), "invalid_request", "properties");
  expectError(await post(EVENTS, raw('{"a":1e999}')), "invalid_request", "properties");
  expectError(await post(EVENTS, raw(`{"a":[${"1e20,".repeat(100_000)}1]}`)), "invalid_request", "properties");
});

it("the fields of an event include large properties, which are stored in a separate table, and exported, repeated and compared like others", async () => {
  const { app, clock, spend, post, userId } = await makeSpender([{ amountMinor: 9_000, unit: "count" }]);
  /** Properties of `bytes` bytes. */
  const text = (bytes: number, last = "x") => ({ é: `${"x".repeat(bytes - 9 - last.length)}${last}` });
  const bodies = { small: text(1_024), over: text(1_025), huge: text(900_000), far: text(1_000_000) };
  for (const [id, properties] of Object.entries(bodies)) {
    expect((await spend(id, { properties })).status).toBe(200);
    expect((await spend(id, { properties })).headers.get("idempotent-replayed")).toBe("true");
    expectError(await spend(id, { properties: text(properties.é.length + 9, "y") }), "idempotency_conflict");
  }
  const list = ["listed", "also"].map((eventId) => ({
    eventId,
    userId,
    event: "e",
    properties: text(2_000, eventId),
  }));
  expect((await post(EVENTS, list)).body.results).toHaveLength(2);
  const { results } = await env.DB.prepare(
    `SELECT e.event_id AS id, e.properties IS NULL AS isApart, e.large_properties_bytes AS bytes,
         octet_length(l.properties) AS stored
       FROM usage_events AS e LEFT JOIN large_properties AS l USING (account_id, seq)
       WHERE e.account_id = (SELECT id FROM accounts WHERE user_id = ?) ORDER BY e.seq`,
  )
    .bind(userId)
    .all();
  expect(results.map(({ id, isApart, bytes, stored }) => [id, isApart, bytes, stored])).toEqual([
    ["small", 0, null, null],
    ["over", 1, 1_025, 1_025],
    ["huge", 1, 900_000, 900_000],
    ["far", 1, 1_000_000, 1_000_000],
    ["listed", 1, 2_000, 2_000],
    ["also", 1, 2_000, 2_000],
  ]);
  const { events } = await documentOf(app, userId, clock);
  expect(events.metering.map(({ eventId, properties }) => [eventId, properties])).toEqual([
    ...Object.entries(bodies),
    ...list.map(({ eventId, properties }) => [eventId, properties]),
  ]);
});

it("the fields of an event include unusual properties, which are stored and compared exactly as they were sent", async () => {
  const { post, userId } = await makeSpender([{ amountMinor: 1_000, unit: "count" }]);
  const properties = '{"__proto__":{"a":1},"constructor":null,"s":"\\u0000\\ud800","":[[],{}]}';
  const body = `{"eventId":"odd","userId":"${userId}","event":"e","properties":${properties}}`;
  expect((await post(EVENTS, body)).status).toBe(200);
  const row = await env.DB.prepare(
    "SELECT properties FROM usage_events WHERE account_id = (SELECT id FROM accounts WHERE user_id = ?)",
  )
    .bind(userId)
    .first();
  expect(row).toEqual({ properties });
  const other = body.replace('{"a":1}', '{"a":2}');
  expectError(await post(EVENTS, other), "idempotency_conflict");
  expect((await post(EVENTS, body)).headers.get("idempotent-replayed")).toBe("true");
});

it("a list says when to retry events for which the database was too busy, and writes one log line", async () => {
  const log = vi.spyOn(console, "warn").mockImplementation(() => {});
  const faulty = faultyD1(env.DB);
  const { post, remaining } = await makeSpender([wallet], { DB: faulty.d1 });
  const event = (eventId: string) => ({ eventId, userId: `user-of-${eventId}`, event: "e", onShortage: "partial" });
  faulty.plan({ fault: "overloaded", at: 2, persists: true });
  const list = [event("a"), event("b"), { ...event("c"), userId: "" }];
  const { status, headers, body } = await post(EVENTS, list);
  expect([status, headers.get("retry-after")]).toEqual([200, "1"]);
  const codes = body.results.map((result: { error?: { code: string } }) => result.error?.code);
  expect(codes.filter((code: string | undefined) => code === "temporarily_unavailable").length).toBeGreaterThan(0);
  const { requestId } = body.results.find((result: { error?: object }) => result.error !== undefined).error;
  const line = { level: "warn", code: "temporarily_unavailable", fault: "database_overloaded", requestId };
  expect(log.mock.calls).toEqual([[JSON.stringify(line)]]);
  faulty.plan(null);
  const again = await post(EVENTS, list);
  expect([again.status, again.headers.get("retry-after")]).toEqual([200, null]);
  expect(again.body.results.slice(0, 2)).toMatchObject([{ debits: [] }, { debits: [] }]);
  expect(await remaining()).toEqual([10]);
  log.mockRestore();
});

it("a list is answered in order, each event separately, and a malformed one fails alone", async () => {
  const { post, userId, remaining } = await makeSpender([wallet]);
  const event = { userId, event: "chat.completed" };
  const { status, body } = await post(EVENTS, [
    { ...event, eventId: "a", quantities: { cents: 6 } },
    { ...event, eventId: "b", quantities: { cents: 6 } },
    { ...event, eventId: "c", quantities: { cents: -1 } },
    "text",
    { ...event, eventId: 5 },
    { ...event, eventId: "d", quantities: { cents: 4 } },
    { ...event, eventId: "a", quantities: { cents: 6 } },
    { ...event, eventId: "a", quantities: { cents: 7 } },
    { ...event, eventId: "a", userId: "another" },
  ]);
  expect(status).toBe(200);
  const requestId = expect.stringMatching(/^req_/);
  const error = (eventId: string | null, code: string, more: object = {}) => ({
    eventId,
    error: { code, message: expect.any(String), requestId, ...more },
  });
  expect(body.results).toEqual([
    expect.objectContaining({ eventId: "a", uncovered: null }),
    error("b", "insufficient_credits", {
      details: {
        uncovered: { count: 0.334, cents: 2 },
        skipped: [expect.objectContaining({ balanceId: expect.any(String), reason: "exhausted" })],
        ...{ quantities: { count: 1, cents: 6 }, meters: null, priceVersion: null },
      },
    }),
    error("c", "invalid_request", { param: "quantities.cents" }),
    error(null, "invalid_request", { param: "body" }),
    error(null, "invalid_request", { param: "eventId" }),
    expect.objectContaining({ eventId: "d", uncovered: null }),
    { ...body.results[0], isReplayed: true },
    error("a", "idempotency_conflict", { param: "eventId", details: { differs: ["quantities"] } }),
    error("a", "idempotency_conflict", { param: "eventId", details: { differs: ["userId", "quantities"] } }),
  ]);
  expect(await remaining()).toEqual([0]);
});

it("a list accepts up to 100 events, including none", async () => {
  const { post, userId, remaining } = await makeSpender([{ amountMinor: 100_000, unit: "count" }]);
  const list = Array.from({ length: 100 }, (_, index) => ({ eventId: `e${index}`, userId, event: "tick" }));
  expectError(await post(EVENTS, [...list, list[0]]), "invalid_request", "body");
  expect(await remaining()).toEqual([100]);
  const { body } = await post(EVENTS, list);
  expect(body.results.map((result: { eventId: string }) => result.eventId)).toEqual(list.map((event) => event.eventId));
  expect(body.results.map((result: { debits: { remaining: number }[] }) => result.debits[0]?.remaining)).toEqual(
    list.map((_, index) => 99 - index),
  );
  expect((await post(EVENTS, [])).body).toEqual({ results: [] });
});

it("rejects an eventId that begins with `res_`, which charges of reservations have, and records nothing", async () => {
  const { spend, remaining } = await makeSpender([wallet]);
  expectError(await spend("res_1", { quantities: { cents: 1 } }), "invalid_request", "eventId");
  expect(await remaining()).toEqual([10]);
});

it("takes a model and properties of null for absent, also when compared with a repeat", async () => {
  const { spend, remaining } = await makeSpender([wallet]);
  const quantities = { cents: 1 };
  await spend("e1", { quantities, model: null, properties: null });
  expect((await spend("e1", { quantities })).headers.get("idempotent-replayed")).toBe("true");
  expect(await remaining()).toEqual([9]);
});

const single = { "content-type": "application/cloudevents+json; charset=UTF-8" };
const batch = { "content-type": "application/cloudevents-batch+json" };
const attributes = { specversion: "1.0", id: "e1", source: "/meters", type: "chat.completed" };

it("a CloudEvent is recorded as the event that it describes, and extension attributes are ignored", async () => {
  const { post, spend, userId, remaining, get } = await makeSpender([wallet]);
  const event = {
    ...attributes,
    subject: userId,
    time: "2026-01-10T09:00:00+01:00",
    datacontenttype: "application/json",
    traceparent: "00-0af7",
    data: { model: "large-2", quantities: { cents: 2 }, properties: { a: 1 } },
  };
  const first = await post(EVENTS, event, single);
  expect(first.body).toMatchObject({ eventId: "/meters#e1", debits: [{ amount: 2, remaining: 8 }] });
  const fields = { model: "large-2", quantities: { cents: 2 }, properties: { a: 1 } };
  const again = await spend("/meters#e1", { ...fields, occurredAt: "2026-01-10T08:00:00Z" });
  expect(again.headers.get("idempotent-replayed")).toBe("true");
  expect(await remaining()).toEqual([8]);
  const to = "2026-01-10T08:00:00.001Z";
  expect((await get(`/api/v1/usage?userId=${userId}&from=2026-01-10T08:00:00Z&to=${to}`)).body.totals).toHaveLength(2);
  const bare = await post(EVENTS, { ...attributes, id: "e2", subject: userId }, single);
  expectError(bare, "insufficient_credits");
});

it("a CloudEvent is recorded once for each pair of source and id, also where they contain `#` and `%`", async () => {
  const { post, userId, remaining } = await makeSpender([wallet]);
  const pairs = [
    ["a", "b#c"],
    ["a#b", "c"],
    ["a%23b", "c"],
    ["%".repeat(66), "1"],
  ] as const;
  const eventIds = ["a#b#c", "a%23b#c", "a%2523b#c", `${"%25".repeat(66)}#1`];
  for (const [index, [source, id]] of pairs.entries()) {
    const event = { ...attributes, source, id, subject: userId, data: { quantities: { cents: 1 } } };
    for (const replayed of [null, "true"]) {
      const answer = await post(EVENTS, event, single);
      expect(answer.body.eventId).toBe(eventIds[index]);
      expect(answer.headers.get("idempotent-replayed")).toBe(replayed);
    }
  }
  expect(await remaining()).toEqual([6]);
});

it("a CloudEvent may have attributes of null, which count as absent", async () => {
  const { post, userId, remaining } = await makeSpender([wallet]);
  const data = { quantities: { cents: 1 } };
  const nulls = { time: null, data_base64: null, dataschema: null };
  expect((await post(EVENTS, { ...attributes, ...nulls, subject: userId, data }, single)).status).toBe(200);
  expect(await remaining()).toEqual([9]);
});

it("a CloudEvent in a batch is answered as in a list", async () => {
  const { post, userId } = await makeSpender([wallet]);
  const data = { quantities: { cents: 1 } };
  const { body } = await post(
    EVENTS,
    [{ ...attributes, subject: userId, data }, { ...attributes, id: "e2", data }, 5],
    batch,
  );
  expect(body.results).toMatchObject([
    { eventId: "/meters#e1", debits: [{ amount: 1 }] },
    { eventId: "/meters#e2", error: { code: "invalid_request", param: "subject" } },
    { eventId: null, error: { code: "invalid_request" } },
  ]);
});

it("a CloudEvent that is malformed is rejected with the attribute's own name", async () => {
  const { post, userId } = await makeSpender([wallet]);
  const wrong: [string, object][] = [
    ["specversion", { specversion: "0.3" }],
    ["id", { id: "" }],
    ["source", { source: undefined }],
    ["source", { source: "res_1" }],
    ["id", { source: "%".repeat(66), id: "12" }],
    ["type", { type: 5 }],
    ["subject", { subject: undefined }],
    ["time", { time: "noon" }],
    ["data", { data: "text" }],
    ["data.quantities.tokens", { data: { quantities: { tokens: -1 } } }],
    ["data.quantity", { data: { quantity: 1 } }],
    ["data_base64", { data_base64: "e30=" }],
  ];
  for (const [param, change] of wrong) {
    const answer = await post(EVENTS, { ...attributes, subject: userId, ...change }, single);
    expectError(answer, "invalid_request", param);
  }
  expectError(await post(EVENTS, [], single), "invalid_request", "body");
  expectError(await post(EVENTS, { ...attributes, subject: userId }, batch), "invalid_request", "body");
});

it("in races and after lost responses, 40 identical events are one debit and get 40 equal answers", async () => {
  const { spend, remaining } = await makeSpender([wallet]);
  const answers = await Promise.all(Array.from({ length: 40 }, () => spend("e1", { quantities: { cents: 1 } })));
  for (const answer of answers) expect(answer.body).toEqual(answers[0]?.body);
  expect(answers.filter(({ headers }) => headers.get("idempotent-replayed") === null)).toHaveLength(1);
  expect(await remaining()).toEqual([9]);
});

it("in races and after lost responses, exactly ten of twenty events on ten balances of one credit are accepted", async () => {
  const items = Array.from({ length: 10 }, () => ({ amountMinor: 1_000, unit: "count" }) as const);
  const { spend, remaining } = await makeSpender(items);
  const answers = await Promise.all(Array.from({ length: 20 }, (_, index) => spend(`e${index}`)));
  expect(answers.filter(({ status }) => status === 200)).toHaveLength(10);
  expect(answers.filter(({ status }) => status === 402)).toHaveLength(10);
  expect(await remaining()).toEqual(items.map(() => 0));
});

it("in races and after lost responses, an event whose response was lost is answered as new, not as a replay", async () => {
  const faulty = faultyD1(env.DB);
  const { spend, reserve, remaining } = await makeSpender([wallet], { DB: faulty.d1 });
  await spend("e0", { quantities: { cents: 1 } });
  faulty.plan({ fault: "after", at: 2 });
  const answer = await spend("e1", { quantities: { cents: 1 } });
  expect(answer.body).toMatchObject({ debits: [{ amount: 1, remaining: 8 }] });
  expect(answer.headers.get("idempotent-replayed")).toBeNull();
  faulty.plan({ fault: "after", at: 2 });
  const reservation = await reserve({ reservationId: "res_1", quantities: { cents: 1 } });
  expect(reservation.body).toMatchObject({ holds: [{ amount: 1, remaining: 7 }] });
  expect(reservation.headers.get("idempotent-replayed")).toBeNull();
  faulty.plan(null);
  expect(await remaining()).toEqual([7]);
});
