import { type ChildProcess, execFile, spawn } from "node:child_process";
import {
  appendFileSync,
  existsSync,
  mkdirSync,
  mkdtempSync,
  readdirSync,
  readFileSync,
  readlinkSync,
  realpathSync,
  rmSync,
  symlinkSync,
  writeFileSync,
} from "node:fs";
import { tmpdir } from "node:os";
import { join } from "node:path";
import { promisify } from "node:util";
import { afterAll, beforeAll, describe, expect, it } from "vitest";
import { freePort } from "./support/free-port.ts";
import { ADMIN_TOKEN } from "./support/server.ts";

const run = promisify(execFile);
const root = join(import.meta.dirname, "../..");
const LOG = ".purser/server.log";
const TRACES = ".wrangler/state/v3/observability";

let directory: string;
let child: ChildProcess;
let ended: Promise<number | null>;
let url: string;
let said = "";

/** A checkout of its own, so that its database and its log are its own too. */
function makeCheckout(): string {
  const made = mkdtempSync(join(tmpdir(), "purser-start-"));
  for (const name of [
    "src",
    "drizzle",
    "scripts",
    "clients",
    "node_modules",
    "package.json",
    "wrangler.toml",
    "tsconfig.json",
  ]) {
    symlinkSync(join(root, name), join(made, name));
  }
  writeFileSync(join(made, ".dev.vars"), `ADMIN_TOKEN=${ADMIN_TOKEN}\n`);
  mkdirSync(join(made, ".purser"));
  // The build makes the reference beside the real scripts.
  symlinkSync(join(root, ".purser/reference"), join(made, ".purser/reference"));
  appendFileSync(join(made, LOG), "said before\n");
  mkdirSync(join(made, TRACES), { recursive: true });
  writeFileSync(join(made, TRACES, "old.sqlite"), "a download token");
  return made;
}

beforeAll(async () => {
  directory = makeCheckout();
  const port = await freePort();
  url = `http://127.0.0.1:${port}`;
  child = spawn(process.execPath, ["scripts/start.mjs"], {
    cwd: directory,
    env: { ...process.env, PORT: String(port) },
    stdio: ["ignore", "pipe", "pipe"],
  });
  ended = new Promise((resolve) => child.once("exit", resolve));
  const isReady = new Promise<void>((resolve) => {
    const hear = (chunk: Buffer) => {
      said += chunk;
      if (said.includes("Ctrl-C")) resolve();
    };
    child.stdout?.on("data", hear);
    child.stderr?.on("data", hear);
  });
  await Promise.race([
    isReady,
    ended.then(() => {
      throw new Error(`npm start ended:\n${said}`);
    }),
  ]);
}, 120_000);
afterAll(async () => {
  child.kill("SIGTERM");
  await ended;
  rmSync(directory, { recursive: true });
});

/** The processes of this checkout, by what /proc says of them. */
function processes(): number[] {
  return readdirSync("/proc")
    .filter((name) => /^\d+$/.test(name))
    .filter((pid) => {
      try {
        return (
          readFileSync(`/proc/${pid}/cmdline`, "utf8").includes("workerd") &&
          readlinkSync(`/proc/${pid}/cwd`) === realpathSync(directory)
        );
      } catch {
        return false;
      }
    })
    .map(Number);
}

describe("npm start", () => {
  it("is found by npm run demo, on any port", async () => {
    const { PORT: _port, ...env } = process.env;
    const { stdout } = await run(process.execPath, ["scripts/demo.mjs"], { cwd: directory, env });
    expect(stdout).toContain("delivered twice, granted once");
    expect(stdout).toContain("8. A person's data");
    const told = stdout.slice(stdout.indexOf("10. What your backend was told"));
    for (const type of ["credits.granted", "usage.recorded", "payment.taken", "person.exported"])
      expect(told).toContain(type);
  });

  it("limits guesses of the administrator's token, whatever address the headers claim", async () => {
    const guess = async (n: number) => {
      const headers = { authorization: "Bearer wrong", "cf-connecting-ip": `192.0.2.${n}` };
      return (await fetch(`${url}/api/v1/admin/apps`, { headers })).status;
    };
    const statuses: number[] = [];
    for (let n = 0; n < 12; n++) statuses.push(await guess(n));
    expect(statuses).toEqual([...Array(10).fill(401), 429, 429]);
  });

  it("keeps no trace of requests, and appends to its log, in which there is no query string", async () => {
    await fetch(`${url}/api/v1/export-download?token=a-download-token`);
    expect(existsSync(join(directory, TRACES))).toBe(false);
    const log = readFileSync(join(directory, LOG), "utf8");
    expect(log.startsWith("said before\n")).toBe(true);
    expect(log.length).toBeGreaterThan("said before\n".length);
    expect(log).not.toMatch(/a-download-token|token=|GET \//);
  });

  it.runIf(existsSync("/proc/self"))("ends, with all processes that it started, when the server has died", async () => {
    const started = processes();
    expect(started.length).toBeGreaterThan(0);
    const parentOf = (pid: number) => Number(/^PPid:\s+(\d+)$/m.exec(readFileSync(`/proc/${pid}/status`, "utf8"))?.[1]);
    process.kill(parentOf(started[0] ?? 0), "SIGKILL");
    expect(await ended).toBe(1);
    expect(existsSync(join(directory, ".purser/running.json"))).toBe(false);
    await expect.poll(() => processes().filter((pid) => started.includes(pid))).toEqual([]);
  });
});
