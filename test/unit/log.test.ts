import { expect, it } from "vitest";
import { keptLine } from "../../scripts/log.mjs";

it("the log of a local server keeps no line of a request, and no query string", () => {
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
