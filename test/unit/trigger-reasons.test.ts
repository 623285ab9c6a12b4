import { globSync, readFileSync } from "node:fs";
import { expect, it } from "vitest";

const statements = globSync("drizzle/*.sql").flatMap((file) =>
  readFileSync(file, "utf8").split("--> statement-breakpoint\n"),
);

// test/worker/db/guards.test.ts attacks each of them, and each without the others.
it("tells above each trigger and view which of our mistakes it stops, or which rule it keeps", () => {
  const guarding = statements.filter((statement) => /^CREATE (?:TRIGGER|VIEW) /m.test(statement));
  expect(guarding.length).toBeGreaterThan(150);
  expect(guarding.filter((statement) => !/^(?:-- .*\n)+CREATE /m.test(statement))).toEqual([]);
});
