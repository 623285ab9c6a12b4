import { env } from "cloudflare:workers";
import { afterAll, expect, it } from "vitest";
import { makeStatements } from "../../../src/books/statements/make-statements.ts";
import { browse } from "../../support/browse.ts";
import { runPart } from "../../support/cron.ts";
import { expectLedgerInvariants } from "../../support/invariants.ts";
import { Clock, makeAdminCtx, makeApp, makeClient, makePack } from "../../support/world.ts";

afterAll(expectLedgerInvariants);

it("statements can be requested in the dashboard, are shown when they are ready, and can be saved as CSV", async () => {
  const clock = new Clock();
  const app = await makeApp();
  const packId = await makePack(app.appId, "Starter", [{ amountMinor: 1_500_500, unit: "tokens" }]);
  await makeClient(clock)("POST", "/api/v1/credits/grant", { key: app.keys.sk_live, body: { userId: "ana", packId } });
  clock.ms = Date.UTC(2026, 1, 1, 2);
  const browser = browse(clock);
  await browser.signIn();
  const at = `/admin/apps/${app.appId}/live/statements`;
  const ask = async (month: string) => browser.post(at, { _form: await browser.formToken(), month });
  expect(await (await browser.get(at)).text()).toContain("No statements yet");
  const refused = await ask("2026-02");
  expect([refused.status, (await refused.text()).includes("must have ended an hour ago")]).toEqual([400, true]);
  const answer = await ask("2026-01");
  expect(answer.status).toBe(303);
  const place = answer.headers.get("location") ?? "";
  expect(await (await browser.get(place)).text()).toContain("The statement is being made.");
  expect((await browser.get(`${place}.csv`)).status).toBe(503);
  // A line whose sums a double cannot hold exactly.
  await env.DB.prepare("INSERT INTO statement_lines VALUES (?, 'tokens', 'cpk_large', 'Large', ?)")
    .bind(place.split("/").at(-1), JSON.stringify({ spent: "9007199254740993001", closing: "9007199254740993001" }))
    .run();
  await runPart(makeStatements, makeAdminCtx(clock));
  const page = await (await browser.get(place)).text();
  for (const part of ["Starter", "1,500.5", "= Closing", ">9,007,199,254,740,993.001<"]) expect(page).toContain(part);
  const overview = await (await browser.get(at.replace("statements", "overview"))).text();
  for (const part of [">−9,007,199,254,740,993.001<", ">9,007,199,254,742,493.501<"]) expect(overview).toContain(part);
  const csv = await browser.get(`${place}.csv`);
  expect(csv.headers.get("content-type")).toBe("text/csv; charset=utf-8");
  expect(await csv.text()).toContain(`"tokens","${packId}","Starter",0,`);
  expect(await (await browser.get(at)).text()).toContain("2026-01");
  // A page of test mode says that nothing in it is real.
  for (const path of [place, `${place}.csv`]) {
    expect((await browser.get(path.replace("/live/", "/test/"))).status).toBe(404);
  }
});
