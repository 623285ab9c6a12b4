import { afterAll, expect, it } from "vitest";
import { parseUserIds } from "../../../src/dashboard/bulk-grant.tsx";
import { flushActivity } from "../../../src/db/count-activity.ts";
import { EVIL, openDashboard, tableRows } from "../../support/browse.ts";
import { expectLedgerInvariants } from "../../support/invariants.ts";
import { bound, Clock, makeApp, makeClient, makeOpenAmountPack, makePack } from "../../support/world.ts";

afterAll(expectLedgerInvariants);

async function world() {
  const [clock, app] = [new Clock(), await makeApp()];
  const dashboard = await openDashboard(app, clock);
  const call = makeClient(clock);
  const key = app.keys.sk_live;
  return {
    ...{ app, clock, ...dashboard },
    post: (path: string, body: unknown) => call("POST", `/api/v1/${path}`, { key, body }),
    balances: async (userId: string) =>
      (await call("GET", `/api/v1/credits?userId=${userId}&includeExpired=true`, { key })).body.credits as {
        balanceId: string;
        remaining: number;
        status: string;
      }[],
    plain: async (path: string) => (await dashboard.read(path)).text.replace(/<[^>]*>/g, " ").replace(/\s+/g, " "),
  };
}

it("reads the ids of a pasted list and of a CSV file, each once", () => {
  expect(parseUserIds("ana\r\n bob \n\nana\n")).toEqual(["ana", "bob"]);
  expect(parseUserIds('user_id,name\n"a ""b"", c",x\nu2;y')).toEqual(['a "b", c', "u2"]);
});

it("a grant to many users is previewed, reported, and grants nothing twice when it runs again", async () => {
  const w = await world();
  const packId = await makeOpenAmountPack(w.app.appId, "Any", "tokens");
  await w.post("credits/grant", { userId: "ana", packId, quantity: 5 });
  const form = { users: `ana\nbob\n${EVIL}`, packId, quantity: "10", ref: "spring", notes: "Sorry for the outage" };
  const textOf = async (answer: Promise<Response>) =>
    (await (await answer).text()).replace(/<[^>]*>/g, " ").replace(/\s+/g, " ");
  const preview = await textOf(w.send("users/bulk-grant/preview", form));
  for (const part of ["10 tokens", "30 tokens", "2 of these users do not exist yet", "Grant to 3 users"])
    expect(preview).toContain(part);
  expect(await w.balances("bob")).toEqual([]);
  const unsure = await textOf(w.send("users/bulk-grant", { ...form, asked: "yes" }));
  expect(unsure).toContain("Nothing was changed");
  expect(await w.balances("bob")).toEqual([]);
  const sure = { ...form, asked: "yes", sure: "yes" };
  expect(await textOf(w.send("users/bulk-grant", sure))).toContain("3 granted, 0 granted before, 0 failed");
  // A preview counts only those to whom the pack was not granted under this reference.
  expect(await textOf(w.send("users/bulk-grant/preview", form))).toMatch(/Granted before 3 of them.* In all nothing /);
  expect(await textOf(w.send("users/bulk-grant/preview", { ...form, users: `${form.users}\ncem` }))).toMatch(
    /Granted before 3 of them.* In all 10 tokens /,
  );
  const again = await textOf(w.send("users/bulk-grant", { ...sure, users: `${form.users}\ncem` }));
  expect(again).toContain("1 granted, 3 granted before, 0 failed");
  expect((await w.balances("bob")).map(({ remaining }) => remaining)).toEqual([10]);
  expect((await w.balances("ana")).map(({ remaining }) => remaining).sort()).toEqual([10, 5]);
  const refused = await w.send("users/bulk-grant/preview", {
    ...form,
    users: Array.from({ length: 201 }, (_, n) => `u${n}`).join("\n"),
  });
  expect(refused.status).toBe(400);
  expect(await refused.text()).toContain("At most 200 at once");
  const unusable = { ...form, users: `user_id\n\nana\nana\n${"x".repeat(201)}` };
  expect(await textOf(w.send("users/bulk-grant/preview", unusable))).toContain("in line 5");
});

it("a whole grant is revoked in one act, and a repeat revokes nothing more", async () => {
  const w = await world();
  const packId = await makePack(w.app.appId, "Two", [
    { amountMinor: 400_000, unit: "tokens" },
    { amountMinor: 5_000_000, unit: "cents" },
  ]);
  await w.post("credits/grant", { userId: "ana", packId, externalRef: "order-1" });
  await w.post("credits/grant", { userId: "ana", packId, externalRef: "order-2" });
  const [first] = await w.balances("ana");
  const balanceId = first?.balanceId ?? "";
  expect(await w.plain(`users/revoke-grant?balanceId=${balanceId}`)).toContain("Revoke 2 balances");
  expect((await w.send("users/revoke-grant", { userId: "ana", balanceId, reason: " " })).status).toBe(400);
  for (let n = 0; n < 2; n++) {
    const answer = await w.send("users/revoke-grant", { userId: "ana", balanceId, reason: "Fraud" });
    expect(answer.headers.get("location")).toContain("notice=grant-revoked");
  }
  const statuses = (await w.balances("ana")).map(({ status }) => status).sort();
  expect(statuses).toEqual(["active", "active", "revoked", "revoked"]);
  expect(await w.plain("users?userId=ana")).toContain("Fraud");
});

it("users at a limit are listed with a link from the overview, and their page sets and lifts overrides", async () => {
  const w = await world();
  const packId = await makeOpenAmountPack(w.app.appId, "Any", "tokens");
  for (const userId of ["ana", "bob"]) await w.post("credits/grant", { userId, packId, quantity: 1_000 });
  const created = await w.send("usage-limits", {
    name: "Daily",
    amount: "100",
    unit: "tokens",
    every: "day",
    nonce: "n",
  });
  expect(created.status).toBe(303);
  for (const [userId, tokens] of [
    ["ana", 100],
    ["bob", 99],
  ] as const) {
    await w.post("usage/events", { eventId: userId, userId, event: "chat", quantities: { count: 0, tokens } });
  }
  expect(await w.plain("overview")).toContain("Users at a limit");
  const reached = async () => tableRows((await w.read("usage-limits/reached")).text, "Users at a limit");
  expect(await reached()).toEqual([expect.stringMatching(/^ana Daily 100 tokens 100 tokens day/)]);
  const [, limitId = ""] = /name="limitId" value="([^"]+)"/.exec((await w.read("users?userId=ana")).text) ?? [];
  const change = (fields: Record<string, string>) =>
    w.send("users/limit?userId=ana", { userId: "ana", limitId, ...fields });
  const rejected = await change({ act: "set", amount: "x" });
  expect(rejected.status).toBe(400);
  const again = await rejected.text();
  for (const part of ["field-error", 'value="x"', "<details open"]) expect(again).toContain(part);
  const long = await (await change({ act: "set", amount: "0.12345678901234567890" })).text();
  expect(long).toContain("field-error");
  expect(long).not.toContain("must be a number");
  expect((await change({ act: "set", amount: "" })).status).toBe(400);
  expect((await change({ act: "unlimited", userId: "x".repeat(201) })).status).toBe(400);
  expect((await change({ act: "set", amount: "150" })).status).toBe(303);
  expect(await w.plain("users?userId=ana")).toContain("100 of 150 tokens today");
  expect(await reached()).toEqual([]);
  await change({ act: "unlimited" });
  expect(await w.plain("users?userId=ana")).toContain("100 tokens today, no limit");
  await change({ act: "lift" });
  expect(await reached()).toHaveLength(1);
  expect((await w.read("usage-limits/reached.csv")).text).toContain('"ana",,"Daily",100,100,"day"');
});

it("a limit for each member is created by the form, and a payer's page leads to its members with their use", async () => {
  const w = await world();
  const packId = await makeOpenAmountPack(w.app.appId, "Any", "tokens");
  await w.post("credits/grant", { userId: "team", packId, quantity: 1_000 });
  const limit = { name: "Each", amount: "30", unit: "tokens", every: "day", per: "member", timeZone: "Europe/Berlin" };
  expect((await w.send("usage-limits", { ...limit, nonce: "n" })).status).toBe(303);
  expect(tableRows((await w.read("usage-limits")).text, "Usage limits")).toEqual([
    expect.stringMatching(/^Each 30 tokens day, Europe\/Berlin member all/),
  ]);
  expect((await w.send("usage-limits", { ...limit, name: "Other", per: "team", nonce: "m" })).status).toBe(400);
  for (const [memberId, tokens] of [
    ["bob", 20],
    ["ana", 10],
    ["bob", 5],
  ] as const) {
    const event = { eventId: `${memberId}${tokens}`, userId: "team", memberId, event: "chat", quantities: { tokens } };
    expect((await w.post("usage/events", event)).status).toBe(200);
  }
  expect((await w.read("users?userId=team")).text).toContain("users/members?userId=team");
  expect(tableRows((await w.read("users/members?userId=team")).text, "Members")).toEqual([
    expect.stringMatching(/^ana 1 10 tokens/),
    expect.stringMatching(/^bob 2 25 tokens/),
  ]);
});

it("the pages of an event, a reservation and rejections name the member, and so do rejections in the payer's timeline", async () => {
  const w = await world();
  const packId = await makeOpenAmountPack(w.app.appId, "Any", "tokens");
  await w.post("credits/grant", { userId: "team", packId, quantity: 100 });
  const use = { userId: "team", memberId: "bob", event: "chat", quantities: { tokens: 20 } };
  expect((await w.post("usage/events", { ...use, eventId: "e1" })).status).toBe(200);
  expect((await w.post("usage/reservations", { ...use, reservationId: "res_1" })).status).toBe(200);
  for (const memberId of ["bob", "ana"]) {
    const rejected = { ...use, memberId, eventId: `x-${memberId}`, quantities: { count: 0, tokens: 900 } };
    expect((await w.post("usage/events", rejected)).status).toBe(402);
  }
  await flushActivity(bound());
  for (const path of ["users/event?eventId=e1", "users/reservation?reservationId=res_1"])
    expect((await w.read(path)).text).toMatch(/<dt>Member<\/dt><dd>.*userId=bob/);
  const listed = tableRows((await w.read("rejections")).text, "Insufficient credits");
  expect(listed.map((row) => row.split(" ").slice(0, 3)).sort()).toEqual([
    ["team", "ana", "chat"],
    ["team", "bob", "chat"],
  ]);
  const timeline = tableRows((await w.read("users?userId=team")).text, "Timeline");
  for (const member of ["ana", "bob"])
    expect(timeline.filter((row) => row.includes(`member ${member}`))).toEqual([
      expect.stringContaining("Rejected (402)"),
    ]);
});

it("a member's page shows each payer with the member's use and limits, also for who has no credits", async () => {
  const w = await world();
  const packId = await makeOpenAmountPack(w.app.appId, "Any", "tokens");
  const limit = { name: "Each", amount: "30", unit: "tokens", every: "day", per: "member" };
  expect((await w.send("usage-limits", { ...limit, nonce: "n" })).status).toBe(303);
  for (const [userId, memberId, tokens] of [
    ["team b", "ana", 20],
    ["team a", "ana", 5],
    ["team a", "bob", 7],
  ] as const) {
    await w.post("credits/grant", { userId, packId, quantity: 1_000, externalRef: "start" });
    const event = { eventId: `${userId} ${memberId}`, userId, memberId, event: "chat", quantities: { tokens } };
    expect((await w.post("usage/events", event)).status).toBe(200);
  }
  const { text } = await w.read("users?userId=ana");
  expect(tableRows(text, "Payers")).toEqual([
    expect.stringMatching(/^team a 1 .* Each: 5 of 30 tokens All members$/),
    expect.stringMatching(/^team b 1 .* Each: 20 of 30 tokens All members$/),
  ]);
  expect(text).toContain("users/members?userId=team+a");
  expect((await w.read("users?userId=team+a")).text).not.toContain('id="payers"');
  expect(await w.plain("users?userId=carl")).toContain("No user has this id");
});

it("recurring grants of all users, and erasures with their dates, are lists", async () => {
  const w = await world();
  const packId = await makePack(w.app.appId, "Free", [{ amountMinor: 400_000, unit: "tokens" }]);
  for (const userId of ["ana", "bob"]) {
    const answer = await w.post("credits/recurring", { recurringId: `rec_${userId}`, userId, packId, every: "month" });
    expect(answer.status).toBe(200);
  }
  const rows = tableRows((await w.read("recurring")).text, "Recurring grants");
  expect(rows.map((row) => row.split(" ").slice(0, 3).join(" "))).toEqual(["ana Free month", "bob Free month"]);
  expect(await w.plain("recurring?state=suspended")).toContain("No recurring grants here");
  expect(await w.plain("people/erasures")).toContain("No erasures yet");
  const { body } = await w.post("erase-person", { distinctId: "bob", reason: "request" });
  w.clock.advance(1_000);
  const second = await w.post("erase-person", { distinctId: "nobody" });
  const erasures = tableRows((await w.read("people/erasures")).text, "Erasures");
  expect(erasures.map((row) => row.split(" ")[0])).toEqual([second.body.erasureId, body.erasureId]);
  expect(tableRows((await w.read("recurring")).text, "Recurring grants")).toHaveLength(1);
});
