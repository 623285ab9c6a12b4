import { env } from "cloudflare:workers";
import { expect, it, vi } from "vitest";
import { systemCtx } from "../../src/auth/system-ctx.ts";
import { sumDays } from "../../src/books/usage/sum-days.ts";
import { randomId } from "../../src/lib/ids.ts";
import { DAY_MS, HOUR_MS, iso } from "../../src/lib/time.ts";
import { runPart, sumDaysOf } from "../support/cron.ts";
import { FAULTS, faultyD1 } from "../support/faulty-d1.ts";
import { expectLedgerInvariants, rememberEarlierRows } from "../support/invariants.ts";
import { createRandom, type Random } from "../support/random.ts";
import { FIXED_SEED, soakCount, soakPart, timeoutOf } from "../support/soak.ts";
import { atRandom, bound, Clock, makeApp, makeClient } from "../support/world.ts";

const STORMS = soakCount(1, 8);
const ROUNDS = 10;

const userIdOf = (random: Random) => `u${random.integer(1, 4)}`;

/** The acts of a storm on one application. */
async function makeStorm(random: Random) {
  const app = await makeApp();
  const clock = new Clock();
  const faulty = faultyD1(env.DB);
  const call = makeClient(clock, {}, randomId, atRandom(3, random));
  const key = app.keys.sk_live;
  const costs = [{ model: "small", per: { input: 0.000_001, output: 0.25 } }];
  const prices = { mode: "live", rules: [{ unit: "tokens", perEvent: 1 }], costs };
  const path = `/api/v1/admin/apps/${app.appId}/prices`;
  expect((await call("PUT", path, { key: env.ADMIN_TOKEN, body: prices })).status).toBe(200);
  let eventCount = 0;
  const event = () => ({
    ...{ userId: userIdOf(random), eventId: `e${eventCount++}`, onShortage: "partial" },
    event: random.pick(["chat", "image", "🜁"]),
    ...(random.chance(0.5) ? { model: random.pick(["small", "large"]) } : {}),
    ...(random.chance(0.7) ? { occurredAt: iso(clock.ms - random.integer(-DAY_MS, 3 * DAY_MS)) } : {}),
    ...random.pick([
      { quantities: { tokens: random.integer(0, 9_000_000) / 1_000 } },
      { quantities: { count: 2, cents: 8_589_934_591.999999 } },
      { meters: { input: random.integer(0, 9_000_000) / 1_000, output: random.integer(0, 9) } },
      { meters: { input: 2 ** 53 } },
      { meters: {} },
    ]),
  });
  const events = () => Array.from({ length: random.integer(1, 30) }, event);
  const run = (d1: D1Database, queries: number) => {
    const root = systemCtx(bound({ DB: d1 }), { isolate: {}, now: clock.now, newId: randomId });
    let left = queries;
    const has = (more: number) => {
      left -= more;
      return left >= 0;
    };
    return runPart((ctx) => sumDays({ ...ctx, allowance: { ...ctx.allowance, has } }), root);
  };
  const acts = {
    use: () => call("POST", "/api/v1/usage/events", { key, body: event() }),
    useMany: () => call("POST", "/api/v1/usage/events", { key, body: events() }),
    erase: () => call("POST", "/api/v1/erase-person", { key, body: { distinctId: userIdOf(random) } }),
    cron: () => run(env.DB, random.integer(3, 20)),
    killed: () => {
      faulty.plan({ fault: random.pick(FAULTS), at: random.integer(1, 5), persists: random.chance(0.3) });
      return run(faulty.d1, 20);
    },
  };
  /** Sums what is left, when an account that failed may be tried again, and whatever other tests have left. */
  const finish = async () => {
    clock.advance(DAY_MS);
    const root = systemCtx(bound(), { isolate: {}, now: clock.now, newId: randomId });
    const failures: unknown[] = [];
    for (let count = 0; count < 5; count++) failures.push(...(await sumDaysOf(root, app.environments.live)));
    return failures;
  };
  return { app, clock, acts, finish };
}

it(`day sums equal the usage events once no account is marked, after kills, races and erasures (PROOF_SEED=${FIXED_SEED})`, {
  timeout: timeoutOf(STORMS, 20_000),
}, async () => {
  vi.spyOn(console, "error").mockReturnValue();
  vi.spyOn(scheduler, "wait").mockResolvedValue();
  const tell = soakPart("sums of usage by day", STORMS, "storms", FIXED_SEED);
  const random = createRandom(FIXED_SEED);
  for (let storm = 0; storm < STORMS; storm++) {
    // The end of each storm has checked its rows, and a check of all rows takes longer with each storm.
    await rememberEarlierRows();
    const { app, clock, acts, finish } = await makeStorm(random);
    for (let round = 0; round < ROUNDS; round++) {
      clock.advance(random.integer(0, HOUR_MS));
      const weights = { use: 5, useMany: 3, cron: 3, killed: 1, erase: round < ROUNDS / 2 ? 0 : 1 };
      const names = Array.from({ length: random.integer(1, 8) }, () => random.weighted(weights));
      await Promise.all(names.map((name) => acts[name]()));
      // At any moment, the sums are those of the events before the account's mark.
      await expectLedgerInvariants();
    }
    expect(await finish()).toEqual([]);
    const left = await env.DB.prepare(
      `SELECT (SELECT count(*) FROM usage_to_sum WHERE environment_id = ?1) AS marks,
         (SELECT count(*) FROM usage_events WHERE environment_id = ?1)
           - (SELECT coalesce(sum(events), 0) FROM usage_days WHERE environment_id = ?1) AS missing,
         (SELECT count(*) FROM (
           SELECT day, event, model, sum(events), sum(count_high), sum(count_low), sum(tokens_high), sum(tokens_low),
             sum(seconds_high), sum(seconds_low), sum(cents_high), sum(cents_low), sum(cost_high), sum(cost_low), sum(debited_high), sum(debited_low),
             sum(without_cost)
           FROM usage_days WHERE environment_id = ?1 GROUP BY 1, 2, 3
           EXCEPT SELECT day, event, model, events, count_high, count_low, tokens_high, tokens_low, seconds_high,
             seconds_low, cents_high, cents_low, cost_high, cost_low, debited_high, debited_low, without_cost
           FROM usage_totals WHERE environment_id = ?1
         )) AS otherTotals,
         (SELECT count(*) FROM (
           SELECT day, event, model, name, sum(sign * whole) AS whole, sum(sign * rest) AS rest FROM (
             SELECT 1 AS sign, day, event, model, m.key AS name, m.value ->> 0 AS whole, m.value ->> 1 AS rest
             FROM usage_days, json_each(meters) AS m WHERE environment_id = ?1
             UNION ALL SELECT -1, day, event, model, m.key, m.value ->> 0, m.value ->> 1
             FROM usage_totals, json_each(meters) AS m WHERE environment_id = ?1
           ) GROUP BY day, event, model, name HAVING sum(sign * whole) <> 0 OR sum(sign * rest) <> 0
         )) AS otherMeters,
         (SELECT coalesce(sum(events), 0) FROM usage_days WHERE environment_id = ?1)
           - (SELECT coalesce(sum(events), 0) FROM usage_totals WHERE environment_id = ?1) AS beyond`,
    )
      .bind(app.environments.live.id)
      .first();
    expect(left).toEqual({ marks: 0, missing: 0, otherTotals: 0, otherMeters: 0, beyond: 0 });
    await expectLedgerInvariants();
    tell();
  }
});
