/** Workers in workerd with D1 on disk, as the benchmarks start, fill and watch them. */
import { execFile } from "node:child_process";
import { createHash } from "node:crypto";
import { mkdtempSync, readdirSync, readFileSync, rmSync, writeFileSync } from "node:fs";
import { cpus, loadavg, tmpdir, totalmem } from "node:os";
import { basename, join } from "node:path";
import { promisify } from "node:util";
import { convertV4MiniflareOptions, Miniflare } from "miniflare";
import { writeKey } from "../src/auth/key.ts";

export const root = join(import.meta.dirname, "..");

/** The application that `prepare` inserts, in the database with index 0. Its live environment is 1. */
export const APP_ID = `app_${"b".repeat(22)}0`;
export const SECRET_KEY = writeKey("secret", { id: 1, appId: APP_ID, mode: "live" }, "b".repeat(22));
export const PUBLISHABLE_KEY = writeKey("publishable", { id: 1, appId: APP_ID, mode: "live" }, "p".repeat(22));
export const ADMIN_TOKEN = "administrator-token-of-the-benchmark";
export const EXPORT_SECRET = "export-secret-of-the-benchmark";
export const SETTINGS_SECRET = "settings-secret-of-the-benchmark-0001";

/** Bundles a Worker as `npm run deploy` does, and returns its code. `entry` is a path from the root. */
export async function bundle(entry: string): Promise<string> {
  const directory = mkdtempSync(join(tmpdir(), "purser-bundle-"));
  try {
    const args = ["deploy", entry, "--dry-run", "--outdir", directory];
    await promisify(execFile)(join(root, "node_modules/.bin/wrangler"), args, { cwd: root });
    return readFileSync(join(directory, basename(entry).replace(/\.ts$/, ".js")), "utf8");
  } finally {
    rmSync(directory, { recursive: true });
  }
}

export interface Served {
  /** One for each script. */
  readonly urls: readonly string[];
  readonly db: D1Database;
  /** The CPU seconds of the workerd process so far. */
  readonly cpuSeconds: () => number;
  /** A field of the process's memory, in bytes: `VmRSS` is the present size, `VmHWM` the highest. */
  readonly memoryBytes: (field: "VmRSS" | "VmHWM") => number;
  /** Sets `VmHWM` to the present size. */
  readonly resetPeak: () => void;
  readonly close: () => Promise<void>;
}

/** The workerd processes of this process. */
const workerds = (): number[] =>
  readFileSync(`/proc/${process.pid}/task/${process.pid}/children`, "utf8")
    .trim()
    .split(" ")
    .map(Number)
    .filter((pid) => pid > 0 && readFileSync(`/proc/${pid}/comm`, "utf8").includes("workerd"));

interface Options {
  /** Flags of V8, such as the heap's size. */
  readonly v8Flags?: string;
  readonly bindings?: Readonly<Record<string, string>>;
}

/** Starts one workerd with one database and an isolate for each script, each with its own socket. It needs Linux's `/proc`. */
export async function serve(scripts: readonly string[], { v8Flags, bindings }: Options = {}): Promise<Served> {
  const before = new Set(workerds());
  const directory = mkdtempSync(join(tmpdir(), "purser-bench-"));
  const nameOf = (index: number) => `bench-${index}`;
  const workers = scripts.map((contents, index) => ({
    name: nameOf(index),
    modules: [{ type: "ESModule" as const, path: "index.mjs", contents }],
    compatibilityDate: "2026-10-01",
    d1Databases: { DB: "bench" },
    bindings: {
      ...{
        APP_ID,
        ADMIN_TOKEN,
        SETTINGS_SECRET,
        ANALYTICS_EXPORT_SECRET: EXPORT_SECRET,
        TEST_BALANCE_QUOTA: "1000000",
      },
      ...{ ERASURE_SECRET: "erasure-secret-of-the-benchmark-00001", ...bindings },
    },
    unsafeDirectSockets: [{ host: "127.0.0.1", port: 0 }],
  }));
  // Miniflare reads this variable when it starts.
  if (v8Flags === undefined) delete process.env.MINIFLARE_WORKERD_V8_FLAGS;
  else process.env.MINIFLARE_WORKERD_V8_FLAGS = v8Flags;
  const miniflare = new Miniflare(convertV4MiniflareOptions({ resourcePersistencePath: directory, workers }));
  const urls = await Promise.all(
    scripts.map(async (_, index) => (await miniflare.unsafeGetDirectURL(nameOf(index))).origin),
  );
  const pid = workerds().find((one) => !before.has(one));
  if (pid === undefined) throw new Error("workerd did not start");
  return {
    urls,
    db: await miniflare.getD1Database("DB", nameOf(0)),
    cpuSeconds: () => {
      const fields = readFileSync(`/proc/${pid}/stat`, "utf8")
        .replace(/^.*\) /, "")
        .split(" ");
      return (Number(fields[11]) + Number(fields[12])) / 100;
    },
    memoryBytes: (field) => {
      const line = new RegExp(`^${field}:\\s*(\\d+)`, "m").exec(readFileSync(`/proc/${pid}/status`, "utf8"));
      return Number(line?.[1]) * 1024;
    },
    resetPeak: () => writeFileSync(`/proc/${pid}/clear_refs`, "5"),
    close: async () => {
      await miniflare.dispose();
      rmSync(directory, { recursive: true, force: true });
    },
  };
}

/** Applies every migration. */
export async function migrate(db: D1Database): Promise<void> {
  const migrations = join(root, "drizzle");
  for (const file of readdirSync(migrations)
    .filter((name) => name.endsWith(".sql"))
    .sort()) {
    const statements = readFileSync(join(migrations, file), "utf8").split("--> statement-breakpoint");
    await db.batch(statements.map((statement) => db.prepare(statement)));
  }
}

/** Applies every migration, and inserts an application (live environment 1), its keys and a pack of three items. */
export async function prepare(db: D1Database): Promise<void> {
  await migrate(db);
  const keySql = (kind: string, key: string) =>
    `INSERT INTO api_keys (hash, id, environment_id, kind, hint, created_at_ms)
     VALUES ('${createHash("sha256").update(key).digest("base64url")}', 'key_${kind}', 1, '${kind}', '${key.slice(0, 9)}', 0)`;
  await runAll(db, [
    `INSERT INTO apps (id, name, created_at_ms) VALUES ('${APP_ID}', 'Bench', 0)`,
    `INSERT INTO environments (id, app_id, mode) VALUES (1, '${APP_ID}', 'live')`,
    keySql("secret", SECRET_KEY),
    keySql("publishable", PUBLISHABLE_KEY),
    `INSERT INTO credit_packs (app_id, id, name, name_key, created_at_ms) VALUES ('${APP_ID}', 'cpk_bench', 'Bench', 'bench', 0)`,
    `INSERT INTO credit_pack_items (app_id, pack_id, position, id, amount_steps, unit)
     SELECT '${APP_ID}', 'cpk_bench', value, 'cpi_' || value, 1000000, 'count' FROM json_each('[0, 1, 2]')`,
  ]);
}

export async function runAll(db: D1Database, statements: readonly string[]): Promise<void> {
  for (const statement of statements) await db.prepare(statement).run();
}

export const median = (values: readonly number[]): number => {
  const sorted = values.toSorted((a, b) => a - b);
  return sorted[Math.floor(sorted.length / 2)] ?? Number.NaN;
};

export const whole = (value: number): string => Math.round(value).toLocaleString("en");

/** A table in Markdown. */
export const table = (head: readonly string[], rows: readonly (readonly string[])[]): string =>
  [head, head.map(() => "---"), ...rows].map((cells) => `| ${cells.join(" | ")} |`).join("\n");

/** The machine, and its load at this moment. */
export const machine = (): string =>
  `${cpus().length} × ${cpus()[0]?.model.trim()}, ${Math.round(totalmem() / 2 ** 30)} GiB, ${process.platform}; ` +
  `load average ${loadavg()
    .map((load) => load.toFixed(1))
    .join(", ")}`;
