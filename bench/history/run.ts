/**
 * `npm run bench:history`: an account's oldest rows in immutable objects instead of the database (docs/scale.md, "History in
 * objects"). Prints bytes, rows, CPU, reads beside the same at home, and what kills leave. `BENCH_SIZE=0.05` takes a twentieth.
 */
import { globSync } from "node:fs";
import { join } from "node:path";
import { DatabaseSync } from "node:sqlite";
import { quantile, table, whole } from "../figures.ts";
import { bundle, call, prepare, runAll, serve } from "../serve.ts";
import {
  accountOf,
  compareFillings,
  eventIdOf,
  type Filler,
  fillByApi,
  fillBySql,
  grantCents,
  usage,
  uuid,
} from "./fill.ts";
import { eraseObjects, homeRows, moveOne, type Row, readObject, SCHEMA } from "./objects.ts";
import { measureRestore } from "./restore.ts";

const SIZE = Number(process.env.BENCH_SIZE ?? "1");
const EVENTS = Math.ceil(1_000_000 * SIZE);
const HOLDS = Math.ceil(2_000 * SIZE);
const OF_OBJECT = 500;
const KILLS = 100;
const MARKER = "marker-of-a-person";

const served = await serve([await bundle("src/index.ts"), await bundle("bench/history/worker.ts")], {
  v8Flags: "--max-heap-size=128",
});
const [purser = "", history = ""] = served.urls;

const startedMs = performance.now();
/** Says what took how long, so that a long run shows which part limits it. */
const note = (text: string) => console.error(`${whole((performance.now() - startedMs) / 1_000)} s: ${text}`);

const post = (path: string, body: object) => call(purser, { path, body });
const ask = (path: string, body: object) => call(history, { path: `/${path}`, body });
const filler: Filler = { db: served.db, post, write: (statements) => ask("write", { statements }) };

function databaseFile(): string {
  const [file] = globSync("**/*.sqlite", { cwd: served.directory }).filter((name) => {
    const db = new DatabaseSync(join(served.directory, name), { readOnly: true });
    const found = db.prepare("SELECT 1 FROM sqlite_schema WHERE name = 'credit_ledger'").get() !== undefined;
    db.close();
    return found;
  });
  if (file === undefined) throw new Error("the database's file is missing");
  return join(served.directory, file);
}

/** Bytes of each table with its indexes, from the database's file. */
function bytesByTable(): Map<string, number> {
  const db = new DatabaseSync(databaseFile(), { readOnly: true });
  // Bytes of cells, not of pages: pages that lost rows are filled again by later ones.
  const rows = db
    .prepare(
      `SELECT s.tbl_name AS name, sum(d.payload + 6 * d.ncell) AS bytes FROM dbstat AS d
       JOIN sqlite_schema AS s ON s.name = d.name GROUP BY s.tbl_name`,
    )
    .all() as { name: string; bytes: number }[];
  db.close();
  return new Map(rows.map(({ name, bytes }) => [name, bytes]));
}

const HISTORY_TABLES = ["history_objects", "history_stubs"];
const BOOKS = ["usage_events", "credit_ledger", "reservations"];
const sumOf = (bytes: Map<string, number>, names: string[]) =>
  names.reduce((sum, name) => sum + (bytes.get(name) ?? 0), 0);

async function fillHolds(userId: string, count: number): Promise<number> {
  await grantCents(filler, userId);
  for (let index = 0; index < count; index++) {
    const reservationId = `res_${userId}_${uuid(index)}`;
    await post("/api/v1/usage/reservations", { ...usage, userId, reservationId });
    const body = { eventId: eventIdOf(userId, index), quantities: usage.quantities };
    await post(`/api/v1/usage/reservations/${reservationId}/commit`, body);
  }
  return accountOf(filler, userId);
}

/** Moves everything of an account. Returns what it cost in all. */
async function moveAll(accountId: number, entriesOfEvent: number) {
  const spent = { events: 0, trips: 0, read: 0, written: 0, cpu: served.cpuSeconds() };
  const readOfMoves: number[] = [];
  for (;;) {
    const answer = await ask("move", { accountId, limit: OF_OBJECT, entriesOfEvent });
    if (answer.result.events === 0) break;
    spent.events += answer.result.events;
    spent.trips += answer.roundTrips;
    spent.read += answer.rowsRead;
    readOfMoves.push(answer.rowsRead / answer.result.events);
    spent.written += answer.rowsWritten;
  }
  const [first = 0, last = 0] = [readOfMoves[0], readOfMoves.at(-1)];
  note(`the first move read ${first.toFixed(1)} rows an event, the last ${last.toFixed(1)}`);
  return { ...spent, cpu: served.cpuSeconds() - spent.cpu };
}

/** The times of debits on one user, one after another, for as long as `isOn` says. */
async function debitsWhile(userId: string, isOn: (index: number) => boolean): Promise<number[]> {
  const timesMs: number[] = [];
  const run = crypto.randomUUID();
  for (let index = 0; isOn(index); index++) {
    const startMs = performance.now();
    await post("/api/v1/usage/events", { ...usage, userId, eventId: `${run}_${index}` });
    timesMs.push(performance.now() - startMs);
  }
  return timesMs;
}

async function bucketBytes(): Promise<{ objects: number; bytes: number }> {
  const bucket = await served.miniflare.getR2Bucket("BUCKET", "bench-0");
  let [objects, bytes] = [0, 0];
  for (let cursor: string | undefined; ; ) {
    const page = await bucket.list({ ...(cursor === undefined ? {} : { cursor }) });
    for (const { size } of page.objects) [objects, bytes] = [objects + 1, bytes + size];
    if (!page.truncated) return { objects, bytes };
    cursor = page.cursor;
  }
}

/** One read through the objects, and from the same rows at home. */
async function measureRead(
  name: string,
  pathOf: string,
  body: { accountId: number; atHome: number; limit?: number; seq?: number },
) {
  const sides = [];
  for (const [where, accountId] of [
    ["objects", body.accountId],
    ["home", body.atHome],
  ] as const) {
    const [cpu, startMs] = [served.cpuSeconds(), performance.now()];
    served.resetPeak();
    const idle = served.memoryBytes("VmRSS");
    const answer = await ask(`${pathOf}/${where}`, { ...body, accountId });
    const ms = performance.now() - startMs;
    const peak = (served.memoryBytes("VmHWM") - idle) / 1e6;
    sides.push(
      `${whole(ms)} ms, ${(served.cpuSeconds() - cpu).toFixed(2)} s, ${whole(answer.gets)}, ${whole(peak)} MB`,
    );
  }
  return [name, ...sides];
}

async function measureExport(accountId: number, where: "objects" | "home"): Promise<string> {
  const [cpu, startMs] = [served.cpuSeconds(), performance.now()];
  served.resetPeak();
  const idle = served.memoryBytes("VmRSS");
  const response = await fetch(`${history}/export/${where}`, { method: "POST", body: JSON.stringify({ accountId }) });
  let bytes = 0;
  for await (const chunk of response.body as unknown as AsyncIterable<Uint8Array>) bytes += chunk.byteLength;
  const peak = (served.memoryBytes("VmHWM") - idle) / 1e6;
  const seconds = (performance.now() - startMs) / 1_000;
  return `${seconds.toFixed(1)} s, ${(served.cpuSeconds() - cpu).toFixed(2)} s, ${whole(bytes / 1e6)} MB sent, ${whole(peak)} MB`;
}

class Killed extends Error {}

/** Calls `work` until it ends, each time killed between two random steps. Returns how often it was killed. */
async function withKills(work: (step: () => void) => Promise<unknown>): Promise<number> {
  for (let kills = 0; ; kills++) {
    let left = Math.floor(Math.random() * 8);
    const step = () => {
      if (kills < KILLS && left-- === 0) throw new Killed();
    };
    try {
      await work(step);
      return kills;
    } catch (error) {
      if (!(error instanceof Killed)) throw error;
    }
  }
}

/** Moves and erases under kills, and checks that every row is there once and the marker nowhere. */
async function measureKills(): Promise<string> {
  const bucket = (await served.miniflare.getR2Bucket("BUCKET", "bench-0")) as unknown as R2Bucket;
  const stores = { db: served.db, bucket };
  const count = 1_000;
  const before = (await bucketBytes()).objects;
  const accountId = await fillByApi(filler, "killed", count, { note: MARKER });
  const moves = await withKills(async (step) => {
    while ((await moveOne({ ...stores, step }, accountId, 10)) > 0);
  });
  const withoutNames = (row: Row): Row => (row.properties == null ? row : { ...row, properties: null });
  const erasures = await withKills((step) => eraseObjects({ ...stores, step }, accountId, withoutNames));
  const rows = await homeRows(stores, accountId);
  let [events, entries] = [0, 0];
  for (const row of rows) {
    const contents = await readObject(stores, row);
    if (JSON.stringify(contents).includes(MARKER)) throw new Error("a marker is left");
    events += contents.events.length;
    entries += contents.ledger.length;
  }
  if (events !== count) throw new Error(`${events} of ${count} events are there`);
  const left = (await bucketBytes()).objects - before - rows.length;
  if (left !== 0) throw new Error(`${left} objects are left that nothing names`);
  return `${moves} kills of the mover and ${erasures} of the erasure: ${events} events and ${entries} entries once, no marker, no object without a row`;
}

try {
  await prepare(served.db);
  const compared = await compareFillings(filler);
  note(`the API and SQL filled an account with ${whole(compared)} events with the same rows`);
  const bulk = await fillBySql(filler, "bulk", EVENTS);
  const atHome = await fillBySql(filler, "at-home", EVENTS);
  const holds = await fillHolds("holds", HOLDS);
  await grantCents(filler, "beside");
  await runAll(served.db, SCHEMA);
  note(`wrote ${whole(2 * EVENTS)} events and ${whole(HOLDS)} holds`);

  const before = bytesByTable();
  const quiet = await debitsWhile("beside", (index) => index < 300);
  let isMoving = true;
  const beside = debitsWhile("beside", () => isMoving);
  const moved = await moveAll(bulk, 1);
  isMoving = false;
  const busy = await beside;
  note(`moved ${whole(moved.events)} events`);
  const between = bytesByTable();
  const { objects, bytes } = await bucketBytes();
  const movedHolds = await moveAll(holds, 3);
  const after = bytesByTable();
  const r2OfHolds = (await bucketBytes()).bytes - bytes;

  const perEvent = (value: number) => (value / moved.events).toFixed(1);
  const perHold = (value: number) => (value / movedHolds.events).toFixed(1);
  console.log(
    table(
      ["For each", "Usage event", "Hold and commit"],
      [
        [
          "Bytes at home before",
          perEvent(sumOf(before, BOOKS) / 2),
          perHold(sumOf(between, BOOKS) - sumOf(after, BOOKS)),
        ],
        [
          "Bytes that stay at home",
          perEvent(sumOf(between, HISTORY_TABLES)),
          perHold(sumOf(after, HISTORY_TABLES) - sumOf(between, HISTORY_TABLES)),
        ],
        ["Bytes in R2", perEvent(bytes), perHold(r2OfHolds)],
        ["Rows read by the move", perEvent(moved.read), perHold(movedHolds.read)],
        ["Rows written by the move", perEvent(moved.written), perHold(movedHolds.written)],
        ["Trips of the move", perEvent(moved.trips), perHold(movedHolds.trips)],
        ["CPU of the move, ms (D1's included)", perEvent(moved.cpu * 1_000), perHold(movedHolds.cpu * 1_000)],
      ],
    ),
  );
  const ms = (times: number[], share: number) => quantile(times, share).toFixed(1);
  console.log(`\n${whole(moved.events)} events in ${objects} objects.`);
  console.log(
    `Debits beside the mover: p50 ${ms(busy, 0.5)} ms, p99 ${ms(busy, 0.99)} ms (${busy.length}); without: ${ms(quiet, 0.5)}, ${ms(quiet, 0.99)} ms (${quiet.length})\n`,
  );

  note("moved the holds");
  const of = { accountId: bulk, atHome };
  const rows = [
    await measureRead("History, 500 entries", "history", { ...of, limit: OF_OBJECT }),
    await measureRead("Page of 100 events (U16)", "page", { ...of, limit: 100 }),
    await measureRead(`Totals of ${whole(EVENTS / 5)} events (U17)`, "totals", { ...of, seq: EVENTS * 0.8 }),
    await measureRead(`Totals of ${whole(EVENTS)} events (U17)`, "totals", { ...of, seq: 0 }),
    await measureRead("Balances at a moment", "as-of", { ...of, seq: Math.ceil(EVENTS / 2) }),
    await measureRead(`Verification of ${whole(EVENTS)} entries`, "verify", of),
  ];
  rows.push([
    `Export of ${whole(EVENTS)} events`,
    await measureExport(bulk, "objects"),
    await measureExport(atHome, "home"),
  ]);
  console.log(table(["Read", "Objects: time, CPU, gets, memory", "At home"], rows));

  note("read");
  const found = await ask("find", { id: eventIdOf("bulk", 1) });
  console.log(
    `\nA repeat of a moved event: ${found.roundTrips} trip, ${found.rowsRead} row read, found: ${found.result.found !== null}`,
  );
  const bucket = (await served.miniflare.getR2Bucket("BUCKET", "bench-0")) as unknown as R2Bucket;
  const restored = await fillByApi(filler, "restored", 1_000);
  console.log(`\n${(await measureRestore({ db: served.db, bucket }, databaseFile(), restored)).join("\n")}`);
  console.log(`\n${await measureKills()}`);
} finally {
  await served.close();
}
