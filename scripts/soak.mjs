/**
 * Runs the long tests: the models, the storms, the kills and the largest exports. `SOAK_OPERATIONS` sets their length, except that
 * of the tests that try every case. Prints the progress of each part, and at the end the table of docs/reliability.md, "Results".
 */
import { spawn } from "node:child_process";
import { createInterface } from "node:readline";

const OPERATIONS = process.env.SOAK_OPERATIONS ?? "20000";
/** The tests that try more cases in the soak than in the suite, by folder. */
const TESTS = {
  unit: ["payment-orders", "granting-model"],
  cross: [
    ...["model", "payments-model", "alerts", "limits-model", "interleavings", "storms", "claims", "known-people"],
    ...["takeover", "faults", "message-faults", "recurring-model", "limit-storms", "period-storms", "price-storms"],
    ...["granting-model", "monthly-statements", "usage-days", "erased-answers", "member-erasures"],
  ],
  worker: [
    ...["auth/jwt", "auth/reseal-secrets", "catalog/admin-keys", "catalog/audit", "clocks/clock", "dashboard/rows"],
    ...[
      "books/credits/bounds",
      "books/credits/previews",
      "books/ledger/time-zones",
      "books/ledger/write",
      "books/recurring/many-balances",
      "books/statements",
    ],
    ...["books/usage/event-list", "books/usage/list-events", "db/presenter"],
    ...["books/usage/environment-usage", "people/capture/faults", "people/capture/retention", "people/identity"],
    ...["erasure/forget-tombstones", "erasure/messages", "erasure/tombstones"],
    ...["exports/faults", "exports/large", "exports/limits"],
  ],
  e2e: ["cli", "client-storm", "dashboard-pages", "dashboard-tasks", "kills", "payment-kills", "erasure-kills"],
};
const FILES = Object.entries(TESTS).flatMap(([folder, names]) => names.map((name) => `test/${folder}/${name}`));

if (!/^[1-9]\d*$/.test(OPERATIONS)) throw new Error("SOAK_OPERATIONS must be a whole number of 1 or more.");
const startMs = Date.now();
const vitest = spawn("vitest", ["run", ...FILES, ...process.argv.slice(2)], {
  env: { ...process.env, SOAK_OPERATIONS: OPERATIONS },
  stdio: ["inherit", "pipe", "inherit"],
});
/** The last line of each part, without its duration and its seed. */
const figures = new Map();
const seeds = new Map();
createInterface({ input: vitest.stdout }).on("line", (line) => {
  console.log(line);
  const [, part, progress] = /soak: ([^:]+): (.*)/.exec(line) ?? [];
  if (part === undefined) return;
  figures.set(part, progress.replace(/(, \d+ s)?(, PROOF_SEED=\d+)?\s*$/, ""));
  const seed = /PROOF_SEED=(\d+)/.exec(progress)?.[1];
  if (seed !== undefined) seeds.set(part, seed);
});

/** Parts that share one line, which has the sum of their figures. */
const TOGETHER = [
  [/^takeovers, /, "Takeovers"],
  [/^interleavings, /, "Interleavings"],
];

function rows() {
  const figuresByName = new Map();
  for (const [part, figure] of figures) {
    const name = TOGETHER.find(([of]) => of.test(part))?.[1];
    const [, count, pieces] = /^([\d,]+) (\w+)$/.exec(figure) ?? [];
    if (name === undefined || count === undefined) {
      figuresByName.set(`${part[0]?.toUpperCase()}${part.slice(1)}`, figure);
      continue;
    }
    const before = Number(figuresByName.get(name)?.replace(/\D/g, "") ?? 0);
    figuresByName.set(name, `${(before + Number(count.replaceAll(",", ""))).toLocaleString("en")} ${pieces}`);
  }
  return [["Part", "Figures"], null, ...figuresByName];
}

function table(all) {
  const widths = [0, 1].map((column) => Math.max(...all.map((row) => row?.[column].length ?? 0)));
  const line = (row) => widths.map((width, column) => row?.[column].padEnd(width) ?? "-".repeat(width));
  return all.map((row) => `| ${line(row).join(" | ")} |`).join("\n");
}

vitest.on("close", (code) => {
  const minutes = Math.round((Date.now() - startMs) / 60_000);
  const outcome = code === 0 ? "no test failed" : "FAILED";
  console.log(`\n**A complete run** (\`SOAK_OPERATIONS=${OPERATIONS}\`, ${minutes} minutes): ${outcome}.\n`);
  console.log(table(rows()));
  console.log(`\nSeeds: ${[...seeds].map(([part, seed]) => `${part} ${seed}`).join(", ")}`);
  process.exitCode = code ?? 1;
});
