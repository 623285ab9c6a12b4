import { createHash } from "node:crypto";
import { readdirSync, readFileSync } from "node:fs";
import { join } from "node:path";
import { convertV4MiniflareOptions, Miniflare } from "miniflare";
import { writeKey } from "../src/auth/key.ts";
import { APP_ID } from "./app-id.ts";

const root = join(import.meta.dirname, "..");

/** Of the live environment of `prepare`. */
export const SECRET_KEY = writeKey("secret", { id: 1, appId: APP_ID, mode: "live" }, "b".repeat(22));
export const ADMIN_TOKEN = "administrator-token-of-the-benchmark";

export interface Served {
  readonly url: string;
  readonly db: D1Database;
  /** The CPU seconds of this Worker's process. Null if /proc does not have them. */
  readonly cpuSeconds: () => number | null;
  /** Runs the cron once. */
  readonly cron: () => Promise<void>;
  readonly close: () => Promise<void>;
}

export function workerds(): number[] {
  try {
    return readFileSync(`/proc/${process.pid}/task/${process.pid}/children`, "utf8")
      .trim()
      .split(" ")
      .map(Number)
      .filter((pid) => readFileSync(`/proc/${pid}/comm`, "utf8").includes("workerd"));
  } catch {
    return [];
  }
}

function cpuSecondsOf(pid: number | undefined): number | null {
  if (pid === undefined) return null;
  const fields = readFileSync(`/proc/${pid}/stat`, "utf8")
    .replace(/^.*\) /, "")
    .split(" ");
  return (Number(fields[11]) + Number(fields[12])) / 100;
}

/** A workerd with D1 on disk and a Worker for each script, each with its own socket, without a development server. */
function start(scripts: readonly string[], directory: string): Miniflare {
  const workers = scripts.map((contents, index) => ({
    name: nameOf(index),
    modules: [{ type: "ESModule" as const, path: "index.mjs", contents }],
    compatibilityDate: "2026-10-01",
    d1Databases: { DB: "bench" },
    bindings: {
      ADMIN_TOKEN,
      ANALYTICS_EXPORT_SECRET: "export-secret-of-the-benchmark",
      SETTINGS_SECRET: "settings-secret-of-the-benchmark-01",
      TEST_BALANCE_QUOTA: "1000000",
    },
    unsafeDirectSockets: [{ host: "127.0.0.1", port: 0 }],
  }));
  return new Miniflare(convertV4MiniflareOptions({ resourcePersistencePath: directory, workers }));
}

const nameOf = (index: number): string => `bench-${index}`;

/** A Worker in its own workerd. */
export async function serve(script: string, directory: string): Promise<Served> {
  const before = new Set(workerds());
  const miniflare = start([script], directory);
  const url = (await miniflare.unsafeGetDirectURL(nameOf(0))).origin;
  const pid = workerds().find((one) => !before.has(one));
  return {
    url,
    db: await miniflare.getD1Database("DB", nameOf(0)),
    cpuSeconds: () => cpuSecondsOf(pid),
    cron: async () => {
      const worker = await miniflare.getWorker(nameOf(0));
      await worker.scheduled({ cron: "* * * * *" });
    },
    close: () => miniflare.dispose(),
  };
}

/** Workers in one workerd with one database. Each is an isolate that has served no request. */
export async function serveIsolates(
  scripts: readonly string[],
  directory: string,
): Promise<Pick<Served, "db" | "close"> & { readonly urls: readonly string[] }> {
  const miniflare = start(scripts, directory);
  const urls = await Promise.all(
    scripts.map(async (_, index) => (await miniflare.unsafeGetDirectURL(nameOf(index))).origin),
  );
  return { urls, db: await miniflare.getD1Database("DB", nameOf(0)), close: () => miniflare.dispose() };
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

/** Applies every migration, and inserts an application (live environment 1), its secret key and a pack of three items. */
export async function prepare(db: D1Database): Promise<void> {
  await migrate(db);
  const hash = createHash("sha256").update(SECRET_KEY).digest("base64url");
  await db.batch(
    [
      `INSERT INTO apps (id, name, created_at_ms) VALUES ('${APP_ID}', 'Bench', 0)`,
      `INSERT INTO environments (id, app_id, mode) VALUES (1, '${APP_ID}', 'live')`,
      `INSERT INTO api_keys (hash, id, environment_id, kind, hint, created_at_ms) VALUES ('${hash}', 'key_bench', 1, 'secret', 'sk_live_b', 0)`,
      `INSERT INTO credit_packs (app_id, id, name, name_key, created_at_ms) VALUES ('${APP_ID}', 'cpk_bench', 'Bench', 'bench', 0)`,
      ...[0, 1, 2].map(
        (position) =>
          `INSERT INTO credit_pack_items (app_id, pack_id, position, id, amount_steps, unit) VALUES ('${APP_ID}', 'cpk_bench', ${position}, 'cpi_${position}', 1000000, 'count')`,
      ),
    ].map((statement) => db.prepare(statement)),
  );
}

export async function runAll(db: D1Database, statements: readonly string[]): Promise<void> {
  for (const statement of statements) await db.prepare(statement).run();
}
