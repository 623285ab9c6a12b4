import { env } from "cloudflare:workers";
import { expect, it } from "vitest";
import { DAY_MS, HOUR_MS, iso } from "../../../../src/lib/time.ts";
import { countingD1 } from "../../../support/counting-d1.ts";
import { USAGE } from "../../../support/paths.ts";
import { expectError } from "../../../support/rejections.ts";
import { Clock, makeApp, makeClient } from "../../../support/world.ts";

const EVENT_COUNT = 300;

/** A user with 300 events, one an hour until an hour ago. */
async function makeWorld() {
  const app = await makeApp();
  const clock = new Clock();
  const counting = countingD1(env.DB);
  const call = makeClient(clock, { DB: counting.d1 });
  const record = (eventId: string, occurredAtMs?: number) =>
    call("POST", `${USAGE}/events`, {
      key: app.keys.sk_live,
      body: {
        userId: "u",
        eventId,
        event: "chat",
        onShortage: "partial",
        ...(occurredAtMs === undefined ? {} : { occurredAt: iso(occurredAtMs) }),
      },
    });
  for (let from = EVENT_COUNT; from > 0; from -= 100) {
    const events = Array.from({ length: 100 }, (_, n) => ({
      userId: "u",
      eventId: `before ${from - n}`,
      event: "chat",
      onShortage: "partial",
      occurredAt: iso(clock.ms - (from - n) * HOUR_MS),
    }));
    const { body } = await call("POST", `${USAGE}/events`, { key: app.keys.sk_live, body: events });
    expect(body.results.every((result: { error?: unknown }) => result.error === undefined)).toBe(true);
  }
  /** The count since `fromMs`, and the rows that were read for it. */
  const since = async (fromMs: number) => {
    counting.spent();
    const { body } = await call("GET", `${USAGE}?userId=u&from=${iso(fromMs)}`, { key: app.keys.sk_live });
    return { count: body.totals[0]?.amount ?? 0, rowsRead: counting.spent().rowsRead };
  };
  return { clock, record, since };
}

it("totals of more than 10,000 different event names are rejected, but not the total of one name", async () => {
  const app = await makeApp();
  const call = makeClient(new Clock());
  const { id } = app.environments.live;
  const record = (from: number, to: number) =>
    env.DB.prepare(
      `INSERT INTO usage_events (account_id, seq, environment_id, event_id, event, count_minor, occurred_at_ms,
         received_after_ms, request_hash, debits)
       WITH RECURSIVE n (i) AS (SELECT CAST(?2 AS INTEGER) UNION ALL SELECT i + 1 FROM n WHERE i < ?3)
       SELECT (SELECT id FROM accounts WHERE environment_id = ?1), i, CAST(?1 AS INTEGER), 'e' || i, 'event ' || i, 1000, 1, 1, '',
         '[]' FROM n`,
    )
      .bind(id, from, to)
      .run();
  await env.DB.prepare("INSERT INTO accounts (environment_id, user_id) VALUES (CAST(? AS INTEGER), 'u')")
    .bind(id)
    .run();
  await record(1, 10_000);
  const totals = (query: string) => call("GET", `${USAGE}?userId=u${query}`, { key: app.keys.sk_live });
  expect((await totals("")).body.totals).toHaveLength(10_000);
  await record(10_001, 10_001);
  expectError(await totals(""), "invalid_request", "event");
  expectError(await totals("&event=*"), "invalid_request", "event");
  expect((await totals("&event=event%2010001")).body.totals).toEqual([
    { event: "event 10001", unit: "count", amount: 1 },
  ]);
  expect((await totals("&from=1970-01-01T00:00:01Z")).body.totals).toEqual([]);
});

it("totals of the last hours read only the events of these hours", async () => {
  const { clock, since } = await makeWorld();
  const { count, rowsRead } = await since(clock.ms - 5 * HOUR_MS);
  expect(count).toBe(5);
  expect(rowsRead).toBeLessThanOrEqual(2 * 5 + 8);
});

it("an event dated 9999 is rejected, so that it does not make totals read all of a user's events", async () => {
  const { clock, record, since } = await makeWorld();
  expectError(await record("far", Date.UTC(9999, 0, 1)), "invalid_request", "occurredAt");
  for (let n = 0; n < 3; n++) expect((await record(`now ${n}`)).status).toBe(200);
  clock.advance(HOUR_MS);
  expect((await record("later")).status).toBe(200);
  const { count, rowsRead } = await since(clock.ms);
  expect(count).toBe(1);
  expect(rowsRead).toBeLessThanOrEqual(2 + 8);
});

it("an event dated a day ahead makes totals read at most one more day of arrivals", async () => {
  const { clock, record, since } = await makeWorld();
  expect((await record("ahead", clock.ms + DAY_MS)).status).toBe(200);
  for (let n = 0; n < 10; n++) expect((await record(`at once ${n}`)).status).toBe(200);
  clock.advance(HOUR_MS);
  expect((await record("an hour later")).status).toBe(200);
  const soon = await since(clock.ms);
  expect(soon.count).toBe(2);
  expect(soon.rowsRead).toBeLessThanOrEqual(2 * 12 + 8);
  clock.advance(DAY_MS);
  expect((await record("a day later")).status).toBe(200);
  const later = await since(clock.ms);
  expect(later.count).toBe(1);
  expect(later.rowsRead).toBeLessThanOrEqual(2 + 8);
});
