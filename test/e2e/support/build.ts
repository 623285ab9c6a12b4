import { execFile } from "node:child_process";
import { mkdtemp, rm } from "node:fs/promises";
import { tmpdir } from "node:os";
import { join } from "node:path";
import { promisify } from "node:util";
import type { TestProject } from "vitest/node";
import { type Unstable_MiniflareWorkerOptions, unstable_getMiniflareWorkerOptions } from "wrangler";
import { startBrowser } from "./browser.ts";

declare module "vitest" {
  interface ProvidedContext {
    /** The directory of the Worker as it is deployed, which every server of the tests serves. */
    readonly builtWorker: string;
    /** Its bindings and settings of wrangler.toml. */
    readonly workerOptions: Unstable_MiniflareWorkerOptions["workerOptions"];
    /** Wrangler's output. */
    readonly buildLog: string;
    /** Where the run's browser listens; null on a machine without Chromium. */
    readonly browserAddress: string | null;
  }
}

const root = join(import.meta.dirname, "../../..");

/** Builds the Worker, and starts a browser, once a run. */
export default async function setup(project: TestProject): Promise<() => Promise<void>> {
  const directory = await mkdtemp(join(tmpdir(), "purser-built-"));
  const [buildLog, browser] = await Promise.all([buildWorker(directory), startBrowser()]);
  project.provide("builtWorker", directory);
  // Read here, because every process that imports Wrangler computes for two seconds.
  project.provide("workerOptions", unstable_getMiniflareWorkerOptions(join(root, "wrangler.toml")).workerOptions);
  project.provide("buildLog", buildLog);
  project.provide("browserAddress", browser?.wsEndpoint() ?? null);
  return async () => {
    await browser?.close();
    await rm(directory, { recursive: true, force: true });
  };
}

/** Returns Wrangler's output. */
async function buildWorker(directory: string): Promise<string> {
  const env = { ...process.env, CI: "1", NO_COLOR: "1", FORCE_COLOR: "0", WRANGLER_HIDE_BANNER: "true" };
  const wrangler = join(root, "node_modules/.bin/wrangler");
  const { stdout } = await promisify(execFile)(wrangler, ["deploy", "--dry-run", "--outdir", directory], {
    cwd: root,
    env,
  });
  return stdout;
}
