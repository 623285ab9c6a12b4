import type { Browser } from "playwright-core";
import { afterAll, beforeAll, describe, expect, it } from "vitest";
import { chromiumPath, connectBrowser, withoutChromium } from "./support/browser.ts";
import { openPage, signIn, type Watched } from "./support/dashboard.ts";
import { fillLongLists } from "./support/dashboard-world.ts";
import { type ServedApp, type Server, sharedServer } from "./support/server.ts";

const PHONE = { width: 390, height: 844 };
const SCREENS_MAX = 3;
const USER = "userId=much";

/** The pages with lists, and the tab of a page that has several. */
const PAGES = [
  "overview",
  "usage",
  "users",
  `users?${USER}#credits`,
  `users?${USER}#usage`,
  `users?${USER}#events`,
  `users?${USER}#entries`,
  `users/balances?${USER}`,
  "users/bulk-grant",
  "figures?figure=granted",
  "figures?figure=spent",
  "payments",
  "stripe-events",
  "prices",
  "prices/edit",
  "prices/margin",
  "packs",
  "packs/new",
  "keys",
  "audit",
  "alerts",
  "webhooks",
  "usage-limits",
  "people",
  "people?distinctId=much",
  "limits",
  "statements",
];

describe.skipIf(chromiumPath === null)(`the dashboard on a phone${withoutChromium}`, () => {
  let server: Server;
  let browser: Browser;
  let app: ServedApp;
  let watched: Watched;
  beforeAll(async () => {
    [server, browser] = await Promise.all([sharedServer(), connectBrowser()]);
    app = await fillLongLists(server);
    watched = await openPage(browser, { viewport: PHONE });
    await signIn(watched.page, server.url);
  });
  afterAll(() => browser.close());

  it("no page is longer than three screens before its rows are unfolded, or wider than one", {
    timeout: 120_000,
  }, async () => {
    const { page } = watched;
    const long: string[] = [];
    for (const path of PAGES) {
      await page.goto("about:blank");
      await page.goto(`${server.url}/admin/apps/${app.appId}/live/${path}`);
      await page.waitForLoadState();
      const height = Number(await page.evaluate("document.documentElement.scrollHeight"));
      const screens = height / PHONE.height;
      const width = Number(await page.evaluate("document.documentElement.scrollWidth"));
      if (width > PHONE.width) long.push(`${path}: ${width} pixels wide`);
      if (screens > SCREENS_MAX) long.push(`${path}: ${screens.toFixed(1)} screens`);
    }
    expect(long).toEqual([]);
  });

  it("a long table shows its first rows, and all of them once they are asked for", async () => {
    const { page } = watched;
    await page.goto(`${server.url}/admin/apps/${app.appId}/live/users/balances?${USER}`);
    const rows = page.getByRole("region", { name: "Balances" }).locator("tbody tr:visible");
    expect(await rows.count()).toBe(6);
    await page.getByLabel(/Show all \d+ rows/).check();
    expect(await rows.count()).toBe(50);
    expect(watched.complaints).toEqual([]);
  });
});
