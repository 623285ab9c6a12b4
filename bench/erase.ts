/**
 * What the erasure of a long life costs (docs/benchmarks.md): `npm run bench:erase`. A person of 1,000,000 analytics events, one
 * of 100,000 usage events and as many entries of the ledger, and one of 20,000 ids, each erased by the same call, again and again.
 */
import type { Cost } from "../test/support/counting-d1.ts";
import { entriesSql, liveBalancesSql } from "../test/support/seed.ts";
import { claimIds, fillEvents } from "./long-life.ts";
import { type Bench, makeApp, startBench } from "./support.ts";

const EVENTS = 1_000_000;
const USAGE = 100_000;
const BALANCES = 1_000;
const IDS = 20_000;

const whole = (value: number): string => Math.round(value).toLocaleString("en");

/** Usage events, and a ledger entry for each. */
async function fillBooks(db: D1Database, environmentId: number, userId: string): Promise<void> {
  const account = { environmentId, userId };
  const statements = [...liveBalancesSql(account, BALANCES), ...entriesSql(account, BALANCES, USAGE / BALANCES)];
  for (const sql of statements) await db.prepare(sql).run();
  for (let from = 1; from <= USAGE; from += 10_000) {
    await db
      .prepare(
        `INSERT INTO usage_events (account_id, occurred_by_ms, seq, environment_id, event_id, event, count_steps, properties,
           occurred_at_ms, received_at_ms, request_hash, debits)
         WITH RECURSIVE n(i) AS (SELECT ${from} UNION ALL SELECT i + 1 FROM n WHERE i < ${from + 9_999})
         SELECT (SELECT id FROM accounts WHERE environment_id = ?1 AND user_id = ?2), i, i, CAST(?1 AS INTEGER), ?2 || i, 'e',
           1, '{"told":"' || ?2 || '"}', i, i, 'hash', '[]' FROM n`,
      )
      .bind(environmentId, userId)
      .run();
  }
}

/** Erases a person by calls, and prints what they cost. */
async function erase({ urls }: Bench, key: string, distinctId: string, rows: number, what: string): Promise<void> {
  const cost = async () => (await (await fetch(`${urls.counted}/bench/cost`)).json()) as Cost;
  await cost();
  const timesMs: number[] = [];
  for (let status = "running"; status === "running"; ) {
    const startMs = performance.now();
    const answer = await fetch(`${urls.counted}/api/v1/erase-person`, {
      method: "POST",
      headers: { authorization: `Bearer ${key}`, "content-type": "application/json" },
      body: JSON.stringify({ distinctId }),
    });
    timesMs.push(performance.now() - startMs);
    if (answer.status !== 200) throw new Error(`${answer.status} ${await answer.text()}`);
    ({ status } = (await answer.json()) as { status: string });
  }
  const { roundTrips, rowsRead, rowsWritten } = await cost();
  const total = timesMs.reduce((sum, ms) => sum + ms, 0);
  console.log(
    `${whole(rows)} ${what}: ${timesMs.length} calls, ${(total / 1_000).toFixed(1)} s, the longest ` +
      `${(Math.max(...timesMs) / 1_000).toFixed(1)} s, ${whole(roundTrips)} trips, ${(rowsRead / rows).toFixed(1)} rows read ` +
      `and ${(rowsWritten / rows).toFixed(1)} written for each`,
  );
}

const bench = await startBench({ counted: "bench/workers/counted.ts" });
try {
  const { environmentId, key } = await makeApp(bench.db);
  await fillEvents(bench.db, environmentId, "million", EVENTS);
  await erase(bench, key, "million", EVENTS, "analytics events");
  await fillBooks(bench.db, environmentId, "books");
  await erase(bench, key, "books", USAGE, "usage events, and as many entries of the ledger");
  await claimIds(bench.db, environmentId, "many-ids", IDS);
  await erase(bench, key, "many-ids", IDS, "ids");
} finally {
  await bench.close();
}
