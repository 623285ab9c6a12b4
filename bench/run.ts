/**
 * `npm run bench`: Purser's throughput and latency compared with a Worker written by hand, its trips with a far database, and its
 * start. Prints the tables of docs/scale.md. BENCH_ROUNDS (default 8) is the number of measurements of each side. It takes
 * about seven minutes.
 */
import { execFileSync } from "node:child_process";
import { mkdtempSync, readFileSync, rmSync } from "node:fs";
import type { Profiler } from "node:inspector";
import { tmpdir } from "node:os";
import { join } from "node:path";
import { gzipSync } from "node:zlib";
import { measureFar } from "./far.ts";
import { machine, median } from "./figures.ts";
import { bundle, prepare, root, serve } from "./serve.ts";
import { compare, fillAccounts } from "./throughput.ts";

const ROUNDS = Number(process.env.BENCH_ROUNDS ?? 8);
const STARTS = 5;

/** The CPU milliseconds of one start of the Worker. */
function startMs(): number {
  const directory = mkdtempSync(join(tmpdir(), "purser-startup-"));
  try {
    const file = join(directory, "startup.cpuprofile");
    const args = ["check", "startup", "--outfile", file];
    execFileSync(join(root, "node_modules/.bin/wrangler"), args, { cwd: root, stdio: "pipe", timeout: 120_000 });
    const { nodes, samples, timeDeltas } = JSON.parse(readFileSync(file, "utf8")) as Profiler.Profile;
    const idle = nodes.filter(({ callFrame }) => ["(idle)", "(root)"].includes(callFrame.functionName));
    const idleIds = new Set(idle.map(({ id }) => id));
    const activeUs = (timeDeltas ?? []).filter((_, index) => !idleIds.has(samples?.[index] ?? Number.NaN));
    return activeUs.reduce((sum, delta) => sum + delta, 0) / 1_000;
  } finally {
    rmSync(directory, { recursive: true, force: true });
  }
}

console.log(`${new Date().toISOString().slice(0, 10)}, ${machine()}`);
const [bareCode = "", purserCode = ""] = await Promise.all(["bench/workers/bare.ts", "src/index.ts"].map(bundle));
const kib = (bytes: number) => `${(bytes / 1_024).toFixed(1)} KiB`;
console.log(
  `Start: ${kib(gzipSync(purserCode).length)} of gzip, ${kib(Buffer.byteLength(purserCode))} unpacked, ` +
    `${median(Array.from({ length: STARTS }, startMs)).toFixed(0)} ms of CPU\n`,
);
console.log(`${await measureFar()}\n`);

const [bare, purser] = [await serve([bareCode]), await serve([purserCode])];
try {
  for (const { db } of [bare, purser]) {
    await prepare(db);
    await fillAccounts(db);
  }
  console.log(`\n${await compare(bare, purser, ROUNDS)}`);
} finally {
  await bare.close();
  await purser.close();
}
