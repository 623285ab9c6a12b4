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

/** A checkout whose database and log are its own. Remove it after use. `own`: files that the caller makes itself. */
export function makeCheckout(own: readonly string[] = []): string {
  const made = mkdtempSync(join(tmpdir(), "purser-start-"));
  for (const name of FILES.filter((each) => !own.includes(each))) symlinkSync(join(root, name), join(made, name));
  writeFileSync(join(made, ".dev.vars"), `ADMIN_TOKEN=${ADMIN_TOKEN}\n`);
  mkdirSync(join(made, ".purser"));
  // The build makes the reference beside the real scripts.
  symlinkSync(join(root, ".purser/reference"), join(made, ".purser/reference"));
  return made;
}

/** A running `npm start`. */
export interface Started {
  readonly url: string;
  /** Its exit code, once it has ended. */
  readonly ended: Promise<number | null>;
  readonly stop: () => Promise<void>;
}

/** Runs `npm start` in a checkout. Throws what it said if it ends before it serves. */
export async function startCheckout(directory: string): Promise<Started> {
  const port = await freePort();
  const child = spawn(process.execPath, ["scripts/start.mjs"], {
    cwd: directory,
    env: { ...process.env, PORT: String(port) },
    stdio: ["ignore", "pipe", "pipe"],
  });
  const ended = new Promise<number | null>((resolve) => child.once("exit", resolve));
  let said = "";
  const isReady = new Promise<void>((resolve) => {
    const hear = (chunk: Buffer) => {
      said += chunk;
      if (said.includes("Ctrl-C")) resolve();
    };
    child.stdout.on("data", hear);
    child.stderr.on("data", hear);
  });
  const failed = ended.then(() => {
    throw new Error(`npm start ended:\n${said}`);
  });
  await Promise.race([isReady, failed]);
  failed.catch(() => {});
  const stop = async () => {
    child.kill("SIGTERM");
    await ended;
  };
  return { url: `http://127.0.0.1:${port}`, ended, stop };
}
