/**
 * `npm run bench:race -- <commit>`: fifty connections that all write for one user, through three Workers over one database, side by
 * side with another commit. Prints the ratios of throughput and p99. BENCH_ROUNDS (default 6) is the number of measurements of each
 * side, BENCH_REQUESTS (default 1000) the requests of one.
 */
import { execFileSync } from "node:child_process";
import { mkdtempSync, symlinkSync } from "node:fs";
import { tmpdir } from "node:os";
import { join } from "node:path";
import autocannon from "autocannon";
import { measureInTurn, median, quantile, table, whole } from "./figures.ts";
import * as here from "./serve.ts";

type Bench = typeof here;
type Served = Awaited<ReturnType<Bench["serve"]>>;

const ROUNDS = Number(process.env.BENCH_ROUNDS ?? 6);
const REQUESTS = Number(process.env.BENCH_REQUESTS ?? 1_000);
/** The connections to each Worker: fifty together. */
const CONNECTIONS = [17, 17, 16];
const USER = "raced";
/** The most answers that may be no success. A write gives up after very many conflicts, with 503. */
const FAILED_MAX = 0.01;

let unique = 0;
const newName = (prefix: string) => `${prefix}_${process.pid}_${unique++}`;
const usage = { event: "chat.done", quantities: { tokens: 1 } };

type Context = { id?: string };
type Make = (context: Context) => readonly [path: string, body: object];

const debit: Make = () => ["/api/v1/usage/events", { ...usage, userId: USER, eventId: newName("e") }];
const hold: Make = (context) => {
  context.id = newName("res");
  return ["/api/v1/usage/reservations", { ...usage, userId: USER, reservationId: context.id }];
};
const commit: Make = ({ id }) => [
  `/api/v1/usage/reservations/${id}/commit`,
  { eventId: newName("c"), quantities: usage.quantities },
];

const RACES: Readonly<Record<string, readonly Make[]>> = {
  debits: [debit],
  "holds with commits": [hold, commit],
  both: [debit, hold, debit, commit],
};

/** One side of the comparison, with the key of its application. */
interface Side {
  readonly served: Served;
  readonly key: string;
}

/** Starts three Workers of a checkout over one database, in which the user has ten balances that last. */
async function start(bench: Bench): Promise<Side> {
  const code = await bench.bundle("src/index.ts");
  const served = await bench.serve(CONNECTIONS.map(() => code));
  await bench.prepare(served.db);
  for (let index = 0; index < 10; index++) {
    const body = { userId: USER, packId: "tokens", externalRef: `order_${index}` };
    await bench.call(served.urls[0] ?? "", { path: "/api/v1/credits/grant", body });
  }
  return { served, key: bench.SECRET_KEY };
}

/** Checks a commit out beside this one, with the same dependencies. */
function checkOut(commitId: string): string {
  const directory = join(mkdtempSync(join(tmpdir(), "purser-race-")), "checkout");
  execFileSync("git", ["worktree", "add", "--detach", directory, commitId], { cwd: here.root, stdio: "pipe" });
  symlinkSync(join(here.root, "node_modules"), join(directory, "node_modules"));
  return directory;
}

/** Lets all connections race. Returns the responses a second and the p99 of their times. */
async function race({ served, key }: Side, makes: readonly Make[]) {
  const requests = makes.map((make) => ({
    headers: { authorization: `Bearer ${key}`, "content-type": "application/json" },
    setupRequest: (request: object, context: Context) => {
      const [path, body] = make(context);
      return { ...request, path, method: "POST", body: JSON.stringify(body) };
    },
  }));
  const all = CONNECTIONS.reduce((sum, count) => sum + count, 0);
  const timesMs: number[] = [];
  const runs = served.urls.map((url, index) => {
    const connections = CONNECTIONS[index] ?? 0;
    const amount = Math.ceil((REQUESTS * connections) / all);
    const run = autocannon({ url, connections, amount, sampleInt: 50, requests });
    run.on("response", (_client, _status, _bytes, responseMs) => timesMs.push(responseMs));
    return run;
  });
  const results = await Promise.all(runs);
  const failed = results.reduce((sum, { non2xx, errors, timeouts }) => sum + non2xx + errors + timeouts, 0);
  if (failed > timesMs.length * FAILED_MAX) throw new Error(`${failed} of ${timesMs.length} requests failed`);
  // Each connection waits for its response before the next request.
  const averageMs = timesMs.reduce((sum, ms) => sum + ms, 0) / timesMs.length;
  return { rate: (all * 1_000) / averageMs, p99Ms: quantile(timesMs, 0.99), failed };
}

const commitId = process.argv[2];
if (commitId === undefined) throw new Error("Name the commit to compare with: npm run bench:race -- <commit>");
const directory = checkOut(commitId);
const sides: Side[] = [];
try {
  const other = (await import(join(directory, "bench/serve.ts"))) as Bench;
  sides.push(await start(here), await start(other));
  const rows: string[][] = [];
  for (const [name, makes] of Object.entries(RACES)) {
    const measured = await measureInTurn(ROUNDS, async (side) => {
      const one = side === "Purser" ? sides[0] : sides[1];
      if (one === undefined) throw new Error("both sides have started");
      return race(one, makes);
    });
    const ratio = (field: "rate" | "p99Ms") => {
      const ratios = measured.Purser.map((one, round) => one[field] / (measured.bare[round]?.[field] ?? Number.NaN));
      const [low, middle, high] = [0.25, 0.5, 0.75].map((share) => quantile(ratios, share).toFixed(2));
      return `${middle} (${low} to ${high})`;
    };
    const both = (field: "rate" | "p99Ms" | "failed") =>
      [measured.Purser, measured.bare].map((all) => whole(median(all.map((one) => one[field])))).join(" / ");
    rows.push([name, ratio("rate"), ratio("p99Ms"), both("rate"), both("p99Ms"), both("failed")]);
    console.log(rows.at(-1)?.join(", "));
  }
  const head = ["Race", "Throughput", "p99", "Responses a second", "p99, ms", "Failed"];
  console.log(`\nThis commit compared with ${commitId}:\n\n${table(head, rows)}`);
} finally {
  for (const { served } of sides) await served.close();
  execFileSync("git", ["worktree", "remove", "--force", directory], { cwd: here.root, stdio: "pipe" });
}
