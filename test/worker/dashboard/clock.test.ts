import { afterAll, expect, it } from "vitest";
import { flushActivity } from "../../../src/db/count-activity.ts";
import { DAY_MS } from "../../../src/lib/time.ts";
import { openDashboard, tableRows, textOf } from "../../support/browse.ts";
import { expectLedgerInvariants } from "../../support/invariants.ts";
import { makeEndpoint } from "../../support/webhooks.ts";
import { bound, Clock, makeApp, makeClient, makeOpenAmountPack } from "../../support/world.ts";

afterAll(expectLedgerInvariants);

const fieldOf = (atMs: number) => new Date(atMs).toISOString().slice(0, 19);

async function world() {
  const clock = new Clock();
  const app = await makeApp();
  const { at, read, send } = await openDashboard(app, clock, "test");
  return {
    ...{ app, clock, at, get: read },
    post: async (path: string, fields: Record<string, string>, base = at) => {
      const answer = await send(`${base}/${path}`, fields);
      return { status: answer.status, location: answer.headers.get("location"), text: await textOf(answer) };
    },
  };
}

it("the page of the clock moves test mode forward once after a confirmation, and other pages of test mode show its time", async () => {
  const { app, clock, at, get, post } = await world();
  expect((await get("clock")).text).toContain("which is real time: there is no clock");
  const now = fieldOf(clock.ms + 40 * DAY_MS);
  const confirm = await get(`clock/confirm?now=${now}`);
  expect(confirm.text).toContain("40 days later");
  expect(confirm.text).toContain("It cannot be moved back.");
  for (let n = 0; n < 2; n++) expect((await post("clock", { now })).location).toBe(`${at}/clock?notice=set`);
  const shown = now.replace("T", " ");
  expect((await get("clock")).text).toContain(`<b>${shown}</b>, 40 days ahead of real time`);
  expect((await get("packs")).text).toContain(`clock">${shown.slice(0, 16)} UTC</a>`);
  expect((await get(`/admin/apps/${app.appId}/live/packs`)).text).not.toContain("The test clock says");
  const audit = (await get("audit?action=clock.set")).text;
  expect(audit.split("<tr>").length - 2).toBe(1);

  // A grant in test mode has the clock's time.
  const packId = await makeOpenAmountPack(app.appId, "Any", "count");
  const call = makeClient(clock);
  await call("POST", "/api/v1/credits/grant", { key: app.keys.sk_test, body: { userId: "ana", packId, quantity: 5 } });
  expect((await get("users?userId=ana")).text).toContain(`Granted ${shown.slice(0, 10)}`);
});

it("the page of the clock rejects an earlier time and one too far ahead, and keeps and escapes the typed time", async () => {
  const { clock, get, post } = await world();
  const past = fieldOf(clock.ms - DAY_MS);
  const refused = await get(`clock/confirm?now=${past}`);
  expect(refused.status).toBe(400);
  expect(refused.text).toContain("must be later than the environment&#39;s time");
  expect(refused.text).toContain(`value="${past}"`);
  expect(refused.text).toContain(`class="field-error"`);
  expect((await get("clock/confirm?now=%22%3E%3Cimg")).text).not.toContain(`"><img`);
  const far = fieldOf(clock.ms + 3_700 * DAY_MS);
  const { status, text } = await post("clock", { now: far });
  expect([status, text.includes("at most ten years ahead")]).toEqual([400, true]);
});

it("the page of the clock deletes it while test mode is empty, says why not otherwise, and has no clock for live mode", async () => {
  const { app, clock, at, get, post } = await world();
  const now = fieldOf(clock.ms + DAY_MS);
  await post("clock", { now });
  expect((await post("clock/remove", {})).location).toBe(`${at}/clock?notice=removed`);
  expect((await get("clock")).text).toContain("there is no clock");
  await post("clock", { now: fieldOf(clock.ms + 2 * DAY_MS) });
  const packId = await makeOpenAmountPack(app.appId, "Any", "count");
  const body = { userId: "ana", packId, quantity: 5 };
  await makeClient(clock)("POST", "/api/v1/credits/grant", { key: app.keys.sk_test, body });
  const rejection = await post("clock/remove", {});
  expect([rejection.status, rejection.text.includes("environment has credits, usage, payments or people")]).toEqual([
    400,
    true,
  ]);
  const live = `/admin/apps/${app.appId}/live`;
  expect((await get(`${live}/clock`)).text).toContain("Live mode uses real time.");
  expect((await post("clock", { now }, live)).text).toContain("Live mode uses real time.");
  expect((await get(`${live}/clock/confirm?now=${now}`)).text).toContain("Live mode uses real time.");
});

it("shows the times of messages' attempts, rejections and operators' actions as real times under a test clock", async () => {
  const { app, clock, get, post } = await world();
  await makeEndpoint(app.environments.test);
  await post("clock", { now: fieldOf(clock.ms + 5 * DAY_MS) });
  const packId = await makeOpenAmountPack(app.appId, "Any", "tokens");
  const body = { userId: "ana", packId, quantity: 5 };
  await makeClient(clock)("POST", "/api/v1/credits/grant", { key: app.keys.sk_test, body });
  clock.advance(20 * 60_000);
  expect((await get("overview")).text).toContain("1 waiting, the oldest for 20 minutes");
  expect((await get("audit?action=clock.set")).text).toContain("20 minutes ago");
  expect((await get("users")).text).toContain("20 minutes ago");
});

it("shows when alerts and usage limits were made in the clock's time, and when a user was rejected or an erasure lifted in real time", async () => {
  const { app, clock, get, post } = await world();
  await post("clock", { now: fieldOf(clock.ms + 5 * DAY_MS) });
  const packId = await makeOpenAmountPack(app.appId, "Any", "tokens");
  const call = makeClient(clock);
  const send = (path: string, body: object) => call("POST", `/api/v1/${path}`, { key: app.keys.sk_test, body });
  await send("credits/grant", { userId: "ana", packId, quantity: 5 });
  const rejected = { eventId: "e1", userId: "ana", event: "chat", quantities: { tokens: 9, count: 0 } };
  expect((await send("usage/events", rejected)).status).toBe(402);
  const { body: erasure } = await send("erase-person", { distinctId: "bob" });
  await send(`erasures/${erasure.erasureId}/lift`, {});
  await post("alerts", { name: "Low", below: "5", of: "amount", unit: "tokens", nonce: "a" });
  await post("usage-limits", { name: "Daily", amount: "5", unit: "tokens", every: "day", nonce: "b" });
  for (const path of ["alerts", "usage-limits"]) expect((await get(path)).text).toMatch(/<time[^>]*>just now</);
  const [row] = tableRows((await get("people/erasures")).text, "Erasures");
  expect(row).toContain("lifted just now");
  await flushActivity(bound());
  const timeline = tableRows((await get("users?userId=ana")).text, "Timeline");
  expect(timeline.find((each) => each.includes("Rejected (402)"))).toMatch(/^just now /);
});
