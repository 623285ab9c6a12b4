/**
 * What an export of a long life costs (docs/benchmarks.md): `npm run bench:export`. A person of 10,000 analytics
 * events, one of 1,000,000, each exported by Purser and by a bare Worker that streams the same SQL text, in turns.
 */
import type { Cost } from "../test/support/counting-d1.ts";
import { claimIds, fillEvents } from "./long-life.ts";
import { type Bench, HEAP_MB, makeApp, median, type Reading, readAnswer, startBench } from "./support.ts";

const PEOPLE = [
  { distinctId: "ten-thousand", events: 10_000, rounds: 9 },
  { distinctId: "million", events: 1_000_000, rounds: 3 },
] as const;
const MANY_IDS = 400_000;
const SLOW_BYTES_A_SECOND = 4_000_000;
const SLOW_FOR_MS = 20_000;

const mega = (bytes: number): string => (bytes / 1e6).toFixed(1);
const whole = (value: number): string => Math.round(value).toLocaleString("en");
const pause = (ms: number) => new Promise((resolve) => setTimeout(resolve, ms));

const LARGE_EVENTS = 2_000;
const LARGE_BYTES = 256 * 1_024;
const LARGE_USAGE = 500;
const LARGE_USAGE_BYTES = 900_000;
/** SQL: a JSON object of so many bytes. */
const objectOf = (bytes: number): string => `'{"t":"' || replace(hex(zeroblob(${(bytes - 8) / 2})), '0', 'x') || '"}'`;

/** A person whose events are as large as they may be: of analytics, and of usage, whose properties are kept apart. */
async function fillLarge(db: D1Database, environmentId: number, distinctId: string): Promise<void> {
  const run = (sql: string) => db.prepare(sql).bind(environmentId, distinctId).run();
  const rows = (from: number, to: number) =>
    `WITH RECURSIVE n(i) AS (SELECT ${from} UNION ALL SELECT i + 1 FROM n WHERE i < ${to})`;
  await run(`INSERT INTO distinct_ids (environment_id, distinct_id, is_device_form, is_sender, first_seen_at_ms,
      last_seen_at_ms, event_count, event_bytes)
    VALUES (CAST(?1 AS INTEGER), ?2, 0, 1, 1, 1, ${LARGE_EVENTS}, ${LARGE_EVENTS * LARGE_BYTES})`);
  await run("INSERT INTO accounts (environment_id, user_id) VALUES (CAST(?1 AS INTEGER), ?2)");
  for (let from = 1; from <= LARGE_EVENTS; from += 100) {
    await run(`INSERT INTO analytics_events (
        environment_id, distinct_id, seq, uuid, event, timestamp_ms, received_at_ms, properties
      ) ${rows(from, from + 99)}
      SELECT CAST(?1 AS INTEGER), ?2, i, ?2 || i, 'e', 1, 1, ${objectOf(LARGE_BYTES)} FROM n`);
  }
  const accountId = "(SELECT id FROM accounts WHERE environment_id = ?1 AND user_id = ?2)";
  for (let from = 1; from <= LARGE_USAGE; from += 50) {
    await run(`INSERT INTO large_properties (account_id, occurred_by_ms, seq, properties) ${rows(from, from + 49)}
      SELECT ${accountId}, 1, i, ${objectOf(LARGE_USAGE_BYTES)} FROM n`);
    await run(`INSERT INTO usage_events (account_id, occurred_by_ms, seq, environment_id, event_id, event, count_steps,
        large_properties_bytes, occurred_at_ms, received_at_ms, request_hash, debits)
      ${rows(from, from + 49)}
      SELECT ${accountId}, 1, i, CAST(?1 AS INTEGER), ?2 || i, 'e', 1, ${LARGE_USAGE_BYTES}, 1, 1, '', '[]' FROM n`);
  }
}

async function mint(url: string, key: string, distinctId: string): Promise<string> {
  const response = await fetch(`${url}/api/v1/export-person`, {
    method: "POST",
    headers: { authorization: `Bearer ${key}`, "content-type": "application/json" },
    body: JSON.stringify({ distinctId }),
  });
  const { downloadUrl } = (await response.json()) as { downloadUrl: string };
  return downloadUrl;
}

/** The memory at rest: the least of a few measurements. */
async function idle(bench: Bench): Promise<number> {
  let least = Number.POSITIVE_INFINITY;
  for (let look = 0; look < 10; look++) {
    await pause(200);
    least = Math.min(least, await bench.residentBytes());
  }
  return least;
}

async function main(): Promise<void> {
  const bench = await startBench({
    purser: "src/index.ts",
    bare: "bench/workers/bare-export.ts",
    counted: "bench/workers/counted.ts",
  });
  try {
    const app = await makeApp(bench.db);
    const startedMs = performance.now();
    await claimIds(bench.db, app.environmentId, "many-ids", MANY_IDS);
    const head = await readAnswer(await mint(bench.urls.purser ?? "", app.key, "many-ids"), bench.residentBytes);
    if (!head.end.endsWith("]}")) throw new Error("the document of many ids was cut short");
    console.log(
      `${whole(MANY_IDS)} claimed ids: first byte after ${whole(head.firstByteMs)} ms, ${mega(head.bytes)} MB`,
    );

    await fillLarge(bench.db, app.environmentId, "large");
    const link = await mint(bench.urls.counted ?? "", app.key, "large");
    await fetch(`${bench.urls.counted}/bench/cost`);
    const atRest = await idle(bench);
    const large = await readAnswer(link, bench.residentBytes);
    const { roundTrips } = (await (await fetch(`${bench.urls.counted}/bench/cost`)).json()) as Cost;
    if (!large.end.endsWith("]}")) throw new Error("the document of large events was cut short");
    console.log(
      `${whole(LARGE_EVENTS)} events of 256 KiB and ${whole(LARGE_USAGE)} usage events of 900 kB: ${mega(large.bytes)} MB in ` +
        `${(large.totalMs / 1_000).toFixed(1)} s, peak ${mega(large.peakBytes - atRest)} MB above idle, ${roundTrips} trips, in ${HEAP_MB} MB of heap`,
    );

    for (const { distinctId, events } of PEOPLE) await fillEvents(bench.db, app.environmentId, distinctId, events);
    console.log(`Filled in ${((performance.now() - startedMs) / 1_000).toFixed(1)} s.`);

    const urlsOf = async (distinctId: string) => ({
      purser: await mint(bench.urls.purser ?? "", app.key, distinctId),
      bare: `${bench.urls.bare}/?environment=${app.environmentId}&distinctId=${distinctId}`,
    });
    console.log("D1's own counters:");
    for (const { distinctId, events } of PEOPLE) {
      const link = await mint(bench.urls.counted ?? "", app.key, distinctId);
      await fetch(`${bench.urls.counted}/bench/cost`);
      await readAnswer(link, bench.residentBytes);
      const spent = (await (await fetch(`${bench.urls.counted}/bench/cost`)).json()) as Cost;
      console.log(
        `${whole(events).padStart(9)} events: ${spent.roundTrips} trips, ${whole(spent.rowsRead)} rows read ` +
          `(${(spent.rowsRead / events).toFixed(4)} a row exported), ${spent.rowsWritten} written`,
      );
    }

    // V8's memory grows with garbage, so both run once with the same load before they are measured.
    for (const { distinctId } of [...PEOPLE, ...PEOPLE]) {
      const { purser, bare } = await urlsOf(distinctId);
      for (const url of [purser, bare]) await readAnswer(url, bench.residentBytes);
    }

    console.log(`\nEach isolate held to ${HEAP_MB} MB of heap:`);
    console.log(
      `${"events".padStart(9)}  ${"worker".padEnd(7)} ${"first byte".padStart(11)} ${"rows/s".padStart(9)} ${"MB/s".padStart(6)} ${"MB".padStart(6)} ${"peak MB above idle".padStart(19)}`,
    );
    for (const { distinctId, events, rounds } of PEOPLE) {
      const readings: Record<"purser" | "bare", { reading: Reading; aboveIdle: number }[]> = { purser: [], bare: [] };
      for (let round = 0; round < rounds; round++) {
        const urls = await urlsOf(distinctId);
        for (const worker of round % 2 === 0 ? (["purser", "bare"] as const) : (["bare", "purser"] as const)) {
          const before = await idle(bench);
          const reading = await readAnswer(urls[worker], bench.residentBytes);
          readings[worker].push({ reading, aboveIdle: reading.peakBytes - before });
          if (worker === "purser" && !reading.end.endsWith("]}")) throw new Error("the document was cut short");
        }
      }
      const rates = { purser: 0, bare: 0 };
      for (const worker of ["purser", "bare"] as const) {
        const of = (pick: (entry: { reading: Reading; aboveIdle: number }) => number) =>
          median(readings[worker].map(pick));
        const totalMs = of(({ reading }) => reading.totalMs);
        const bytes = of(({ reading }) => reading.bytes);
        rates[worker] = events / totalMs;
        console.log(
          `${whole(events).padStart(9)}  ${worker.padEnd(7)} ${`${of(({ reading }) => reading.firstByteMs).toFixed(1)} ms`.padStart(11)} ` +
            `${whole((events * 1_000) / totalMs).padStart(9)} ${mega((bytes * 1_000) / totalMs).padStart(6)} ${mega(bytes).padStart(6)} ` +
            `${readings[worker]
              .map(({ aboveIdle }) => mega(aboveIdle))
              .join(" / ")
              .padStart(19)}`,
        );
      }
      console.log(`${"".padStart(9)}  Purser at ${(rates.purser / rates.bare).toFixed(2)} of the bare Worker's rate`);
    }

    console.log("\nMemory above idle, for as much work in small documents and in one:");
    for (const { name, distinctId, times } of [
      { name: "10,000 events, 100 times one after another", distinctId: "ten-thousand", times: 100 },
      { name: "1,000,000 events, once", distinctId: "million", times: 1 },
    ]) {
      const link = (await urlsOf(distinctId)).purser;
      const before = await idle(bench);
      let peak = 0;
      for (let time = 0; time < times; time++) {
        peak = Math.max(peak, (await readAnswer(link, bench.residentBytes)).peakBytes);
      }
      console.log(`${name}: idle ${mega(before)} MB, peak ${mega(peak - before)} MB above`);
    }

    console.log("\nA slow reader of the million:");
    const before = await idle(bench);
    const slow = await readAnswer((await urlsOf("million")).purser, bench.residentBytes, {
      bytesASecond: SLOW_BYTES_A_SECOND,
      forMs: SLOW_FOR_MS,
    });
    console.log(
      `${mega(slow.bytes)} MB in ${(slow.totalMs / 1_000).toFixed(1)} s: idle ${mega(before)} MB, peak ${mega(slow.peakBytes - before)} MB above`,
    );
  } finally {
    await bench.close();
  }
}

await main();
