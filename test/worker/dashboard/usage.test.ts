import { afterAll, expect, it } from "vitest";
import { DAY_MS } from "../../../src/lib/time.ts";
import { EVIL, openDashboard, tableRows } from "../../support/browse.ts";
import { sumDaysOf } from "../../support/cron.ts";
import { expectLedgerInvariants } from "../../support/invariants.ts";
import { Clock, makeAdminCtx, makeApp, makeClient, makeOpenAmountPack } from "../../support/world.ts";

afterAll(expectLedgerInvariants);

async function world() {
  const [clock, app] = [new Clock(), await makeApp()];
  const { browser, at } = await openDashboard(app, clock);
  const call = makeClient(clock);
  return {
    ...{ app, clock, signIn: () => browser.signIn() },
    post: async (path: string, body: unknown) =>
      expect((await call("POST", `/api/v1/${path}`, { key: app.keys.sk_live, body })).status, path).toBe(200),
    page: async (path: string, status = 200) => {
      const answer = await browser.get(`${at}/${path}`);
      expect(answer.status).toBe(status);
      const text = await answer.text();
      expect(text).not.toContain(EVIL);
      return text;
    },
  };
}

it("the page of usage says that there is none in days without usage, and rejects invalid days", async () => {
  const { page } = await world();
  expect(await page("usage")).toContain("No usage in these days");
  expect(await page("usage?from=2026-13-77", 400)).toContain("field-error");
  await page("usage?to=never", 400);
  // The day after the last moment of time cannot be told.
  expect(await page("usage?to=%2B275760-09-13", 400)).toContain("field-error");
  expect(await page("prices/margin?from=2000-01-01&to=2026-01-15", 400)).toContain("at most 1,100 days");
});

it("the page of usage shows it by day, model and event, the largest users compared with the median, and who runs out next", async () => {
  const { app, clock, post, page, signIn } = await world();
  const packId = await makeOpenAmountPack(app.appId, "Any", "tokens");
  const users = [`ana ${EVIL}`, "bob", "cem"];
  for (const userId of users) await post("credits/grant", { userId, packId, quantity: 1_000 });
  const use = (eventId: string, userId: string, tokens: number, model?: string) =>
    post("usage/events", { eventId, userId, event: "chat", model, quantities: { count: 0, tokens } });
  await use("e1", users[0] ?? "", 900, "big");
  await use("e2", "bob", 100, "big");
  await use("e3", "cem", 50);
  await sumDaysOf(makeAdminCtx(clock), app.environments.live);
  const text = await page("usage?from=2026-01-15&to=2026-01-15");
  expect(tableRows(text, "By model").sort()).toEqual(["big 2 1,000", "none 1 50"]);
  expect(tableRows(text, "By event")).toEqual(["chat 3 1,050"]);
  expect(tableRows(text, "By day and model")).toEqual(["2026-01-15 big 2 1,000", "2026-01-15 none 1 50"]);
  expect(text.replaceAll(/\s+/g, " ")).toContain(
    "1 user runs out by tomorrow. This assumes debits as in the last 30 days",
  );
  expect(text).not.toContain("nothing left of a unit");
  expect(text).not.toContain("there is more usage");
  expect(text).toContain("tokens by day: 1.1K");
  const top = tableRows(text, "Top users");
  expect(top.find((row) => row.startsWith("ana"))).toMatch(/ 900 9 × /);
  expect(top.find((row) => row.startsWith("cem"))).toMatch(/ 50 0.5 × /);
  const ends = tableRows(text, "Runs out next");
  expect(ends[0]).toMatch(/^ana .* 100 tokens 900 tokens within a day/);
  expect(ends[1]).toMatch(/^bob .* in about 9 days/);
  // The user's page says the same as the page of usage.
  const ofBob = (await page("users?userId=bob")).replaceAll(/\s+/g, " ");
  expect(ofBob).toContain("Runs out in about 9 days, if debits go on as in the last day");
  expect(tableRows(ofBob, "Usage by model")).toEqual(["big 1 100"]);
  const ofAna = (await page(`users?userId=${encodeURIComponent(users[0] ?? "")}`)).replaceAll(/\s+/g, " ");
  expect(ofAna).toContain("Runs out within a day");
  clock.advance(9 * DAY_MS);
  await signIn();
  const later = (await page("users?userId=bob")).replaceAll(/\s+/g, " ");
  expect(later).toContain("Runs out in about 90 days, if debits go on as in the last 10 days");
});

it("does not take a burst of entries for the rate of a whole day", async () => {
  const { app, clock, post, page, signIn } = await world();
  const packId = await makeOpenAmountPack(app.appId, "Any", "tokens");
  // A page of 101 users examines 20 entries of each.
  const users = Array.from({ length: 100 }, (_, n) => `user ${n}`);
  for (const userId of [...users, "burst"]) await post("credits/grant", { userId, packId, quantity: 10_000 });
  const event = (userId: string, n: number, tokens: number) => ({
    ...{ eventId: `${userId} ${n}`, userId, event: "chat", quantities: { tokens } },
  });
  const burst = (first: number) => Array.from({ length: 50 }, (_, n) => event("burst", first + n, 20));
  await post("usage/events", burst(0));
  clock.advance(2 * DAY_MS);
  await post("usage/events", burst(50));
  await post("usage/events", users.map((userId) => event(userId, 0, 1)).slice(0, 99));
  clock.advance(60_000);
  await signIn();
  await sumDaysOf(makeAdminCtx(clock), app.environments.live);
  const [first] = tableRows(await page("usage"), "Runs out next");
  // 50 entries of 20 in the last day. Of 10,000 granted, 8,000 are left.
  expect(first).toMatch(/^burst 8,000 tokens 1K tokens in about 8 days/);
});

it("forecasts by debits and not by quantities, leaves out time after an expiry and erased users, and lists users with nothing left", async () => {
  const { app, clock, post, page } = await world();
  const packId = await makeOpenAmountPack(app.appId, "Any", "tokens");
  const expiresAt = new Date(clock.now() + 3 * DAY_MS).toISOString();
  await post("credits/grant", { userId: "ida", packId, quantity: 1_000, expiresAt });
  await post("credits/grant", { userId: "out", packId, quantity: 100 });
  await post("credits/grant", { userId: "held", packId, quantity: 100 });
  // The seconds are an alternative price, which nothing pays.
  const quantities = { tokens: 100, seconds: 100_000 };
  await post("usage/events", { eventId: "i1", userId: "ida", event: "chat", quantities });
  await post("usage/events", { eventId: "o1", userId: "out", event: "chat", quantities });
  const hold = {
    reservationId: "res_h1",
    userId: "held",
    event: "chat",
    quantities: { tokens: 50 },
    expiresInSeconds: 60,
  };
  await post("usage/reservations", hold);
  await post("usage/reservations/res_h1/release", {});
  await sumDaysOf(makeAdminCtx(clock), app.environments.live);
  const text = await page("usage");
  const ends = tableRows(text, "Runs out next");
  expect(ends).toHaveLength(2);
  expect(ends[0]).toMatch(/^out 0 tokens 100 tokens now: nothing is left/);
  expect(ends[1]).toMatch(/^ida 900 tokens 100 tokens in about 3 days/);
  expect(text.replaceAll(/\s+/g, " ")).toContain("1 user has nothing left of a unit.");
  const ofIda = (await page("users?userId=ida")).replaceAll(/\s+/g, " ");
  expect(ofIda).toContain("Runs out in about 3 days, if debits go on as in the last day; 600 of it expire unused");
  const ofOut = (await page("users?userId=out")).replaceAll(/\s+/g, " ");
  expect(ofOut).toContain("It ran out: 100 a day were debited before");
  expect(await page("users?userId=held")).not.toContain("Runs out");

  await post("erase-person", { distinctId: "out" });
  await sumDaysOf(makeAdminCtx(clock), app.environments.live);
  expect(tableRows(await page("usage"), "Runs out next")).toHaveLength(1);
});
