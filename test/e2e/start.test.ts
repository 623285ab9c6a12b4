import { execFile } from "node:child_process";
import {
  appendFileSync,
  existsSync,
  mkdirSync,
  readdirSync,
  readFileSync,
  readlinkSync,
  realpathSync,
  rmSync,
  writeFileSync,
} from "node:fs";
import { join } from "node:path";
import { promisify } from "node:util";
import { afterAll, beforeAll, describe, expect, it } from "vitest";
import { makeCheckout, type Started, startCheckout } from "./support/checkout.ts";

const run = promisify(execFile);
const LOG = ".purser/server.log";
const TRACES = ".wrangler/state/v3/observability";

let directory: string;
let started: Started;

beforeAll(async () => {
  directory = makeCheckout();
  appendFileSync(join(directory, LOG), "earlier log\n");
  mkdirSync(join(directory, TRACES), { recursive: true });
  writeFileSync(join(directory, TRACES, "old.sqlite"), "a download token");
  started = await startCheckout(directory);
}, 120_000);
afterAll(async () => {
  await started.stop();
  rmSync(directory, { recursive: true });
});

/** Returns the ids of this checkout's processes, which it finds in /proc. */
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
  it("serves npm run demo, which finds it on any port", async () => {
    const { PORT: _port, ...env } = process.env;
    const { stdout } = await run(process.execPath, ["scripts/demo.mjs"], { cwd: directory, env });
    expect(stdout).toContain("delivered twice, granted once");
    expect(stdout).toContain("8. A person's data");
    const messages = stdout.slice(stdout.indexOf("10. Messages to your backend"));
    for (const type of ["credits.granted", "usage.recorded", "payment.taken", "person.exported"])
      expect(messages).toContain(type);
  });

  it("limits guesses of the admin token, whatever address the headers claim", async () => {
    const guess = async (n: number) => {
      const headers = { authorization: "Bearer wrong", "cf-connecting-ip": `192.0.2.${n}` };
      return (await fetch(`${started.url}/api/v1/admin/apps`, { headers })).status;
    };
    const statuses: number[] = [];
    for (let n = 0; n < 12; n++) statuses.push(await guess(n));
    expect(statuses).toEqual([...Array(10).fill(401), 429, 429]);
  });

  it("stores no traces of requests, and appends to its log, which has no query strings", async () => {
    await fetch(`${started.url}/api/v1/export-download?token=a-download-token`);
    expect(existsSync(join(directory, TRACES))).toBe(false);
    const log = readFileSync(join(directory, LOG), "utf8");
    expect(log.startsWith("earlier log\n")).toBe(true);
    expect(log.length).toBeGreaterThan("earlier log\n".length);
    expect(log).not.toMatch(/a-download-token|token=|GET \//);
  });

  it.runIf(existsSync("/proc/self"))("ends, with all processes that it started, when the server has died", async () => {
    const before = processes();
    expect(before.length).toBeGreaterThan(0);
    const parentOf = (pid: number) => Number(/^PPid:\s+(\d+)$/m.exec(readFileSync(`/proc/${pid}/status`, "utf8"))?.[1]);
    process.kill(parentOf(before[0] ?? 0), "SIGKILL");
    expect(await started.ended).toBe(1);
    expect(existsSync(join(directory, ".purser/running.json"))).toBe(false);
    await expect.poll(() => processes().filter((pid) => before.includes(pid))).toEqual([]);
  });
});
