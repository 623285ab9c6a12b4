import { env } from "cloudflare:workers";
import { afterAll, beforeAll, expect, it } from "vitest";
import { systemCtx } from "../../../../src/auth/system-ctx.ts";
import { sumDays } from "../../../../src/books/usage/sum-days.ts";
import { randomId } from "../../../../src/lib/ids.ts";
import { countingD1 } from "../../../support/counting-d1.ts";
import { runPart } from "../../../support/cron.ts";
import { expectLedgerInvariants } from "../../../support/invariants.ts";
import { bound, Clock, makeApp, type TestApp } from "../../../support/world.ts";

afterAll(expectLedgerInvariants);

// Earlier files may have left more events than one run takes.
beforeAll(async () => {
  for (let run = 0; run < 50 && (await numberOf("SELECT count(*) AS n FROM usage_to_sum")) !== 0; run++)
    await runOn(env.DB);
});

const EVENTS_A_PAGE = 1_000;
const AT_MS = Date.UTC(2026, 0, 10);

const runOn = (d1: D1Database, clock = new Clock(), allowed = Number.MAX_SAFE_INTEGER) => {
  const root = systemCtx(bound({ DB: d1 }), { isolate: {}, now: clock.now, newId: randomId });
  let left = allowed;
  const has = (queries: number) => {
    left -= queries;
    return left >= 0;
  };
  return runPart((ctx) => sumDays({ ...ctx, allowance: { ...ctx.allowance, has } }), root);
};

/** Inserts `users` users of the application with `events` events each, a millisecond apart. */
async function insertUsage({ environments }: TestApp, users: number, events: number): Promise<void> {
  await env.DB.prepare(
    `WITH RECURSIVE n (i) AS (SELECT 1 UNION ALL SELECT i + 1 FROM n WHERE i < ${users})
     INSERT INTO accounts (environment_id, user_id) SELECT ${environments.live.id}, 'u' || i FROM n`,
  ).run();
  await env.DB.prepare(
    `WITH RECURSIVE n (i) AS (SELECT 1 UNION ALL SELECT i + 1 FROM n WHERE i < ${events})
     INSERT INTO usage_events (account_id, seq, environment_id, event_id, event, count_minor, occurred_at_ms,
       received_after_ms, request_hash, debits)
     SELECT id, i, environment_id, user_id || ' ' || i, 'chat', 1000, ${AT_MS} + i, 1, '', '[]'
     FROM accounts, n WHERE environment_id = ${environments.live.id}`,
  ).run();
}

const numberOf = (sql: string) => env.DB.prepare(sql).first<number>("n");
const summed = ({ environments }: TestApp) =>
  numberOf(`SELECT coalesce(sum(events), 0) AS n FROM usage_days WHERE environment_id = ${environments.live.id}`);
const marks = ({ environments }: TestApp) =>
  numberOf(
    `SELECT count(*) AS n FROM usage_to_sum WHERE environment_id IN (${environments.live.id}, ${environments.test.id})`,
  );

it("a run of the cron sums all users and all events of a user, however many pages they take", async () => {
  const many = await makeApp();
  await insertUsage(many, 70, 20);
  const busy = await makeApp();
  await insertUsage(busy, 2, 2 * EVENTS_A_PAGE + 1);
  expect(await marks(many)).toBe(70);
  expect(await runOn(env.DB)).toEqual([]);
  expect([await marks(many), await summed(many)]).toEqual([0, 70 * 20]);
  expect([await marks(busy), await summed(busy)]).toEqual([0, 2 * (2 * EVENTS_A_PAGE + 1)]);
});

it("a run of the cron moves a mark to the first event that is not summed, so that the mark's time shows up to when the sums are complete", async () => {
  await runOn(env.DB);
  const busy = await makeApp();
  await insertUsage(busy, 1, EVENTS_A_PAGE + 5);
  let minute = 0;
  // A run of one page may start after this user.
  for (; (await summed(busy)) === 0; minute++) {
    const clock = new Clock();
    clock.advance(minute * 60_000);
    await runOn(env.DB, clock, 4);
  }
  expect(await summed(busy)).toBe(EVENTS_A_PAGE);
  const { id } = busy.environments.live;
  const mark = await env.DB.prepare("SELECT seq FROM usage_to_sum WHERE environment_id = ?").bind(id).first();
  expect(mark).toEqual({ seq: EVENTS_A_PAGE + 1 });
  await expectLedgerInvariants();
  await runOn(env.DB);
  expect(await summed(busy)).toBe(EVENTS_A_PAGE + 5);
});

it("a run of the cron reaches every user in later runs if each run has one page, even while the first user sends further events", async () => {
  await runOn(env.DB);
  const app = await makeApp();
  await insertUsage(app, 60, 50);
  const clock = new Clock();
  for (let minute = 0; (await marks(app)) !== 0; minute++) {
    expect(minute).toBeLessThan(1_000);
    clock.advance(60_000);
    await runOn(env.DB, clock, 4);
    // The first user sends further events.
    await env.DB.prepare(
      `INSERT INTO usage_events (account_id, seq, environment_id, event_id, event, count_minor, occurred_at_ms,
           received_after_ms, request_hash, debits)
         SELECT account_id, seq + 1, environment_id, 'more ' || seq, event, 0, occurred_at_ms, 1, '', '[]'
         FROM usage_events WHERE account_id = (SELECT min(id) FROM accounts WHERE environment_id = ?)
         ORDER BY seq DESC LIMIT 1`,
    )
      .bind(app.environments.live.id)
      .run();
    if ((await marks(app)) === 1) break;
  }
});

it.each([
  [1, 1],
  [1, 50],
  [50, 1],
  [100, 3],
])(
  "the cost of day sums for %d users with %d events takes two trips a page, and the rows of the table",
  async (users, events) => {
    await runOn(env.DB);
    const app = await makeApp();
    await insertUsage(app, users, events);
    const { d1, spent } = countingD1(env.DB);
    await runOn(d1);
    const cost = spent();
    expect(await marks(app)).toBe(0);
    // Two reads that begin and end the run, and up to three trips for the page.
    expect(cost.roundTrips).toBeLessThanOrEqual(2 + 3);
    expect(cost.rowsRead).toBeLessThanOrEqual(2 * users * events + 7 * users + 4);
    // The last row is the total of the one event and model on its day.
    expect(cost.rowsWritten).toBeLessThanOrEqual(users + 2 * users + 1);
  },
);
