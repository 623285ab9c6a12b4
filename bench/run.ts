/**
 * `npm run bench`: the cost of Purser compared with the bare platform, written to RESULTS.md. BENCH_ROUNDS (default 8) is the
 * number of measurements of each side. BENCH_LARGE_MB (default 1000) is the size of the large database; 0 skips that part.
 * With the defaults it takes about ten minutes and 2 GB of disk.
 */
import { mkdtempSync, rmSync, writeFileSync } from "node:fs";
import { tmpdir } from "node:os";
import { join } from "node:path";
import { bundle } from "./bundle.ts";
import { fillPacks, measureCosts } from "./cost.ts";
import { measureFar } from "./far.ts";
import { compareGrowth, growTo, sizeOf } from "./growth.ts";
import { type Results, report } from "./report.ts";
import { prepare, type Served, serve } from "./serve.ts";
import { measureStartup } from "./startup.ts";
import { compare, fillAccounts } from "./throughput.ts";

const number = (name: string, otherwise: number): number => Number(process.env[name] ?? otherwise);
const rounds = number("BENCH_ROUNDS", 8);
const largeMb = number("BENCH_LARGE_MB", 1_000);
const LEDGER_ROWS = 1_000_000;
const directory = mkdtempSync(join(tmpdir(), "purser-bench-"));
let opened = 0;

async function withWorker<T>(script: string, work: (served: Served) => Promise<T>, place?: string): Promise<T> {
  const served = await serve(script, place ?? join(directory, String(opened++)));
  try {
    return await work(served);
  } finally {
    await served.close();
  }
}

async function main(): Promise<void> {
  console.log("Start-up …");
  const startup = await measureStartup();
  const [bare, purser, counted] = await Promise.all(
    ["bench/bare.ts", "src/index.ts", "bench/workers/counted.ts"].map(bundle),
  );
  if (bare === undefined || purser === undefined || counted === undefined) throw new Error("nothing was bundled");

  console.log("Rows and trips …");
  const costs: Results["costs"][number][] = [];
  await withWorker(counted, async (served) => {
    await prepare(served.db);
    await fillPacks(served.db);
    costs.push({ ledgerRows: 1_000, rows: await measureCosts(served, "small") });
  });

  console.log("Far away …");
  const far = await measureFar(join(directory, String(opened++)));

  console.log("Throughput …");
  const comparisons = await withWorker(bare, (one) =>
    withWorker(purser, async (other) => {
      for (const { db } of [one, other]) {
        await prepare(db);
        await fillAccounts(db);
      }
      return compare(one, other, rounds);
    }),
  );

  let growth: Results["growth"] = null;
  if (largeMb > 0) {
    console.log("Growth …");
    const largePlace = join(directory, "large");
    growth = await withWorker(purser, (small) =>
      withWorker(
        purser,
        async (large) => {
          for (const { db } of [small, large]) {
            await prepare(db);
            await fillPacks(db);
            await fillAccounts(db);
          }
          await growTo(small.db, 10e6, 2_000);
          await growTo(large.db, largeMb * 1e6, LEDGER_ROWS);
          const rows = await compareGrowth(small, large, 20 + rounds * 25);
          return { smallBytes: await sizeOf(small.db), largeBytes: await sizeOf(large.db), rows };
        },
        largePlace,
      ),
    );
    await withWorker(
      counted,
      async (served) => {
        costs.push({ ledgerRows: LEDGER_ROWS, rows: await measureCosts(served, "large") });
      },
      largePlace,
    );
  }

  const text = report({ costs, far, comparisons, rounds, startup, growth });
  writeFileSync(join(import.meta.dirname, "RESULTS.md"), text);
  console.log(`\n${text}`);
}

try {
  await main();
} finally {
  rmSync(directory, { recursive: true, force: true });
}
