import { readFileSync } from "node:fs";
import { expect, it } from "vitest";
import { setEndUserAuthInput } from "../../src/api/apps/set-end-user-auth.ts";
import { createLimitInput } from "../../src/api/usage-limits/create-usage-limit.ts";

it("docs/teams.md shows a limit per member and a setting with a payer's claim that Purser accepts", () => {
  const page = readFileSync("docs/teams.md", "utf8");
  const [limit, setting] = [...page.matchAll(/-d '(\{.*\})'/g)].map(([, body = ""]) => JSON.parse(body));
  expect(createLimitInput.parse(limit)).toMatchObject({ per: "member" });
  expect(setEndUserAuthInput.parse(setting).setting).toMatchObject({ payerClaim: "o.id" });
});
