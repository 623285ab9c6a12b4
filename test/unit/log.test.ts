import { mkdtempSync, readdirSync, readFileSync, rmSync, statSync } from "node:fs";
import { tmpdir } from "node:os";
import { join } from "node:path";
import { PassThrough } from "node:stream";
import { expect, it, onTestFinished } from "vitest";
import { keptLine, openLog } from "../../scripts/worker.mjs";

it("the log of a local server contains no lines of requests and no query strings", () => {
  expect(keptLine("[wrangler:info] GET /admin/apps/app_1/live/users 200 OK (4ms)")).toBeNull();
  const failed = "ProxyWorker: GET http://localhost:8787/api/v1/export-download?token=secret recovered on attempt 2";
  expect(keptLine(failed)).toBe("ProxyWorker: GET http://localhost:8787/api/v1/export-download recovered on attempt 2");
  expect(keptLine('{"level":"error","code":"internal_error","at":"/x?userId=ada"}')).toBe(
    '{"level":"error","code":"internal_error","at":"/x"}',
  );
  for (const line of ["[wrangler:info] Ready on http://localhost:8787", "What now? Nothing."]) {
    expect(keptLine(line)).toBe(line);
  }
});

it("the log of a local server is at most two files of the size limit, and the newest line is kept", async () => {
  const directory = mkdtempSync(join(tmpdir(), "purser-log-"));
  onTestFinished(() => rmSync(directory, { recursive: true }));
  const [file, stdout, stderr] = [join(directory, "made/server.log"), new PassThrough(), new PassThrough()];
  openLog({ stdout, stderr }, file, 1_000);
  for (let line = 0; line < 100; line++) stdout.write(`${"x".repeat(99)}\n`);
  stdout.end("the last\n");
  await expect.poll(() => readFileSync(file, "utf8").endsWith("the last\n"), { timeout: 10_000 }).toBe(true);
  const kept = readdirSync(join(directory, "made"));
  expect(kept.sort()).toEqual(["server.log", "server.log.1"]);
  for (const name of kept) expect(statSync(join(directory, "made", name)).size).toBeLessThanOrEqual(1_000);
});
