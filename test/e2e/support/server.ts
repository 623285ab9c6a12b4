import { createHash } from "node:crypto";
import { readFileSync } from "node:fs";
import { join } from "node:path";
import { convertV4MiniflareOptions, Miniflare } from "miniflare";
import { inject } from "vitest";
import { migrate } from "../../../bench/serve.ts";
import { makeKeyId } from "../../../src/auth/key-session.ts";
import { writeKey } from "../../../src/db/key-form.ts";
import { idIn } from "../../../src/db/session.ts";
import { randomId } from "../../../src/lib/ids.ts";
import type { Mode } from "../../../src/runtime.ts";
import { SETTINGS_SECRET, storedSettingOf } from "../../support/end-user-setting.ts";

/** The secrets of every Worker that these tests start. */
export const ADMIN_TOKEN = "administrator-token-of-the-tests-0001";
const ANALYTICS_EXPORT_SECRET = "export-secret-of-the-tests";
const ERASURE_SECRET = "erasure-secret-of-the-tests-00001";
export const SECRETS = { ADMIN_TOKEN, ANALYTICS_EXPORT_SECRET, SETTINGS_SECRET, ERASURE_SECRET };
/** The Worker's name in Miniflare. */
export const WORKER = "purser";

/** The items of the pack "Starter" in the README of the client. */
export const STARTER_ITEMS = [
  { amount: 100_000, unit: "tokens", matches: [{ event: "chat.*" }] },
  { amount: 500, unit: "cents" },
] as const;

/** An application for one test, with a key of each kind in each mode. */
export interface ServedApp {
  readonly appId: string;
  readonly environmentIds: Readonly<Record<Mode, number>>;
  readonly keys: Readonly<Record<`${"sk" | "pk"}_${Mode}`, string>>;
}

export interface Server {
  /** The address, without a slash at its end. */
  readonly url: string;
  /** The Worker's own database, for a test's direct reads and writes. */
  readonly db: D1Database;
  /** Creates an application directly in the tables. `endUserAuth` is its setting of end-user tokens. */
  readonly makeApp: (endUserAuth?: object) => Promise<ServedApp>;
  /** Runs the Worker's cron once, as Cloudflare does every minute. */
  readonly cron: () => Promise<void>;
  readonly close: () => Promise<void>;
}

export interface ServerOptions {
  readonly vars?: Readonly<Record<string, string>>;
  /** The code of another Worker with the same bindings. */
  readonly module?: ReturnType<typeof builtModule>;
}

/** The Worker's code, as it is deployed. */
export const builtModule = () => ({
  type: "ESModule" as const,
  path: "index.js",
  contents: readFileSync(join(inject("builtWorker"), "index.js"), "utf8"),
});

/** Runs the Worker's cron until its work is done. */
export async function runCron(miniflare: Miniflare): Promise<void> {
  const found: unknown = await miniflare.getWorker(WORKER);
  // Miniflare's types do not have this method of a Worker's fetcher.
  const worker = found as { scheduled: (options: object) => Promise<{ outcome: string }> };
  const { outcome } = await worker.scheduled({ cron: "* * * * *" });
  if (outcome !== "ok") throw new Error(`the cron ended with ${outcome}`);
}

let shared: Promise<Server> | undefined;
/**
 * The server of all test files of this process that need no setting of their own: a start computes for more than a second. It ends
 * with the process. Each test makes its own application.
 */
export function sharedServer(): Promise<Server> {
  shared ??= startServer();
  return shared;
}

/** Serves the Worker as it is deployed on a free port, over an empty database with all migrations applied. */
export async function startServer({ vars = {}, module = builtModule() }: ServerOptions = {}): Promise<Server> {
  const options = inject("workerOptions");
  const miniflare = new Miniflare(
    convertV4MiniflareOptions({
      workers: [
        {
          ...options,
          name: WORKER,
          modules: [module],
          bindings: Object.assign({}, options.bindings, SECRETS, vars),
        },
      ],
    }),
  );
  const { origin } = await miniflare.ready;
  const db = await miniflare.getD1Database("DB", WORKER);
  await migrate(db);
  return {
    url: origin,
    db,
    makeApp: (endUserAuth) => makeApp(db, endUserAuth),
    cron: () => runCron(miniflare),
    close: () => miniflare.dispose(),
  };
}

/** The id of the last application's first environment. The API takes the ids after it. */
let lastEnvironmentId = 0;

async function makeApp(db: D1Database, endUserAuth?: object): Promise<ServedApp> {
  const appId = idIn(0, randomId("app_"));
  lastEnvironmentId += 10_000;
  const environmentIds = { live: lastEnvironmentId, test: lastEnvironmentId + 1 };
  const insertEnvironment = async (mode: Mode) =>
    db
      .prepare("INSERT INTO environments (id, app_id, mode, end_user_auth) VALUES (CAST(? AS INTEGER), ?, ?, ?)")
      .bind(environmentIds[mode], appId, mode, await storedSettingOf({ appId, mode }, endUserAuth));
  const newKey = (kind: "secret" | "publishable", mode: Mode): string =>
    writeKey(kind, { id: environmentIds[mode], appId, mode }, randomId(""));
  const insertKey = (key: string, kind: "secret" | "publishable", mode: Mode) => {
    const hash = createHash("sha256").update(key).digest("base64url");
    return db
      .prepare(
        `INSERT INTO api_keys (hash, id, environment_id, kind, hint, created_at_ms)
         VALUES (?, ?, CAST(? AS INTEGER), ?, ?, 0)`,
      )
      .bind(hash, makeKeyId(hash), environmentIds[mode], kind, key.slice(0, 12));
  };
  const keys = {
    sk_live: newKey("secret", "live"),
    pk_live: newKey("publishable", "live"),
    sk_test: newKey("secret", "test"),
    pk_test: newKey("publishable", "test"),
  };
  await db.batch([
    db.prepare("INSERT INTO apps (id, name, created_at_ms) VALUES (?, 'Test', 0)").bind(appId),
    await insertEnvironment("live"),
    await insertEnvironment("test"),
    insertKey(keys.sk_live, "secret", "live"),
    insertKey(keys.pk_live, "publishable", "live"),
    insertKey(keys.sk_test, "secret", "test"),
    insertKey(keys.pk_test, "publishable", "test"),
  ]);
  return { appId, environmentIds, keys };
}
