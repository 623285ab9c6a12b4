import { spawn } from "node:child_process";
import { mkdirSync, mkdtempSync, symlinkSync, writeFileSync } from "node:fs";
import { tmpdir } from "node:os";
import { join } from "node:path";
import { freePort } from "./free-port.ts";
import { ADMIN_TOKEN } from "./server.ts";

const root = join(import.meta.dirname, "../../..");
const FILES = [
  ...["src", "drizzle", "scripts", "clients", "node_modules"],
  ...["package.json", "wrangler.toml", "tsconfig.json"],
];

/** Makes a checkout with its own database and log. Remove it after use. `own` names files that the caller makes. */
export function makeCheckout(own: readonly string[] = []): string {
  const made = mkdtempSync(join(tmpdir(), "purser-start-"));
  for (const name of FILES.filter((each) => !own.includes(each))) symlinkSync(join(root, name), join(made, name));
  writeFileSync(join(made, ".dev.vars"), `ADMIN_TOKEN=${ADMIN_TOKEN}\n`);
  mkdirSync(join(made, ".purser"));
  // The build writes the reference next to the original scripts.
  symlinkSync(join(root, ".purser/reference"), join(made, ".purser/reference"));
  return made;
}

/** A running `npm start`. */
export interface Started {
  readonly url: string;
  /** Resolves with the exit code. */
  readonly ended: Promise<number | null>;
  readonly stop: () => Promise<void>;
}

/** Runs `npm start` in a checkout. If it ends before it serves, throws an error with its output. */
export async function startCheckout(directory: string): Promise<Started> {
  const port = await freePort();
  const child = spawn(process.execPath, ["scripts/start.mjs"], {
    cwd: directory,
    env: { ...process.env, PORT: String(port) },
    stdio: ["ignore", "pipe", "pipe"],
  });
  const ended = new Promise<number | null>((resolve) => child.once("exit", resolve));
  let output = "";
  const isReady = new Promise<void>((resolve) => {
    const hear = (chunk: Buffer) => {
      output += chunk;
      if (output.includes("Ctrl-C")) resolve();
    };
    child.stdout.on("data", hear);
    child.stderr.on("data", hear);
  });
  const failed = ended.then(() => {
    throw new Error(`npm start ended:\n${output}`);
  });
  await Promise.race([isReady, failed]);
  failed.catch(() => {});
  const stop = async () => {
    child.kill("SIGTERM");
    await ended;
  };
  return { url: `http://127.0.0.1:${port}`, ended, stop };
}
