/**
 * `npm run bench`: the cost of Purser compared with the bare platform, written to RESULTS.md. BENCH_ROUNDS (default 8) is the
 * number of measurements of each side. It takes about seven minutes.
 */
import { mkdtempSync, rmSync } from "node:fs";
import { tmpdir } from "node:os";
import { join } from "node:path";
import { bundle } from "./bundle.ts";
import { measureFar } from "./far.ts";
import { report } from "./report.ts";
import { writeReport } from "./results.ts";
import { prepare, type Served, serve } from "./serve.ts";
import { measureStartup } from "./startup.ts";
import { compare, fillAccounts } from "./throughput.ts";

const rounds = Number(process.env.BENCH_ROUNDS ?? 8);
const directory = mkdtempSync(join(tmpdir(), "purser-bench-"));
let opened = 0;

async function withWorker<T>(script: string, work: (served: Served) => Promise<T>): Promise<T> {
  const served = await serve(script, join(directory, String(opened++)));
  try {
    return await work(served);
  } finally {
    await served.close();
  }
}

async function main(): Promise<void> {
  console.log("Start-up …");
  const startup = await measureStartup();
  const [bare, purser] = await Promise.all(["bench/bare.ts", "src/index.ts"].map(bundle));
  if (bare === undefined || purser === undefined) throw new Error("nothing was bundled");

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

  const text = report({ far, comparisons, rounds, startup });
  writeReport(text);
  console.log(`\n${text}`);
}

try {
  await main();
} finally {
  rmSync(directory, { recursive: true, force: true });
}
