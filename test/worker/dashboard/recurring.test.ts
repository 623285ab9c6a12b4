import { afterAll, expect, it } from "vitest";
import { grantDuePeriods } from "../../../src/books/recurring/grant-due.ts";
import { archivePack } from "../../../src/catalog/change-pack.ts";
import { DAY_MS } from "../../../src/lib/time.ts";
import { openDashboard, queryOf } from "../../support/browse.ts";
import { runPart } from "../../support/cron.ts";
import { expectLedgerInvariants } from "../../support/invariants.ts";
import { Clock, makeAdminCtx, makeApp, makeClient, makePack } from "../../support/world.ts";

afterAll(expectLedgerInvariants);

async function world() {
  const clock = new Clock();
  const app = await makeApp();
  const { browser, read, send } = await openDashboard(app, clock);
  const packId = await makePack(app.appId, "Free", [{ amountMinor: 100_000, unit: "tokens" }]);
  const call = makeClient(clock);
  return {
    ...{ app, clock, packId, browser, send },
    read: async (path: string, fields: Record<string, string>) => (await read(path + queryOf(fields))).text,
    list: async () =>
      (await call("GET", "/api/v1/credits/recurring?userId=ana", { key: app.keys.sk_live })).body.recurring,
    history: async () =>
      (await call("GET", "/api/v1/credits/history?userId=ana", { key: app.keys.sk_live })).body.entries,
  };
}

it("a user's recurring grants are created once by a confirmation that shows the effect, even if it is sent twice, and shown on the user's page", async () => {
  const { read, send, list, packId } = await world();
  const form = await read("users/recurring", { userId: "ana" });
  const recurringId = /name="recurringId" value="([^"]+)"/.exec(form)?.[1] ?? "";
  expect(recurringId).toMatch(/^rec_/);
  const fields = { userId: "ana", packId, every: "month", rolloverPeriods: "0", recurringId };
  const confirm = await read("users/recurring/confirm", fields);
  for (const part of ["No user has this id yet", "every month, from now", "Free"]) expect(confirm).toContain(part);
  expect(await list()).toEqual([]);
  const unsure = await send("users/recurring", { ...fields, asked: "yes" });
  expect([unsure.status, await list()]).toEqual([400, []]);
  for (let times = 0; times < 2; times++) {
    expect((await send("users/recurring", { ...fields, asked: "yes", sure: "yes" })).status).toBe(303);
  }
  expect(await list()).toMatchObject([{ recurringId, status: "active", period: { n: 1 } }]);
  expect(await read(`packs/${packId}`, {})).toContain("1 active recurring grant grants it every period in live mode");
  const page = await read("users", { userId: "ana" });
  for (const part of ["Recurring grants", "Free", "month", "active"]) expect(page).toContain(part);
});

it("a user's recurring grants are rejected in the API's words, beside the field, and nothing is created", async () => {
  const { read, list, packId } = await world();
  const fields = { userId: "ana", packId, every: "month", recurringId: "rec_a" };
  expect(await read("users/recurring/confirm", { ...fields, rolloverPeriods: "13" })).toContain("field-error");
  expect(await read("users/recurring/confirm", { ...fields, every: "hour", rolloverPeriods: "0" })).toContain(
    "field-error",
  );
  expect(await list()).toEqual([]);
});

it("a user's recurring grants are cancelled with a reason, which the ledger records if they are revoked at once", async () => {
  const { read, send, list, history, packId } = await world();
  const fields = { userId: "ana", packId, every: "month", rolloverPeriods: "0", recurringId: "rec_a" };
  await send("users/recurring", { ...fields, asked: "yes", sure: "yes" });
  const of = { userId: "ana", recurringId: "rec_a" };
  expect(await read("users/recurring/cancel", of)).toContain("Free, every month");
  expect((await send("users/recurring/cancel", { ...of, at: "now", reason: " " })).status).toBe(400);
  expect(await list()).toMatchObject([{ status: "active" }]);
  expect((await send("users/recurring/cancel", { ...of, at: "now", reason: "Asked by mail" })).status).toBe(303);
  expect(await list()).toMatchObject([{ status: "ended" }]);
  expect((await history())[0]).toMatchObject({ cause: "revoke", note: "Asked by mail", by: "admin" });
  expect(await read("users", { userId: "ana" })).not.toContain("users/recurring/cancel");
});

it("a user's recurring grants show why they are suspended, and can be resumed once the cause is gone", async () => {
  const { app, browser, clock, read, send, list, packId } = await world();
  const fields = { userId: "ana", packId, every: "month", rolloverPeriods: "0", recurringId: "rec_a" };
  await send("users/recurring", { ...fields, asked: "yes", sure: "yes" });
  await archivePack(makeAdminCtx(clock), app.appId, packId);
  clock.advance(40 * DAY_MS);
  await browser.signIn();
  const page = await read("users", { userId: "ana" });
  for (const part of ["suspended", "credit_pack_not_found", "Resume"]) expect(page).toContain(part);
  expect(await read("overview", {})).not.toContain("recurring?state=suspended");
  expect(await runPart(grantDuePeriods, makeAdminCtx(clock))).toEqual([]);
  const overview = await read("overview", {});
  for (const part of ["1 recurring grant is suspended.", "recurring?state=suspended"]) expect(overview).toContain(part);
  const suspended = await read("recurring", { state: "suspended" });
  for (const part of ["users?userId=ana", "rec_a", "credit_pack_not_found", "Resume"]) {
    expect(suspended).toContain(part);
  }
  expect(await read("recurring", {})).toContain("rec_a");
  const of = { userId: "ana", recurringId: "rec_a" };
  const refused = await send("users/recurring/resume", of);
  expect(refused.status).toBeGreaterThanOrEqual(400);
  await send(`packs/${packId}/restore`, {});
  expect((await send("users/recurring/resume", of)).status).toBe(303);
  expect(await list()).toMatchObject([{ status: "active", period: { n: 2 } }]);
  expect(await read("overview", {})).not.toContain("recurring?state=suspended");
});
