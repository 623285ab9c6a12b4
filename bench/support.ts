import { createHash, randomBytes } from "node:crypto";
import { mkdtemp, readdir, readFile, rm } from "node:fs/promises";
import { get, type IncomingMessage } from "node:http";
import { tmpdir } from "node:os";
import { join } from "node:path";
import { convertV4MiniflareOptions, Miniflare } from "miniflare";
import { writeKey } from "../src/auth/key.ts";
import { idIn } from "../src/db/session.ts";
import { randomId } from "../src/lib/ids.ts";
import { bundle } from "./bundle.ts";

const root = join(import.meta.dirname, "..");

/**
 * The memory limit of each isolate: half of the hosted platform's. Without a limit, V8 keeps garbage while there is memory, and
 * peaks would not show what an export needs.
 */
export const HEAP_MB = 64;

const EXPORT_SECRET = randomBytes(16).toString("hex");
export const ADMIN_TOKEN = randomBytes(32).toString("hex");

export interface Bench {
  readonly urls: Readonly<Record<string, string>>;
  readonly db: D1Database;
  /** The memory of the workerd process, in bytes. */
  readonly residentBytes: () => Promise<number>;
  readonly close: () => Promise<void>;
}

/** Serves Workers in one workerd, each at its own port, with one D1 on disk with all migrations. */
export async function startBench(scripts: Readonly<Record<string, string>>): Promise<Bench> {
  const scratch = await mkdtemp(join(tmpdir(), "purser-bench-"));
  const workers = [];
  for (const [name, script] of Object.entries(scripts)) {
    const contents = await bundle(script);
    workers.push({
      name,
      modules: [{ type: "ESModule" as const, path: `${name}.js`, contents }],
      compatibilityDate: "2026-10-01",
      d1Databases: { DB: "purser" },
      bindings: { ADMIN_TOKEN, ANALYTICS_EXPORT_SECRET: EXPORT_SECRET, ERASURE_SECRET: EXPORT_SECRET },
      unsafeDirectSockets: [{ port: 0 }],
    });
  }
  process.env.MINIFLARE_WORKERD_V8_FLAGS = `--max-heap-size=${HEAP_MB}`;
  const miniflare = new Miniflare(convertV4MiniflareOptions({ resourcePersistencePath: scratch, workers }));
  await miniflare.ready;
  const urls: Record<string, string> = {};
  for (const name of Object.keys(scripts)) urls[name] = (await miniflare.unsafeGetDirectURL(name)).origin;
  const db = await miniflare.getD1Database("DB", Object.keys(scripts)[0]);
  for (const file of (await readdir(join(root, "drizzle"))).filter((name) => name.endsWith(".sql")).sort()) {
    const statements = (await readFile(join(root, "drizzle", file), "utf8")).split("--> statement-breakpoint");
    await db.batch(statements.map((statement) => db.prepare(statement)));
  }
  return {
    urls,
    db: db as unknown as D1Database,
    residentBytes: await residentBytesOfWorkerd(),
    close: async () => {
      await miniflare.dispose();
      await rm(scratch, { recursive: true, force: true });
    },
  };
}

/** Reads the resident memory of the workerd that this process started. */
async function residentBytesOfWorkerd(): Promise<() => Promise<number>> {
  const status = async (pid: string) => readFile(`/proc/${pid}/status`, "utf8").catch(() => "");
  const field = (text: string, name: string) => new RegExp(`^${name}:\\s*(\\S+)`, "m").exec(text)?.[1];
  for (const pid of (await readdir("/proc")).filter((name) => /^\d+$/.test(name))) {
    const text = await status(pid);
    if (field(text, "PPid") !== `${process.pid}` || field(text, "Name") !== "workerd") continue;
    return async () => Number(field(await status(pid), "VmRSS") ?? 0) * 1024;
  }
  throw new Error("No workerd was started; /proc is needed to see its memory.");
}

/** Inserts an application with a live secret key into the tables. */
export async function makeApp(db: D1Database): Promise<{ appId: string; environmentId: number; key: string }> {
  const appId = idIn(0, randomId("app_"));
  await db.prepare("INSERT INTO apps (id, name, created_at_ms) VALUES (?, 'Bench', 0)").bind(appId).run();
  const row = await db
    .prepare("INSERT INTO environments (app_id, mode) VALUES (?, 'live') RETURNING id")
    .bind(appId)
    .first<{ id: number }>();
  if (row === null) throw new Error("no environment was made");
  const key = writeKey("secret", { id: row.id, appId, mode: "live" }, randomId(""));
  await db
    .prepare(
      `INSERT INTO api_keys (hash, id, environment_id, kind, hint, created_at_ms)
       VALUES (?, 'key_bench', CAST(? AS INTEGER), 'secret', 'sk_live_', 0)`,
    )
    .bind(createHash("sha256").update(key).digest("base64url"), row.id)
    .run();
  return { appId, environmentId: row.id, key };
}

export interface Reading {
  readonly firstByteMs: number;
  readonly totalMs: number;
  readonly bytes: number;
  readonly peakBytes: number;
  /** The last characters of the response. A complete document ends with its closing braces. */
  readonly end: string;
}

/** Reads a response to its end or for `forMs`, at `bytesASecond` at most, and measures workerd's memory meanwhile. */
export async function readAnswer(
  url: string,
  residentBytes: () => Promise<number>,
  limit: { readonly bytesASecond?: number; readonly forMs?: number } = {},
): Promise<Reading> {
  let peakBytes = 0;
  const watch = setInterval(async () => {
    peakBytes = Math.max(peakBytes, await residentBytes());
  }, 20);
  const startedMs = performance.now();
  try {
    const response = await new Promise<IncomingMessage>((resolve, reject) => get(url, resolve).on("error", reject));
    if (response.statusCode !== 200) throw new Error(`${response.statusCode} from ${new URL(url).pathname}`);
    let firstByteMs = 0;
    let bytes = 0;
    let end = "";
    for await (const chunk of response as AsyncIterable<Buffer>) {
      if (bytes === 0) firstByteMs = performance.now() - startedMs;
      bytes += chunk.byteLength;
      end = chunk.subarray(-8).toString("latin1");
      const elapsedMs = performance.now() - startedMs;
      if (limit.forMs !== undefined && elapsedMs > limit.forMs) break;
      const aheadMs = limit.bytesASecond === undefined ? 0 : (bytes * 1_000) / limit.bytesASecond - elapsedMs;
      if (aheadMs > 1) await new Promise((resolve) => setTimeout(resolve, aheadMs));
    }
    return { firstByteMs, totalMs: performance.now() - startedMs, bytes, peakBytes, end };
  } finally {
    clearInterval(watch);
  }
}

export const median = (values: readonly number[]): number => {
  const sorted = values.toSorted((a, b) => a - b);
  return sorted[Math.floor(sorted.length / 2)] ?? Number.NaN;
};
