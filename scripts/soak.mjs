/**
 * The long runs of the models, the storms, the kills and the largest exports. `SOAK_OPERATIONS` says how long: the parts grow with
 * it, save those that try everything there is. Prints how far each part is, and its figures once more at the end.
 */
import { spawn } from "node:child_process";
import { createInterface } from "node:readline";

const OPERATIONS = process.env.SOAK_OPERATIONS ?? "60000";
const PARTS = [
  ...["model", "payments-model", "alerts", "limits-model", "interleavings", "storms", "claims", "known-people"],
  ...["takeover", "faults"],
].map((name) => `test/cross/${name}`);
const FILES = [
  ...PARTS,
  "test/worker/exports/limits",
  "test/worker/exports/large",
  "test/worker/dashboard/rows",
  "test/e2e/client-storm",
  "test/e2e/dashboard-pages",
  "test/e2e/kills",
  "test/e2e/payment-kills",
  "test/e2e/erasure-kills",
];

if (!/^[1-9]\d*$/.test(OPERATIONS)) throw new Error("SOAK_OPERATIONS must be a whole number of 1 or more.");
const startMs = Date.now();
const vitest = spawn("vitest", ["run", "--project", "worker", "--project", "e2e", ...FILES, ...process.argv.slice(2)], {
  env: { ...process.env, SOAK_OPERATIONS: OPERATIONS },
  stdio: ["inherit", "pipe", "inherit"],
});
/** The last line of each part. */
const figures = new Map();
createInterface({ input: vitest.stdout }).on("line", (line) => {
  console.log(line);
  const [, part, told] = /soak: ([^:]+): (.*)/.exec(line) ?? [];
  if (part !== undefined) figures.set(part, told);
});
vitest.on("close", (code) => {
  const minutes = ((Date.now() - startMs) / 60_000).toFixed(1);
  console.log(`\nSOAK_OPERATIONS=${OPERATIONS}, ${minutes} minutes, ${code === 0 ? "nothing failed" : "FAILED"}:`);
  for (const [part, told] of figures) console.log(`- ${part}: ${told}`);
  process.exitCode = code ?? 1;
});
