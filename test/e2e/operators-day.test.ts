import type { Browser, Page } from "playwright-core";
import { afterAll, afterEach, beforeAll, describe, expect, it } from "vitest";
import { DAY_MS } from "../../src/lib/time.ts";
import { chromiumPath, connectBrowser, withoutChromium } from "./support/browser.ts";
import { openPage, signIn, type Watched } from "./support/dashboard.ts";
import { LEAVER, liveMonth, type MonthWorld } from "./support/month-world.ts";
import { type Server, sharedServer } from "./support/server.ts";

// An operator answers the questions of a day by links and forms alone. Each answer is compared with the API's.

const number = (text: string): number => Number(text.replaceAll(",", "").replace("−", "-").split(" ")[0]);
const sumOf = (values: readonly number[]): number =>
  Math.round(values.reduce((sum, value) => sum + value, 0) * 1e6) / 1e6;

describe.skipIf(chromiumPath === null)(`an operator's day on a month of data${withoutChromium}`, () => {
  let server: Server;
  let browser: Browser;
  let watched: Watched;
  let page: Page;
  let world: MonthWorld;

  beforeAll(async () => {
    [server, browser] = await Promise.all([sharedServer(), connectBrowser()]);
    world = await liveMonth(server);
    watched = await openPage(browser);
    ({ page } = watched);
    await signIn(page, server.url);
    // Every test application has the same name: this one's link is found by its id.
    await page.locator(`main a[href*="${world.app.appId}/test"]`).first().click();
    await page.getByRole("heading", { name: "Overview", level: 1 }).waitFor();
  }, 120_000);
  afterAll(async () => {
    await browser.close();
  });
  afterEach(() => expect(watched.complaints).toEqual([]));

  const main = () => page.getByRole("main");
  const heading = (name: string | RegExp) => page.getByRole("heading", { name, level: 1 }).waitFor();
  const section = async (name: string, title = name) => {
    await page.getByRole("navigation", { name: "Sections" }).getByRole("link", { name, exact: true }).click();
    await heading(title);
  };
  const link = (name: string) => main().getByRole("link", { name, exact: true }).first().click();
  const press = (name: string) => main().getByRole("button", { name, exact: true }).click();
  const fill = (label: string | RegExp, text: string) => main().getByLabel(label).first().fill(text);
  const sees = (text: string | RegExp) => main().getByText(text).first().waitFor();
  const tab = (name: string, of = "Parts of this page") =>
    page.getByRole("navigation", { name: of }).getByRole("link", { name, exact: true }).click();
  /** The cells of a table's rows. */
  const rows = async (label: string): Promise<string[][]> => {
    const table = main().getByRole("region", { name: label, exact: true }).locator("tbody tr");
    await table.first().waitFor();
    const texts = await Promise.all((await table.all()).map((row) => row.locator("td").allTextContents()));
    return texts.map((cells) => cells.map((text) => text.replaceAll(/\s+/g, " ").trim()));
  };
  const openUser = async (userId: string) => {
    await section("Users");
    await fill("User id", userId);
    await press("Search");
    await heading(`User ${userId}`);
  };
  const more = async (name: string) => {
    await page.getByLabel("More actions").click();
    await link(name);
  };
  const spendable = async (userId: string): Promise<number> => {
    const { credits } = await world.purser.listBalances({ userId });
    return sumOf(credits.filter(({ unit }) => unit === "cents").map(({ remaining }) => remaining));
  };

  /** A user's totals by model or by month. */
  const totalsOf = async (userId: string, groupBy: "model" | "month") => {
    const { totals } = await world.purser.getUsageTotals({ userId, ...monthOf(), groupBy });
    return totals.filter((each) => "debited" in each);
  };
  const monthOf = () => ({ from: world.at(1), to: world.at(32) });

  it("finds who spent most and on which model, as the API's totals say", async () => {
    await section("Usage");
    const [top, byModel] = [await rows("Top users"), await rows("By model")];
    const byUser = await world.admin.getEnvironmentUsage({ ...world.of, ...monthOf(), groupBy: "user" });
    expect(top.map(([user = "", events = "", , credits = ""]) => [user, number(events), number(credits)])).toEqual(
      byUser.totals.map(({ userId, events, quantities }) => [userId, events, quantities.cents]),
    );
    for (const [userId = "", , , , , left = ""] of top) {
      const credits = /([\d.,]+) credits?$/.exec(left)?.[1] ?? "0";
      expect(number(credits), userId).toBe(await spendable(userId));
    }
    const ofModels = await world.admin.getEnvironmentUsage({ ...world.of, ...monthOf(), groupBy: "model" });
    expect(
      byModel.map(([model, events = "", credits = ""]) => [model, number(events), number(credits)]).sort(),
    ).toEqual(
      ofModels.totals.map(({ model, events, quantities }) => [model ?? "none", events, quantities.cents]).sort(),
    );
    const [first = ""] = top.toSorted((a, b) => number(b[3] ?? "") - number(a[3] ?? ""))[0] ?? [];
    await link(first);
    await tab("Usage and limits");
    const own = (await totalsOf(first, "model")).map((each) => [
      each.model ?? "none",
      each.events,
      each.quantities.cents,
    ]);
    const shown = await rows("Usage by model");
    expect(shown.map(([model, events = "", credits = ""]) => [model, number(events), number(credits)]).sort()).toEqual(
      own.sort(),
    );
  });

  it("finds who is at a limit, and gives one of them more", async () => {
    await section("Usage limits");
    await link("Users at a limit");
    const reached = await rows("Users at a limit");
    const dayOf = async (userId: string) => (await world.purser.getUsageLimits({ userId })).limits[0];
    const memberOf = async () => {
      const { limits } = await world.purser.getUsageLimits({ userId: "harbor", memberId: "joan" });
      return limits.find(({ name }) => name === "A member's month");
    };
    const [day, ofTeam, ofMember] = [await dayOf("edsger"), await dayOf("harbor"), await memberOf()];
    expect(
      reached
        .map(([user, member, limit, used = "", of = ""]) => [user, member, limit, number(used), number(of)])
        .sort(),
    ).toEqual([
      ["edsger", "", "A day", day?.used, day?.amount],
      ["harbor", "", "A day", ofTeam?.used, ofTeam?.amount],
      ["harbor", "joan", "A member's month", ofMember?.used, ofMember?.amount],
    ]);
    await link("edsger");
    await tab("Usage and limits");
    await main().locator("#limits summary").first().click();
    await fill(/^Amount of A day for this user \(credits\)/, "500");
    await press("Set");
    await sees("The limit's amount of this user is set. It applies now.");
    expect(await dayOf("edsger")).toMatchObject({ amount: 500, used: day?.used });
    const event = { eventId: "after the override", userId: "edsger", event: "image", meters: { images: 1 } };
    await expect(world.purser.recordUsageEvent(event)).resolves.toMatchObject({ quantities: { cents: 6 } });
    await section("Usage limits");
    await link("Users at a limit");
    expect((await rows("Users at a limit")).map(([user]) => user)).toEqual(["harbor", "harbor"]);
  });

  it("finds whose credits run out first, by what the ledger says was debited", async () => {
    await section("Usage");
    const ends = await rows("Runs out next");
    const [first] = ends;
    expect([first?.[0], first?.[3]]).toEqual(["hedy", "within a day"]);
    for (const [userId = "", left = "", , runsOut = ""] of ends) {
      expect(number(left), userId).toBe(await spendable(userId));
      const debits = [];
      for await (const entry of world.purser.listLedgerEntries({ userId })) {
        if (entry.reason === "event_committed") debits.push(entry);
      }
      const firstDay = Math.floor(Date.parse(debits.at(-1)?.occurredAt ?? "") / DAY_MS);
      const days = Math.min(30, Math.floor(Date.parse(world.at(32)) / DAY_MS) - firstDay);
      const daysLeft = number(left) / (-sumOf(debits.map(({ delta }) => delta)) / days);
      // The credits also expire, 45 days after they were granted.
      const about = Number(/about (\d+) days?/.exec(runsOut)?.[1] ?? 1);
      expect(about, userId).toBeLessThanOrEqual(Math.max(1, Math.ceil(daysLeft * 1.05)));
      if (daysLeft < 10) expect(about, userId).toBeGreaterThanOrEqual(Math.floor(daysLeft * 0.95));
    }
    // Rejections are written some seconds later.
    const short = main().getByRole("link", { name: /^Insufficient credits \(402\): / });
    const isShown = async () => {
      await section("Overview");
      return short.isVisible();
    };
    await expect.poll(isShown, { timeout: 20_000, interval: 500 }).toBe(true);
    await short.click();
    await link("Insufficient credits (402)");
    const refusals = await rows("Insufficient credits");
    expect(new Set(refusals.map(([user]) => user))).toEqual(new Set(["hedy"]));
  });

  it("adds up the money by day, as the payments do", async () => {
    await section("Overview");
    await main()
      .getByRole("link", { name: /^Revenue/ })
      .click();
    await heading("Money by day");
    await fill("From (UTC)", world.at(1).slice(0, 10));
    await press("Filter");
    const days = await rows("Money by day");
    const { payments } = await world.admin.listPayments({ ...world.of, limit: 100 });
    const dollars = (text = "") => Math.round(Number(text.replaceAll(/[$,]/g, "")) * 100);
    const sum = (column: number) => sumOf(days.map((cells) => dollars(cells[column])));
    expect([sum(2), sum(3)]).toEqual([
      sumOf(payments.map(({ captured }) => captured ?? 0)),
      sumOf(payments.map(({ refunded }) => refunded ?? 0)),
    ]);
  });

  it("refunds a part of an order, and the API tells the same balance", async () => {
    await openUser("barbara");
    await more("Refund an order");
    await fill("Reference of the order", "order-11");
    await fill("Refunded part", "100");
    await main().getByLabel("Of", { exact: true }).fill("250");
    await fill("Reason (kept in the ledger)", "an outage");
    await press("Continue");
    const [[, afterwards] = []] = await rows("What the refund takes");
    const before = await spendable("barbara");
    await press("Refund");
    await sees("Order refunded.");
    const { credits } = await world.purser.listBalances({ userId: "barbara", externalRef: "order-11" });
    expect(afterwards).toBe(`250 → ${credits[0]?.remaining} credits`);
    expect(await spendable("barbara")).toBe(sumOf([before, -100]));
  });

  it("revokes a grant to the wrong customer, all of its balances", async () => {
    await openUser("barbara");
    await link("Studio");
    await link("Revoke the whole grant");
    for (const change of ["700 → 0 credits", "90 → 0 seconds"]) await sees(change);
    await fill("Reason (kept in the ledger)", "another customer's order");
    await press("Revoke 2 balances");
    await sees("All balances of the grant revoked.");
    const { credits } = await world.purser.listBalances({ userId: "barbara", externalRef: "order-oops" });
    expect(credits.map(({ status, remaining }) => [status, remaining])).toEqual([
      ["revoked", 0],
      ["revoked", 0],
    ]);
  });

  it("finds the failing endpoint and what it answers, as the API lists its deliveries", async () => {
    await section("Overview");
    await sees(/is failing/);
    await link("Open the endpoint");
    const shown = await rows("Deliveries");
    const { webhooks } = await world.admin.listWebhooks(world.of);
    const webhookId = webhooks[0]?.webhookId ?? "";
    const { deliveries } = await world.admin.listDeliveries({ appId: world.of.appId, webhookId, limit: 500 });
    const types = (texts: readonly string[]) => texts.map((text) => /[a-z_]+\.[a-z_]+/.exec(text)?.[0] ?? text);
    expect(types(shown.map(([, message = ""]) => message))).toEqual(
      deliveries.slice(0, shown.length).map(({ type }) => type),
    );
    expect(shown.some(([, , , attempts = ""]) => attempts.includes("404"))).toBe(true);
  });

  it("grants goodwill to fifty users, once, and previews exactly what a longer list would add", async () => {
    const users = Array.from({ length: 50 }, (_, n) => `trial_${n}`);
    await section("Users");
    await link("Grant to many users");
    const ask = async (ids: readonly string[]) => {
      await fill(/^Users/, ids.join("\n"));
      const pack = main().getByLabel("Pack", { exact: true });
      const packId = await pack.locator("option", { hasText: "Goodwill" }).getAttribute("value");
      await pack.selectOption(packId);
      await fill(/^Quantity/, "15");
      await fill("Reference", "outage-goodwill");
      await fill("Reason (kept in the ledger)", "an outage");
      await press("Preview");
      await heading("Confirm grants");
    };
    await ask(users);
    await sees("50 of these users do not exist yet.");
    await sees("750 credits");
    await main().getByLabel("I have checked this").check();
    await press("Grant to 50 users");
    await sees("50 granted, 0 granted before, 0 failed.");
    for (const userId of [users[0], users[49]]) expect(await spendable(userId ?? "")).toBe(15);
    const { users: listed } = await world.purser.listCreditUsers({ limit: 500 });
    expect(listed.filter(({ userId }) => userId.startsWith("trial_"))).toHaveLength(50);
    // Two more users: only they get something.
    await section("Users");
    await link("Grant to many users");
    await ask([...users, "trial_50", "trial_51"]);
    await sees("30 credits");
    await main().getByLabel("I have checked this").check();
    await press("Grant to 52 users");
    await sees("2 granted, 50 granted before, 0 failed.");
  });

  it("erases a person after a preview, and keeps the books", async () => {
    await section("People");
    await fill("Distinct id", LEAVER);
    await press("Search");
    await link("Erase this person…");
    const counts = await rows("Rows");
    const { erased, pseudonymised } = await world.purser.erasePerson({ distinctId: LEAVER, dryRun: true });
    expect(counts.map(([name, rowCount = ""]) => [name, number(rowCount)])).toEqual(
      [...Object.entries(erased), ...Object.entries(pseudonymised)].filter(([, rowCount]) => rowCount > 0),
    );
    await sees("Credits revoked: 40 credits.");
    await fill(/^Type the id to confirm/, LEAVER);
    await press("Erase person");
    await sees("This receipt contains no personal data");
    expect((await world.purser.listBalances({ userId: LEAVER })).credits).toEqual([]);
    const grant = { userId: LEAVER, packId: "Goodwill", quantity: 1 };
    await expect(world.purser.grantCredits(grant)).rejects.toMatchObject({ code: "person_erased" });
  });

  it("shows costs beside debits as the usage of all users says, by model and user", async () => {
    await server.cron();
    await section("Prices");
    await link("Costs and debits");
    for (const [label, groupBy] of [
      ["By model", "model"],
      ["By user", "user"],
    ] as const) {
      const { totals } = await world.admin.getEnvironmentUsage({ ...world.of, ...monthOf(), groupBy });
      const expected = totals.map((total) => [
        (groupBy === "model" ? total.model : total.userId) ?? "none",
        ...[total.events, total.quantities.cents, total.cost, total.withoutCost],
      ]);
      await tab(label, "Costs by");
      const shown = (await rows(label)).map(([name, events = "", priced = "", , cost = "", without = ""]) => [
        name,
        ...[number(events), number(priced), cost === "unknown" ? null : number(cost), number(without)],
      ]);
      expect(shown.sort(), label).toEqual(expected.sort());
    }
    await tab("By model", "Costs by");
    const debited = (await rows("By model")).map(([, , , text = ""]) => number(text));
    const users = await world.admin.getEnvironmentUsage({ ...world.of, ...monthOf(), groupBy: "user" });
    const ofUsers = await Promise.all(
      users.totals.map(async ({ userId = "" }) => {
        const [total] = await totalsOf(userId, "month");
        return Number(total?.debited.cents ?? 0);
      }),
    );
    expect(sumOf(debited)).toBe(sumOf(ofUsers));
  });

  it("edits the prices with errors beside the rows, previews them on last week's events, schedules and compares them", async () => {
    await section("Prices");
    await link("Edit the list");
    await fill("Price of an event of no. 3", "a lot");
    await fill("Meters of no. 1", "input: cheap");
    await press("Review the change");
    const errors = main().getByRole("alert");
    await errors.first().waitFor();
    expect((await errors.allTextContents()).length).toBeGreaterThanOrEqual(2);
    await fill("Price of an event of no. 3", "9");
    await fill("Meters of no. 1", "input 400 for 1000000, output 2000 for 1000000");
    await fill(/^In force from/, world.at(33).slice(0, 19));
    await press("Review the change");
    await heading("Review the price list");
    // An image costs 3 more.
    const week = { from: world.at(monthDays() - 6), to: world.at(monthDays() + 1) };
    const { totals } = await world.admin.getEnvironmentUsage({ ...world.of, ...week, groupBy: "event" });
    const before = sumOf(totals.map(({ quantities }) => Number(quantities.cents ?? 0)));
    const images = Number(totals.find(({ event }) => event === "image")?.meters.images ?? 0);
    const after = sumOf([before, 3 * images]);
    const percent = Math.round((1_000 * (after - before)) / before) / 10;
    const told = (await main().textContent())?.replaceAll(/\s+/g, " ");
    const amount = (value: number) => value.toLocaleString("en-US", { maximumFractionDigits: 6 });
    expect(told).toContain(
      `This list would have charged ${percent} % more: ${amount(after)} credits instead of ${amount(before)}.`,
    );
    await press("Schedule this version");
    await heading("Prices, version 2");
    const { inForce, versions } = await world.admin.listPriceLists(world.of);
    expect([inForce, versions[0]]).toMatchObject([1, { version: 2, effectiveAt: world.at(33) }]);
    await link("Compare");
    const [changed] = await rows("Changed rules");
    expect([changed?.[0], changed?.at(-1)]).toEqual(["changed", "an event: 6 → 9 (+50 %)"]);
  });

  it("closes the month with a statement, which agrees with the balances at its end", async () => {
    await section("Clock", "Test clock");
    await fill("To (UTC)", world.at(monthDays() + 2, 10).slice(0, 19));
    await press("Continue");
    await main().getByRole("button").first().click();
    await sees("Clock moved.");
    await section("Statements");
    await fill("Month (UTC)", world.month);
    await press("Make statement");
    await sees("The statement is being made.");
    await server.cron();
    await page.reload();
    const lines = await rows(`Statement ${world.month}`);
    const { statements } = await world.admin.listStatements(world.of);
    const statementId = statements[0]?.statementId ?? "";
    const statement = await world.admin.getStatement({ appId: world.of.appId, statementId });
    if (typeof statement === "string") throw new Error("The API returned a statement as CSV, not as JSON.");
    const heads = await main().locator("thead th").allTextContents();
    const closingAt = heads.indexOf("= Closing");
    const shown = lines.map((cells) => [cells[0], cells[1], number(cells[closingAt] ?? "")]);
    const names: Record<string, string> = { cents: "credits" };
    expect(shown).toEqual(
      statement.lines?.map(({ packName, unit, closing }) => [packName, names[unit] ?? unit, closing]),
    );
    // The same by each user's balances at the month's last moment.
    const end = new Date(Date.parse(world.at(monthDays() + 1)) - 1).toISOString();
    const { users } = await world.purser.listCreditUsers({ limit: 500 });
    let remaining = 0;
    for (const { userId } of users) {
      const { credits } = await world.purser.listBalances({ userId, asOf: end });
      remaining += sumOf(
        credits.filter(({ unit, status }) => unit === "cents" && status !== "expired").map((each) => each.remaining),
      );
    }
    expect(sumOf(shown.filter(([, unit]) => unit === "credits").map(([, , closing]) => Number(closing)))).toBe(
      sumOf([remaining]),
    );
    await openUser("barbara");
    await more("As of a moment");
    await fill("At (UTC)", `${end.slice(0, 10)}T23:59`);
    await press("Filter");
    const then = await rows("Balances then");
    const { credits } = await world.purser.listBalances({ userId: "barbara", asOf: `${end.slice(0, 10)}T23:59:00Z` });
    expect(then.map(([, pack, left = "", status]) => [pack, number(left), status]).sort()).toEqual(
      credits.map(({ packName, remaining: left, status }) => [packName, left, status]).sort(),
    );
  });

  /** The number of days of the world's month. */
  const monthDays = () =>
    new Date(Date.UTC(Number(world.month.slice(0, 4)), Number(world.month.slice(5)), 0)).getUTCDate();
});
