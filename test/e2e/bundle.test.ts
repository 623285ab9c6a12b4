import { beforeAll, describe, expect, it } from "vitest";
import { type Bundle, measureBundle } from "../../bench/bundle.ts";

/** A tenth of what the platform takes. What users feel is the start. */
const GZIP_KIB_MAX = 1_024;
/** What describes the interface, or is at work before the build alone. */
const NOT_LOADED =
  /(^|\/)(responses|error-body)\.ts$|^src\/reference\/(?!(origin|routes)\.ts$)|zod-openapi|zod\/v4\/classic/;

describe("what an isolate loads", () => {
  let whole: Bundle;
  let withoutDashboard: Bundle;
  beforeAll(async () => {
    whole = await measureBundle("src/index.ts");
    withoutDashboard = await measureBundle("bench/workers/without-dashboard.ts");
  });

  it(`is at most ${GZIP_KIB_MAX} KiB, packed and without the dashboard`, () => {
    expect(withoutDashboard.gzipBytes / 1_024).toBeLessThanOrEqual(GZIP_KIB_MAX);
    expect([...withoutDashboard.files.keys()].filter((file) => file.includes("dashboard/"))).toEqual([]);
  });

  it("holds nothing of what describes the interface", () => {
    const files = [...whole.files.keys()];
    expect(files).toContain("src/credits/schemas.ts");
    expect(files).toContain("src/dashboard/routes.tsx");
    expect(files.filter((file) => NOT_LOADED.test(file))).toEqual([]);
  });
});
