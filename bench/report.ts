import { execFileSync } from "node:child_process";
import { readFileSync } from "node:fs";
import { cpus, loadavg, totalmem } from "node:os";
import { join } from "node:path";
import { DISTANCES } from "./distances.ts";
import { type FarRow, farTable } from "./far.ts";
import type { Startup } from "./startup.ts";
import { table, verdict } from "./table.ts";
import type { Comparison } from "./throughput.ts";

export interface Results {
  readonly far: readonly FarRow[];
  readonly comparisons: readonly Comparison[];
  readonly rounds: number;
  readonly startup: Startup;
}

const GZIP_KIB_MAX = 1_024;
const START_MS_MAX = 45;

const inKib = (bytes: number): string => `${(bytes / 1_024).toFixed(1)} KiB`;

const version = (name: string): string =>
  JSON.parse(readFileSync(join(import.meta.dirname, `../node_modules/${name}/package.json`), "utf8")).version;

export function machine(): string {
  const model = cpus()[0]?.model.trim() ?? "unknown CPU";
  return `${cpus().length} × ${model}, ${Math.round(totalmem() / 2 ** 30)} GiB, ${process.platform}`;
}

function revision(): string {
  try {
    return execFileSync("git", ["rev-parse", "--short", "HEAD"], { cwd: import.meta.dirname })
      .toString()
      .trim();
  } catch {
    return "unknown";
  }
}

export function report({ far, comparisons, rounds, startup }: Results): string {
  const { bytes, gzipBytes, activeMs } = startup;
  const gzipKib = gzipBytes / 1_024;
  const lines = [
    "# What Purser costs",
    "",
    "Made by `npm run bench`; do not edit. Ratios hold where absolute figures do not: all of this ran on one machine, with",
    "its load, on workerd's local D1, whose simulator takes a share of every request on both sides. The hosted D1 adds a",
    "network between Worker and database, which these figures leave out.",
    "",
    `- Date: ${new Date().toISOString().slice(0, 10)}, of commit ${revision()}`,
    `- Machine: ${machine()}; load average while the report was written ${loadavg()
      .map((load) => load.toFixed(1))
      .join(", ")}`,
    `- Versions: workerd ${version("workerd")}, wrangler ${version("wrangler")}, hono ${version("hono")}, zod ${version("zod")}, drizzle-orm ${version("drizzle-orm")}, Node ${process.versions.node}, autocannon ${version("autocannon")}`,
    "",
    "## Against the bare platform",
    "",
    "`bench/bare.ts` does the same operations on the same tables and triggers by hand: no framework, no validation, no keys,",
    "no replays, no races, no expired holds, in the fewest statements that still read what there is before they write. Both",
    "run in a workerd of their own with D1 on disk, on a socket of their own, and take turns slice by slice",
    `(${rounds} rounds, after one that is not counted). Throughput is Purser's share of the bare Worker's, median of the slices`,
    "with its quartiles; CPU is the bare Worker's CPU time a request as a share of Purser's, over all slices, which the",
    "machine's other work disturbs less.",
    "",
    table(
      ["Operation", "Connections", "Throughput", "Quartiles", "CPU", "To reach", "Reached"],
      comparisons.map((one) => [
        one.operation,
        String(one.connections),
        one.throughput.median.toFixed(2),
        `${one.throughput.low.toFixed(2)} to ${one.throughput.high.toFixed(2)}`,
        one.cpu?.toFixed(2) ?? "unknown",
        one.target.toFixed(2),
        verdict(one.throughput.median >= one.target),
      ]),
    ),
    "",
    "## Far away",
    "",
    `One call after another, with the database ${DISTANCES.primaryMs} ms away and its replica ${DISTANCES.replicaMs} ms, there and back. Cold is the first request of`,
    "an isolate that has served nobody; warm is one after a write for the same user in that isolate. Trips are those one after",
    "another, and in brackets how many went to the primary (far) and to the replica (near). What distance asks is the time of",
    "the trips that the call may take, cold and warm, with nothing for the work itself.",
    "",
    farTable(far),
    "",
    "## Start",
    "",
    table(
      ["", "Measured", "At most", "Kept"],
      [
        ["Bundle, gzip", inKib(gzipBytes), `${GZIP_KIB_MAX} KiB`, verdict(gzipKib <= GZIP_KIB_MAX)],
        ["The same, not packed", inKib(bytes), "", ""],
        [
          "CPU to start, on this machine",
          activeMs === null ? "unknown" : `${activeMs.toFixed(0)} ms`,
          `${START_MS_MAX} ms`,
          activeMs === null ? "" : verdict(activeMs <= START_MS_MAX),
        ],
      ],
    ),
    "",
  ];
  return lines.join("\n");
}
