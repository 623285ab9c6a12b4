import { env } from "cloudflare:workers";
import { expect, it } from "vitest";
import { systemCtx } from "../../src/auth/system-ctx.ts";
import { findExpiries } from "../../src/books/alerts/find-expiries.ts";
import { randomId } from "../../src/lib/ids.ts";
import { DAY_MS } from "../../src/lib/time.ts";
import { runPart } from "../support/cron.ts";
import { isSoak, soakPart, timeoutOf } from "../support/soak.ts";
import { makeEndpoint } from "../support/webhooks.ts";
import { bound, Clock, makeApp } from "../support/world.ts";

/** Each balance is of another user. The soak has 100,000; the suite has two pages of the cron. */
const BALANCES = isSoak ? 100_000 : 1_200;
const USERS_A_BATCH = 600;

/** Inserts users with a balance of 1 token each. All balances expire at the same moment. */
async function seed(environmentId: number, expiresAtMs: number): Promise<void> {
  for (let from = 0; from < BALANCES; from += USERS_A_BATCH) {
    const users = Array.from({ length: Math.min(USERS_A_BATCH, BALANCES - from) }, (_, i) => `user ${from + i}`);
    await env.DB.batch([
      env.DB.prepare(
        "INSERT INTO accounts (environment_id, user_id) SELECT CAST(?1 AS INTEGER), value FROM json_each(?2)",
      ).bind(environmentId, JSON.stringify(users)),
      env.DB.prepare(
        `INSERT INTO credit_balances (
           account_id, id, pack_id, pack_name, pack_number, item_number, unit, matches, priority, initial_minor, remaining_minor,
           has_remaining, source_number, granted_at_ms, expires_at_ms, grant_seq, last_seq
         )
         SELECT a.id, 'crb_soak_' || a.id, 'cpk_1', 'Starter', 1, 1, 'tokens', '[]', 100, 1000, 1000, 1, 0, 0,
           CAST(?3 AS INTEGER), 1, 1
         FROM json_each(?2) AS u CROSS JOIN accounts AS a ON a.environment_id = ?1 AND a.user_id = u.value`,
      ).bind(environmentId, JSON.stringify(users), expiresAtMs),
    ]);
  }
}

it(`the cron reports each of ${BALANCES} balances that expire at the same moment once, in order, with its alert`, {
  timeout: timeoutOf(BALANCES, 20),
}, async () => {
  await env.DB.prepare("DELETE FROM balance_expiries").run();
  const clock = new Clock();
  const { live } = (await makeApp()).environments;
  const endpointId = await makeEndpoint(live, ["credits.depleted", "balance.*"]);
  await seed(live.id, clock.ms + DAY_MS);
  clock.advance(DAY_MS);
  const count = async (type: string) =>
    (await env.DB.prepare("SELECT count(*) AS n FROM webhook_messages WHERE environment_id = ? AND type = ?")
      .bind(live.id, type)
      .first("n")) as number;
  const run = () => runPart(findExpiries, systemCtx(bound(), { isolate: {}, now: clock.now, newId: randomId }));
  const tell = soakPart("expiries of one second", BALANCES, "balances");
  let runs = 0;
  for (let found = 0; found < BALANCES; runs++) {
    // Some runs overlap.
    await (runs % 3 === 1 ? Promise.all([run(), run()]) : run());
    const { results } = await env.DB.prepare(
      `SELECT a.id, m.at_ms FROM webhook_messages AS m CROSS JOIN accounts AS a
       ON a.environment_id = m.environment_id AND a.user_id = m.subject
       WHERE m.environment_id = ? AND m.type = 'balance.expired' AND m.at_ms = ? ORDER BY a.id`,
    )
      .bind(live.id, clock.ms)
      .raw<[number, number]>()
      .then((rows) => ({ results: rows.map(([id]) => id) }));
    // The accounts of one run have no gap.
    const [first = 0] = results;
    expect(results).toEqual(Array.from({ length: results.length }, (_, i) => first + i));
    const all = await count("balance.expired");
    expect(all).toBeGreaterThan(found);
    tell(all - found);
    found = all;
    clock.advance(60_000);
  }
  expect(await count("balance.expired")).toBe(BALANCES);
  expect(await count("credits.depleted")).toBe(BALANCES);
  const subjects = await env.DB.prepare(
    "SELECT count(DISTINCT subject) AS n FROM webhook_messages WHERE environment_id = ? AND type = 'balance.expired'",
  )
    .bind(live.id)
    .first("n");
  expect(subjects).toBe(BALANCES);
  if (isSoak) expect(runs).toBeGreaterThan(1);
  await env.DB.prepare("DELETE FROM webhook_deliveries WHERE endpoint_id = ?").bind(endpointId).run();
});
