/** Workers in workerd with D1 on disk, as the benchmarks start, fill and watch them. */
import { execFile } from "node:child_process";
import { createHash } from "node:crypto";
import { globSync, mkdtempSync, readFileSync, rmSync, writeFileSync } from "node:fs";
import { tmpdir } from "node:os";
import { basename, join } from "node:path";
import { promisify } from "node:util";
import { convertV4MiniflareOptions, Miniflare } from "miniflare";
import { makeKeyId } from "../src/auth/key-session.ts";
import { writeKey } from "../src/db/key-form.ts";
import type { Spent } from "./workers/measured.ts";

export const root = join(import.meta.dirname, "..");

/** The application that `prepare` inserts, in the database with index 0. Its live environment is 1. */
export const APP_ID = `app_${"b".repeat(22)}0`;
export const SECRET_KEY = writeKey("secret", { id: 1, appId: APP_ID, mode: "live" }, "b".repeat(22));
export const PUBLISHABLE_KEY = writeKey("publishable", { id: 1, appId: APP_ID, mode: "live" }, "p".repeat(22));
export const PACK_ID = `cpk_${"bench".padStart(22, "0")}`;
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
  /** Where the database and the objects are on disk. */
  readonly directory: string;
  readonly miniflare: Miniflare;
  /** The CPU seconds of the workerd process so far. */
  readonly cpuSeconds: () => number;
  /** A field of the process's memory, in bytes: `VmRSS` is the present size, `VmHWM` the highest. */
  readonly memoryBytes: (field: "VmRSS" | "VmHWM") => number;
  /** Sets `VmHWM` to the present size. */
  readonly resetPeak: () => void;
  readonly close: () => Promise<void>;
}

/** The workerd processes of this process. */
function workerds(): string[] {
  const children = readFileSync(`/proc/${process.pid}/task/${process.pid}/children`, "utf8").match(/\d+/g) ?? [];
  return children.filter((pid) => readFileSync(`/proc/${pid}/comm`, "utf8").includes("workerd"));
}

/** The bindings of every Worker. A Worker ignores those that it does not need. */
const BINDINGS = {
  ...{ APP_ID, ADMIN_TOKEN, SETTINGS_SECRET, ANALYTICS_EXPORT_SECRET: EXPORT_SECRET, TEST_BALANCE_QUOTA: "1000000" },
  ERASURE_SECRET: "erasure-secret-of-the-benchmark-00001",
};

/**
 * Starts one workerd with one database and an isolate for each script, each with its own socket. `v8Flags` are flags of V8, such as
 * the heap's size. It needs Linux's `/proc`.
 */
export async function serve(scripts: readonly string[], { v8Flags = "", bindings = {} } = {}): Promise<Served> {
  const before = new Set(workerds());
  const directory = mkdtempSync(join(tmpdir(), "purser-bench-"));
  const nameOf = (index: number) => `bench-${index}`;
  const workers = scripts.map((contents, index) => ({
    name: nameOf(index),
    modules: [{ type: "ESModule" as const, path: "index.mjs", contents }],
    compatibilityDate: "2026-10-01",
    d1Databases: { DB: "bench" },
    r2Buckets: { BUCKET: "bench" },
    bindings: { ...BINDINGS, ...bindings },
    unsafeDirectSockets: [{ host: "127.0.0.1", port: 0 }],
  }));
  // Miniflare reads this variable when it starts.
  process.env.MINIFLARE_WORKERD_V8_FLAGS = v8Flags;
  const miniflare = new Miniflare(convertV4MiniflareOptions({ resourcePersistencePath: directory, workers }));
  const urls = await Promise.all(workers.map(({ name }) => miniflare.unsafeGetDirectURL(name)));
  const pid = workerds().find((one) => !before.has(one));
  if (pid === undefined) throw new Error("workerd did not start");
  return {
    urls: urls.map(({ origin }) => origin),
    db: await miniflare.getD1Database("DB", nameOf(0)),
    directory,
    miniflare,
    cpuSeconds: () => {
      const [, fields = ""] = readFileSync(`/proc/${pid}/stat`, "utf8").split(") ");
      const [user, system] = fields.split(" ").slice(11, 13);
      return (Number(user) + Number(system)) / 100;
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
  for (const file of globSync("drizzle/*.sql", { cwd: root }).sort()) {
    // A local D1 runs every statement of a text. From here, each call of `prepare` is a trip to workerd.
    await db.prepare(readFileSync(join(root, file), "utf8")).run();
  }
}

/**
 * Applies every migration, and inserts an application (live environment 1), its keys, a pack `bench` of three items in `count`, and
 * packs `tokens` and `cents` of one large item in that unit.
 */
export async function prepare(db: D1Database): Promise<void> {
  await migrate(db);
  /** Ids are as long as Purser's own, because rows hold them. */
  const packId = "'cpk_' || substr('0000000000000000000000' || value, -22)";
  const keySql = (kind: string, key: string) =>
    `INSERT INTO api_keys (hash, id, environment_id, kind, hint, created_at_ms)
     VALUES ('${createHash("sha256").update(key).digest("base64url")}', '${makeKeyId(createHash("sha256").update(key).digest("base64url"))}', 1, '${kind}', '${key.slice(0, 9)}', 0)`;
  await runAll(db, [
    `INSERT INTO apps (id, name, created_at_ms) VALUES ('${APP_ID}', 'Bench', 0)`,
    `INSERT INTO environments (id, app_id, mode) VALUES (1, '${APP_ID}', 'live')`,
    keySql("secret", SECRET_KEY),
    keySql("publishable", PUBLISHABLE_KEY),
    `INSERT INTO credit_packs (app_id, id, pack_number, last_item_number, name, name_key, created_at_ms)
     SELECT '${APP_ID}', ${packId}, 1 + key, 3, value, value, 0 FROM json_each('["bench", "tokens", "cents"]')`,
    `INSERT INTO credit_pack_items (app_id, pack_id, position, item_number, amount_minor, unit)
     SELECT '${APP_ID}', '${PACK_ID}', value, 1 + value, 1000000, 'count' FROM json_each('[0, 1, 2]')
     UNION ALL SELECT '${APP_ID}', ${packId}, 0, 1, 1000000000000, value FROM json_each('["tokens", "cents"]')`,
  ]);
}

export async function runAll(db: D1Database, statements: readonly string[]): Promise<void> {
  for (const statement of statements) await db.prepare(statement).run();
}

export interface Call {
  readonly path: string;
  readonly body?: object;
  /** POST with a body and GET without one, if it is missing. */
  readonly method?: string;
  readonly key?: string;
  readonly headers?: Readonly<Record<string, string>>;
}

/** Sends JSON and returns the JSON of the response. Any status but 200 ends the run. */
export async function call(url: string, { path, body, method, key = SECRET_KEY, headers }: Call) {
  const response = await fetch(url + path, {
    method: method ?? (body ? "POST" : "GET"),
    headers: { authorization: `Bearer ${key}`, "content-type": "application/json", ...headers },
    ...(body && { body: JSON.stringify(body) }),
  });
  const text = await response.text();
  if (response.status !== 200) throw new Error(`${path}: ${response.status} ${text}`);
  return JSON.parse(text);
}

/** The trips and rows of a measured Worker since this was last asked. */
export const spentOf = (url: string): Promise<Spent> => call(url, { path: "/bench/spent" });
