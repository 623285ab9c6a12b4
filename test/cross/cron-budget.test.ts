import { env } from "cloudflare:workers";
import { sql } from "drizzle-orm";
import { afterAll, beforeEach, expect, it, vi } from "vitest";
import { erasePersonInput } from "../../src/api/people/erase-person.ts";
import { reserveInput } from "../../src/api/reservations/create-reservation.ts";
import { grantPack } from "../../src/books/credits/grant.ts";
import { createReservation } from "../../src/books/usage/reserve.ts";
import { cronParts, scheduled } from "../../src/cron.ts";
import { figuresPart } from "../../src/dashboard/figures/business.ts";
import { computed, query, read } from "../../src/db/query.ts";
import { batch } from "../../src/db/sql.ts";
import { erasePerson } from "../../src/erasure/start-erasure.ts";
import { randomId } from "../../src/lib/ids.ts";
import { DAY_MS, MINUTE_MS } from "../../src/lib/time.ts";
import type { CronPart } from "../../src/runtime.ts";
import { messageIdAt } from "../../src/webhooks/outbox.ts";
import { expectLedgerInvariants } from "../support/invariants.ts";
import { receiverWorld } from "../support/webhooks.ts";
import { withoutTrigger } from "../support/without-trigger.ts";
import { bound, Clock, makeCtx, makeOpenAmountPack } from "../support/world.ts";
import { type Travel, wrappedD1 } from "../support/wrapped-d1.ts";

// Rules D2, H4 and U8: the parts of the cron's work share the 1,000 queries that a Worker may send in one invocation.

const QUERIES_MAX = 1_000;

afterAll(expectLedgerInvariants);
beforeEach(async () => {
  vi.spyOn(globalThis, "fetch").mockImplementation(async () => new Response(null, { status: 200 }));
  // Deliveries of other test files would use queries.
  for (const d1 of [env.DB, env.SPARE]) {
    await d1.prepare("UPDATE webhook_deliveries SET status = 'failed' WHERE status = 'pending'").run();
  }
});

const select = query(() => read(computed({ one: sql<1>`1` }), (list) => sql`SELECT ${list}`));

/** Answers the queries of `endless` itself, because they are only counted. D1 answers all others. */
const sendUnlessEndless: Travel = async (send, statements) =>
  statements.every(({ text }) => text === select({}).text)
    ? statements.map(() => ({ success: true, meta: {} as D1Result["meta"], results: [] }))
    : send(statements);

/** Counts the queries to D1, over all databases. */
function countedEnv(more: object = {}) {
  let queries = 0;
  const counted = (d1: D1Database) =>
    wrappedD1(d1, (send, statements, start) => {
      queries += statements.length;
      return sendUnlessEndless(send, statements, start);
    });
  const spent = () => {
    const before = queries;
    queries = 0;
    return before;
  };
  return { bindings: { DB: counted(env.DB), SPARE: counted(env.SPARE), ...more }, counted, spent };
}

/** A part whose work never ends. `queriesOfStep` is the number of queries of a step; `steps` counts its steps by database. */
function endless(queriesOfStep: number, weight: number) {
  const steps = new Map<number, number>();
  const work: CronPart["work"] = async ({ db, database, allowance }) => {
    while (allowance.has(queriesOfStep)) {
      await batch(
        db,
        Array.from({ length: queriesOfStep }, () => select({})),
      );
      steps.set(database, (steps.get(database) ?? 0) + 1);
    }
    return [];
  };
  const sum = () => [...steps.values()].reduce((total, count) => total + count, 0);
  return { part: { code: "endless", weight, queriesOfStep, work }, steps, sum };
}

it("one run of the cron gives unused queries to a part that has more to do, within a Worker's limit", async () => {
  const { bindings, spent } = countedEnv();
  const greedy = endless(7, 1);
  await scheduled(bound(bindings), { isolate: {}, now: new Clock().now, newId: randomId }, [greedy.part]);
  expect(greedy.sum() * 7).toBeGreaterThan(800);
  expect(spent()).toBeLessThanOrEqual(QUERIES_MAX);
  const [first = 0, second = 0] = [...greedy.steps.values()];
  expect(first / second).toBeGreaterThan(0.7);
  expect(first / second).toBeLessThan(1.4);
});

it("one run of the cron divides queries between parts by their weights, in any order of the parts", async () => {
  const greedy = [endless(5, 20), endless(5, 40), endless(5, 20)];
  const parts = greedy.map(({ part }) => part);
  const { bindings, spent } = countedEnv();
  await scheduled(bound(bindings), { isolate: {}, now: new Clock().now, newId: randomId }, parts);
  expect(spent()).toBeLessThanOrEqual(QUERIES_MAX);
  const [a = 0, b = 0, c = 0] = greedy.map(({ sum }) => sum());
  expect(b / a).toBeGreaterThan(1.6);
  expect(b / c).toBeGreaterThan(1.6);
  expect(Math.min(a, c)).toBeGreaterThan(20);
});

it("one run of the cron lets ten databases take turns when a share is too small for a step in each, so that none waits forever", async () => {
  const clock = new Clock();
  const { bindings, counted, spent } = countedEnv();
  const others = Object.fromEntries([2, 3, 4, 5, 6, 7, 8, 9].map((n) => [`DB_${n}`, counted(env.SPARE)]));
  // Its steps have 60 queries each, and the other parts would use all queries.
  const large = endless(60, 5);
  const small = [endless(10, 8), endless(10, 8)];
  const parts = [...small, large].map(({ part }) => part);
  for (let run = 0; run < 10; run++) {
    const before = large.sum();
    await scheduled(bound({ ...bindings, ...others }), { isolate: {}, now: clock.now, newId: randomId }, parts);
    expect(spent(), `run ${run}`).toBeLessThanOrEqual(QUERIES_MAX);
    expect(large.sum(), `run ${run}`).toBeGreaterThan(before);
    clock.advance(MINUTE_MS);
  }
  for (const { steps } of [large, ...small]) expect([...steps.keys()].sort()).toEqual([0, 1, 2, 3, 4, 5, 6, 7, 8, 9]);
});

it("one run of the cron never exceeds a Worker's queries, even for a part that does not check its share", async () => {
  const log = vi.spyOn(console, "error").mockReturnValue();
  const { bindings, spent } = countedEnv();
  const heedless: CronPart = {
    ...{ code: "heedless", weight: 1, queriesOfStep: 1 },
    work: async ({ db }) => {
      for (;;) {
        await batch(
          db,
          Array.from({ length: 5 }, () => select({})),
        );
      }
    },
  };
  await scheduled(bound(bindings), { isolate: {}, now: new Clock().now, newId: randomId }, [heedless]);
  const sent = spent();
  expect(sent).toBeGreaterThan(QUERIES_MAX - 5);
  expect(sent).toBeLessThanOrEqual(QUERIES_MAX);
  expect(log.mock.calls.map(([line]) => JSON.parse(String(line)))).toContainEqual({
    ...{ level: "error", code: "heedless", kinds: ["temporarily_unavailable"] },
  });
});

it("one run of the cron counts queries that are repeated after a fault", async () => {
  let [queries, trips, lost] = [0, 0, 0];
  const flaky = (d1: D1Database) =>
    wrappedD1(d1, (send, statements, start) => {
      queries += statements.length;
      if (++trips % 3 !== 0) return sendUnlessEndless(send, statements, start);
      lost++;
      throw new Error("D1_ERROR: Network connection lost.");
    });
  vi.spyOn(scheduler, "wait").mockResolvedValue();
  vi.spyOn(console, "error").mockReturnValue();
  const greedy = endless(4, 1);
  const bindings = bound({ DB: flaky(env.DB), SPARE: flaky(env.SPARE) });
  await scheduled(bindings, { isolate: {}, now: new Clock().now, newId: randomId }, [greedy.part]);
  expect(lost).toBeGreaterThan(50);
  expect(queries).toBeLessThanOrEqual(QUERIES_MAX);
});

/** How much of each kind is due at once. */
const HOLDS = 90;
const EXPIRIES = 2_400;
const ERASURES = 12;
const PAYMENTS = 60;
const OLD_MESSAGES = 2_500;
const OLD_EVENTS = 12_000;

const numbers = (count: number): string =>
  `WITH RECURSIVE n (i) AS (SELECT 1 UNION ALL SELECT i + 1 FROM n WHERE i < ${count})`;

it("when everything is due at once every run stays within its queries and makes progress, and in the end all work is done", {
  timeout: 240_000,
}, async () => {
  const counting = countedEnv({ ANALYTICS_RETENTION_DAYS: "30" });
  const world = await receiverWorld(() => 200);
  const { app, clock, create } = world;
  const { live } = app.environments;
  clock.advance(500 * DAY_MS);
  // Deletes what other test files left.
  for (const d1 of [env.DB, env.SPARE]) {
    await withoutTrigger("analytics_events_kept", d1.prepare("DELETE FROM analytics_events"), d1);
    await d1.batch(
      ["balance_expiries", "business_walks", "webhook_deliveries", "webhook_messages"].map((table) =>
        d1.prepare(`DELETE FROM ${table}`),
      ),
    );
  }
  const tick = async () => {
    await scheduled(bound(counting.bindings), { isolate: {}, now: clock.now, newId: randomId }, [
      figuresPart,
      ...cronParts,
    ]);
    return counting.spent();
  };
  for (let run = 0; run < 20 && (await tick()) > 60; run++);
  await create({ types: ["balance.expired", "reservation.expired", "payment.unmatched"] });

  const ctx = makeCtx(live, clock);
  const packId = await makeOpenAmountPack(app.appId, "Wallet", "tokens");
  for (let n = 0; n < HOLDS; n++) {
    const userId = `holder ${n}`;
    await grantPack(ctx, { userId, packId, quantity: 5, source: "grant" });
    const input = { userId, event: "e", quantities: { count: 0, tokens: 1 }, expiresInSeconds: 60 };
    await createReservation(ctx, reserveInput.parse(input));
  }
  await env.DB.prepare(
    `${numbers(EXPIRIES)} INSERT INTO accounts (environment_id, user_id) SELECT ?1, 'late ' || i FROM n`,
  )
    .bind(live.id)
    .run();
  await env.DB.prepare(
    `INSERT INTO credit_balances (
         account_id, id, pack_id, pack_name, pack_number, item_number, unit, matches, priority, initial_minor, remaining_minor,
         has_remaining, source_number, granted_at_ms, expires_at_ms, grant_seq, last_seq
       )
       SELECT id, 'crb_budget_' || id, 'cpk_1', 'Starter', 1, 1, 'tokens', '[]', 100, 1000, 1000, 1, 0, 0,
         CAST(?2 AS INTEGER), 1, 1
       FROM accounts WHERE environment_id = ?1 AND user_id LIKE 'late %'`,
  )
    .bind(live.id, clock.ms + 60_000)
    .run();
  await env.DB.batch([
    env.DB.prepare(
      `${numbers(PAYMENTS)} INSERT INTO payments (environment_id, id, status, reason, notify_at_ms, written_by, created_at_ms)
         SELECT ?1, 'pi_' || i, 'unmatched', 'no_user', CAST(?2 AS INTEGER), 'test', 0 FROM n`,
    ).bind(live.id, clock.ms),
    env.DB.prepare(
      `${numbers(PAYMENTS)} INSERT INTO payment_names (environment_id, name, payment_id) SELECT ?1, 'pi_' || i, 'pi_' || i FROM n`,
    ).bind(live.id),
    env.DB.prepare(
      `${numbers(OLD_MESSAGES)} INSERT INTO webhook_messages (id, environment_id, type, at_ms, data)
         SELECT ?2 || printf('%06d', i), ?1, 'purser.test', 0, '{}' FROM n`,
    ).bind(live.id, messageIdAt(clock.ms - 40 * DAY_MS)),
    env.DB.prepare(
      `${numbers(OLD_EVENTS)} INSERT INTO analytics_events (
           environment_id, distinct_id, seq, uuid, event, timestamp_ms, received_at_ms, properties
         ) SELECT ?1, 'visitor', i, ?2 || i, 'seen', 0, CAST(?3 AS INTEGER), '{}' FROM n`,
    ).bind(live.id, randomId(""), clock.ms - 40 * DAY_MS),
    env.DB.prepare(
      `INSERT INTO distinct_ids (environment_id, distinct_id, first_seen_at_ms, last_seen_at_ms, event_count, event_bytes, is_device_form)
         VALUES (?1, 'visitor', 0, 0, ?2, ?3, 0)`,
    ).bind(live.id, OLD_EVENTS, 2 * OLD_EVENTS),
  ]);
  for (let n = 0; n < ERASURES; n++) {
    await grantPack(ctx, { userId: `gone ${n}`, packId, quantity: 5, source: "grant" });
    // Started, and left to the cron.
    await erasePerson(ctx, erasePersonInput.parse({ distinctId: `gone ${n}` }), { pages: 0, rows: 0 });
  }
  clock.advance(60_000);

  const count = async (sql: string, ...values: unknown[]) =>
    (await env.DB.prepare(`SELECT count(*) AS n FROM ${sql}`)
      .bind(...values)
      .first<number>("n")) ?? 0;
  const left = async () => ({
    holds: await count("reservations WHERE environment_id = ? AND state = 'open'", live.id),
    expiries:
      EXPIRIES - (await count("webhook_messages WHERE environment_id = ? AND type = 'balance.expired'", live.id)),
    erasures: await count("erasures WHERE environment_id = ? AND completed_at_ms IS NULL", live.id),
    payments: await count("payments WHERE environment_id = ? AND notify_at_ms IS NOT NULL", live.id),
    messages: await count("webhook_messages WHERE environment_id = ? AND type = 'purser.test'", live.id),
    events: await count("analytics_events WHERE environment_id = ?", live.id),
    walks: 1 - (await count("business_walks WHERE finished_at_ms IS NOT NULL")),
    // Deliveries of other test files may wait hours for their next attempt.
    deliveries: await count(
      `webhook_deliveries AS d JOIN webhook_messages AS m ON m.id = d.message_id
         WHERE m.environment_id = ? AND d.status = 'pending'`,
      live.id,
    ),
  });
  let before = await left();
  expect(before).toMatchObject({
    ...{ holds: HOLDS, expiries: EXPIRIES, erasures: ERASURES, payments: PAYMENTS },
    ...{ messages: OLD_MESSAGES, events: OLD_EVENTS },
  });
  let full = 0;
  for (let run = 0; Object.values(before).some((n) => n > 0); run++) {
    // Recurring grants of other test files may be due too, and use queries.
    expect(run, JSON.stringify(before)).toBeLessThan(40);
    const queries = await tick();
    expect(queries).toBeLessThanOrEqual(QUERIES_MAX);
    if (queries > 800) full++;
    const after = await left();
    for (const kind of ["holds", "expiries", "payments", "messages", "events"] as const) {
      expect(after[kind] < before[kind] || before[kind] === 0, `${kind} in run ${run}: ${JSON.stringify(after)}`).toBe(
        true,
      );
    }
    before = after;
    clock.advance(MINUTE_MS);
  }
  // One run could not do all the work.
  expect(full).toBeGreaterThan(0);
  expect(world.received.length).toBe(HOLDS + EXPIRIES + PAYMENTS);
});
