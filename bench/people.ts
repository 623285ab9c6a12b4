/**
 * `npm run bench:people`: the export and the erasure of people with very much data (docs/scale.md). Exports are compared with
 * a bare Worker that streams the same SQL text. `BENCH_SIZE=0.01` takes a hundredth of the data.
 */
import { get, type IncomingMessage } from "node:http";
import { setTimeout } from "node:timers/promises";
import { entriesSql, liveBalancesSql } from "../test/support/seed.ts";
import { measureInTurn, median, table, whole } from "./figures.ts";
import { bundle, call, prepare, runAll, serve, spentOf } from "./serve.ts";

const SIZE = Number(process.env.BENCH_SIZE ?? "1");
const sized = (count: number) => Math.ceil(count * SIZE);
/** Half of the platform's limit. Without a limit, V8 keeps garbage as long as there is room. */
const HEAP_MB = 64;

const MILLION = sized(1_000_000);
const PEOPLE = [
  { distinctId: "ten-thousand", events: sized(10_000), rounds: 9 },
  { distinctId: "million", events: MILLION, rounds: 3 },
];
const MANY_IDS = sized(400_000);
const [LARGE_EVENTS, LARGE_USAGE, BALANCES] = [sized(2_000), sized(500), sized(1_000)];
const USAGE_OF_A_BALANCE = 100;

const mega = (bytes: number): string => (bytes / 1e6).toFixed(1);
const seconds = (ms: number): string => (ms / 1_000).toFixed(1);

/** SQL that inserts what `select` returns for each i from 1 to `count`, in parts. */
const insertMany = (count: number, ofPart: number, insert: string, select: string): string[] =>
  Array.from({ length: Math.ceil(count / ofPart) }, (_, part) => {
    const [first, last] = [part * ofPart + 1, Math.min(count, (part + 1) * ofPart)];
    return `INSERT INTO ${insert}
      WITH RECURSIVE n(i) AS (SELECT ${first} UNION ALL SELECT i + 1 FROM n WHERE i < ${last}) SELECT ${select} FROM n`;
  });

/** About 300 bytes, like a page view of posthog-js. */
const PAGE_VIEW = `'{"$current_url":"https://shop.example.com/products/' || i || '?ref=newsletter","$browser":"Firefox",' ||
  '"$browser_version":147,"$os":"Linux","$screen_height":1080,"$screen_width":1920,"$referrer":"$direct",' ||
  '"title":"Product ' || i || ' — Zoë’s shop","$session_id":"0194685f-8a3c-7d11-9f2b-' || printf('%012d', i) || '"}'`;
/** A JSON object of so many bytes. */
const objectOf = (bytes: number): string => `'{"t":"' || replace(hex(zeroblob(${(bytes - 8) / 2})), '0', 'x') || '"}'`;
const LARGE_BYTES = 256 * 1_024;
const LARGE_USAGE_BYTES = 900_000;

const analyticsSql = (distinctId: string, count: number, properties = PAGE_VIEW, bytesOfOne = 300): string[] => {
  const insert =
    "analytics_events (environment_id, distinct_id, seq, uuid, event, timestamp_ms, received_at_ms, properties)";
  const select = `1, '${distinctId}', i, printf('0194685f-8a3c-7d11-%04x-%012x', ${distinctId.length}, i), '$pageview',
    1762161300000 + i * 1009, 1762161300200 + i * 1009, ${properties}`;
  return [
    `INSERT INTO distinct_ids (environment_id, distinct_id, is_device_form, is_sender, is_identified, first_seen_at_ms,
       last_seen_at_ms, event_count, event_bytes)
     VALUES (1, '${distinctId}', 0, 1, 1, 1762161300000, 1762161300000, ${count}, ${count * bytesOfOne})`,
    ...insertMany(count, bytesOfOne > 1_000 ? 100 : 50_000, insert, select),
  ];
};

const claimedIdsSql = (distinctId: string, count: number): string[] => {
  const insert = `distinct_ids (environment_id, distinct_id, is_device_form, first_seen_at_ms, last_seen_at_ms, claimed_by,
    claimed_via, claimed_at_ms)`;
  const select = `1, printf('%08x-0000-4000-8000-%012x', i, i), 1, 1, 1, '${distinctId}', 'alias', i`;
  return [
    `INSERT INTO distinct_ids (environment_id, distinct_id, is_device_form, is_sender, first_seen_at_ms, last_seen_at_ms)
     VALUES (1, '${distinctId}', 0, 1, 1, 1)`,
    ...insertMany(count, 50_000, insert, select),
  ];
};

/** Usage events of a user, with `value` in the column `own`. */
function usageSql(userId: string, count: number, own: string, value: string): string[] {
  const insert = `usage_events (account_id, seq, environment_id, event_id, event, count_minor, ${own},
    occurred_at_ms, received_after_ms, request_hash, debits)`;
  const select = `${accountSql(userId)}, i, 1, '${userId}' || i, 'e', 1, ${value}, i, 0, 'hash', '[]'`;
  return insertMany(count, 10_000, insert, select);
}
const accountSql = (userId: string) => `(SELECT id FROM accounts WHERE environment_id = 1 AND user_id = '${userId}')`;

/** Usage events with large properties, which are in their own table. */
function largeUsageSql(userId: string, count: number): string[] {
  const insert = "large_properties (account_id, seq, properties)";
  const properties = insertMany(count, 50, insert, `${accountSql(userId)}, i, ${objectOf(LARGE_USAGE_BYTES)}`);
  return [...properties, ...usageSql(userId, count, "large_properties_bytes", `${LARGE_USAGE_BYTES}`)];
}

const scripts = ["src/index.ts", "bench/workers/bare-export.ts", "bench/workers/measured.ts"];
const served = await serve(await Promise.all(scripts.map(bundle)), { v8Flags: `--max-heap-size=${HEAP_MB}` });
const [purserUrl = "", bareUrl = "", measuredUrl = ""] = served.urls;

const post = (url: string, name: string, distinctId: string) =>
  call(url, { path: `/api/v1/${name}`, body: { distinctId } });
const linkTo = async (url: string, id: string): Promise<string> => (await post(url, "export-person", id)).downloadUrl;

/** The memory at rest: the least of a few measurements. */
async function idleBytes(): Promise<number> {
  let least = Number.POSITIVE_INFINITY;
  for (let look = 0; look < 10; look++)
    least = await setTimeout(200).then(() => Math.min(least, served.memoryBytes("VmRSS")));
  return least;
}

/** Reads a document to its end. Throws if its closing braces are missing. */
async function read(url: string) {
  const idle = await idleBytes();
  served.resetPeak();
  const startedMs = performance.now();
  const response = await new Promise<IncomingMessage>((resolve, reject) => get(url, resolve).on("error", reject));
  if (response.statusCode !== 200) throw new Error(`${response.statusCode} from ${new URL(url).pathname}`);
  let [firstByteMs, bytes, end] = [0, 0, ""];
  for await (const chunk of response as AsyncIterable<Buffer>) {
    if (bytes === 0) firstByteMs = performance.now() - startedMs;
    bytes += chunk.byteLength;
    end = chunk.subarray(-8).toString("latin1");
  }
  if (!/[\]}]\}?$/.test(end)) throw new Error("the document was cut short");
  const peakBytes = served.memoryBytes("VmHWM") - idle;
  return { firstByteMs, totalMs: performance.now() - startedMs, bytes, peakBytes };
}

/** Exports through the Worker that counts. */
async function measureExport(name: string, distinctId: string, rows: number): Promise<void> {
  const link = await linkTo(measuredUrl, distinctId);
  await spentOf(measuredUrl);
  const { firstByteMs, totalMs, bytes, peakBytes } = await read(link);
  const { roundTrips, rowsRead } = await spentOf(measuredUrl);
  console.log(
    `Export of ${name}: ${mega(bytes)} MB in ${seconds(totalMs)} s, first byte after ${whole(firstByteMs)} ms, ${roundTrips} trips, ` +
      `${(rowsRead / rows).toFixed(4)} rows read for each, peak ${mega(peakBytes)} MB above idle`,
  );
}

/** Exports by Purser and by the bare Worker in turn. Returns rows of a table. */
async function compareExports({ distinctId, events, rounds }: (typeof PEOPLE)[number]): Promise<string[][]> {
  const readings = await measureInTurn(rounds, async (side) =>
    read(side === "bare" ? `${bareUrl}/?environment=1&distinctId=${distinctId}` : await linkTo(purserUrl, distinctId)),
  );
  return Object.entries(readings).map(([side, all]) => {
    const peaks = all.map(({ peakBytes }) => peakBytes);
    const rowsASecond = (events * 1_000) / median(all.map(({ totalMs }) => totalMs));
    return [whole(events), side, whole(rowsASecond), `${mega(Math.min(...peaks))} to ${mega(Math.max(...peaks))} MB`];
  });
}

/** Repeats the same call until the person is erased. */
async function measureErasure(name: string, distinctId: string, rows: number): Promise<void> {
  await spentOf(measuredUrl);
  const timesMs: number[] = [];
  for (let status = "running"; status === "running"; ) {
    const startMs = performance.now();
    ({ status = "" } = await post(measuredUrl, "erase-person", distinctId));
    timesMs.push(performance.now() - startMs);
  }
  const { roundTrips, rowsRead, rowsWritten } = await spentOf(measuredUrl);
  const total = timesMs.reduce((sum, ms) => sum + ms, 0);
  console.log(
    `Erasure of ${name}: ${timesMs.length} calls, ${seconds(total)} s, the longest ${seconds(Math.max(...timesMs))} s, ` +
      `${roundTrips} trips, ${(rowsRead / rows).toFixed(1)} rows read and ${(rowsWritten / rows).toFixed(1)} written for each`,
  );
}

try {
  await prepare(served.db);
  for (const { distinctId, events } of PEOPLE) await runAll(served.db, analyticsSql(distinctId, events));
  await runAll(served.db, claimedIdsSql("many-ids", MANY_IDS));
  await runAll(served.db, analyticsSql("large", LARGE_EVENTS, objectOf(LARGE_BYTES), LARGE_BYTES));
  await runAll(served.db, liveBalancesSql({ environmentId: 1, userId: "large" }, 1));
  await runAll(served.db, largeUsageSql("large", LARGE_USAGE));

  await measureExport(`${whole(MANY_IDS)} claimed ids`, "many-ids", MANY_IDS);
  const large = `${whole(LARGE_EVENTS)} events of 256 KiB and ${whole(LARGE_USAGE)} usage events of 900 kB`;
  await measureExport(large, "large", LARGE_EVENTS + LARGE_USAGE);
  for (const { distinctId, events } of PEOPLE) await measureExport(`${whole(events)} events`, distinctId, events);
  const rows = [];
  for (const person of PEOPLE) rows.push(...(await compareExports(person)));
  console.log(`\n${table(["Events", "Worker", "Rows a second", "Peak above idle"], rows)}\n`);

  const books = { environmentId: 1, userId: "books" };
  await runAll(served.db, [...liveBalancesSql(books, BALANCES), ...entriesSql(books, BALANCES, USAGE_OF_A_BALANCE)]);
  const usage = BALANCES * USAGE_OF_A_BALANCE;
  await runAll(served.db, usageSql("books", usage, "properties", `'{"told":"books"}'`));
  await measureErasure(`${whole(MILLION)} analytics events`, "million", MILLION);
  await measureErasure(`${whole(usage)} usage events, and as many ledger entries`, "books", usage);
} finally {
  await served.close();
}
