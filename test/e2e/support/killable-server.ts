import { mkdtempSync, readdirSync, readFileSync, rmSync } from "node:fs";
import { tmpdir } from "node:os";
import { join } from "node:path";
import { convertV4MiniflareOptions, Miniflare, Response as MiniflareResponse } from "miniflare";
import { migrate } from "../../../bench/serve.ts";
import { builtModule, runCron, SECRETS, WORKER } from "./server.ts";

/** The built Worker in its own workerd process. Its database is on disk and survives the process. */
export interface KillableServer {
  readonly url: () => string;
  readonly db: () => Promise<D1Database>;
  /** Runs the cron until its work is done. */
  readonly cron: () => Promise<void>;
  /** Kills the whole server, like a power failure. */
  readonly kill: () => Promise<void>;
  /** Starts it again, over the same database. */
  readonly start: () => Promise<void>;
  /** The directory of the databases. */
  readonly state: string;
  readonly close: () => Promise<void>;
}

/** Returns the ids of the child processes. */
function children(): number[] {
  const threads = readdirSync("/proc/self/task");
  return threads.flatMap((id) => readFileSync(`/proc/self/task/${id}/children`, "utf8").split(" ").map(Number));
}

const isWorkerd = (pid: number): boolean => pid > 0 && readFileSync(`/proc/${pid}/comm`, "utf8").startsWith("workerd");

export async function startKillableServer(): Promise<KillableServer> {
  const directory = mkdtempSync(join(tmpdir(), "purser-kills-"));
  const state = join(directory, "state");
  const options = convertV4MiniflareOptions({
    resourcePersistencePath: state,
    workers: [
      {
        name: WORKER,
        modules: [builtModule()],
        compatibilityDate: "2026-10-01",
        d1Databases: { DB: "kills" },
        bindings: { ...SECRETS, NEW_APPS_DATABASE: "DB", TEST_BALANCE_QUOTA: "1000" },
        // The dashboard's pages ask for the version of their files.
        serviceBindings: { REFERENCE: () => new MiniflareResponse("none") },
        unsafeDirectSockets: [{ host: "127.0.0.1", port: 0 }],
      },
    ],
  });
  let running: { readonly miniflare: Miniflare; readonly pid: number; readonly url: string } | null = null;
  const now = () => {
    if (running === null) throw new Error("The server was killed, and not started again.");
    return running;
  };
  const start = async () => {
    const before = new Set(children());
    const miniflare = new Miniflare(options);
    const url = (await miniflare.unsafeGetDirectURL(WORKER)).origin;
    const pid = children().find((one) => !before.has(one) && isWorkerd(one));
    if (pid === undefined) throw new Error("No workerd process was found.");
    running = { miniflare, pid, url };
  };
  const kill = async () => {
    const { miniflare, pid } = now();
    running = null;
    process.kill(pid, "SIGKILL");
    await miniflare.dispose().catch(() => {});
  };
  await start();
  await migrate(await now().miniflare.getD1Database("DB", WORKER));
  return {
    url: () => now().url,
    db: () => now().miniflare.getD1Database("DB", WORKER),
    cron: () => runCron(now().miniflare),
    kill,
    start,
    state,
    close: async () => {
      await running?.miniflare.dispose();
      rmSync(directory, { recursive: true, force: true });
    },
  };
}
