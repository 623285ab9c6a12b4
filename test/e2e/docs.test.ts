import axe from "axe-core";
import type { Browser, BrowserContextOptions } from "playwright-core";
import { afterAll, beforeAll, describe, expect, it } from "vitest";
import { chromiumPath, connectBrowser, withoutChromium } from "./support/browser.ts";
import { type Server, sharedServer } from "./support/server.ts";

const LOOKS: Readonly<Record<string, BrowserContextOptions>> = {
  "on a light screen": { viewport: { width: 1440, height: 900 }, colorScheme: "light" },
  "on a dark screen": { viewport: { width: 1440, height: 900 }, colorScheme: "dark" },
  "on a phone": { viewport: { width: 390, height: 844 } },
};

/** Matches all operations of each group except two. These two have all colours and layouts of the others. */
const MOST = "main section > section:nth-of-type(n + 3)";

/** A script that shortens each of axe's findings: rule, count, first element. */
const SAY = "(found) => found.violations.map((one) => [one.id, one.nodes.length, one.nodes[0].html.slice(0, 200)])";

/** Returns axe's options without one rule. */
const without = (rule: string) =>
  JSON.stringify({ resultTypes: ["violations"], rules: { [rule]: { enabled: false } } });

describe.skipIf(chromiumPath === null)(`the reference in a browser${withoutChromium}`, () => {
  let server: Server;
  let browser: Browser;
  beforeAll(async () => {
    [server, browser] = await Promise.all([sharedServer(), connectBrowser()]);
  });
  afterAll(async () => {
    await browser.close();
  });

  it.each(Object.keys(LOOKS))(
    "%s makes no other request, fits the screen, has no console errors and is accessible",
    async (look) => {
      const page = await (await browser.newContext(LOOKS[look])).newPage();
      const complaints: string[] = [];
      const requests: string[] = [];
      page.on("console", (message) => complaints.push(message.text()));
      page.on("pageerror", (error) => complaints.push(error.message));
      page.on("request", (request) => requests.push(request.url()));

      await page.goto(`${server.url}/docs`);
      // The browser itself requests each site's icon.
      expect(requests.filter((url) => !url.endsWith("/favicon.ico"))).toEqual([`${server.url}/docs`]);
      expect(await page.evaluate("document.documentElement.scrollWidth <= innerWidth")).toBe(true);

      // Folded parts are checked too.
      await page.evaluate("for (const each of document.querySelectorAll('details')) each.open = true");
      await page.evaluate(axe.source);
      // axe reads all elements, even those that it is configured to leave out, so they are removed.
      await page.evaluate(`for (const each of document.querySelectorAll("${MOST}")) each.remove()`);
      // Some links of the contents now have no target.
      const flaws = await page.evaluate(`axe.run(${without("skip-link")}).then(${SAY})`);
      expect(flaws).toEqual([]);
      expect(complaints.filter((text) => !text.includes("404"))).toEqual([]);
      await page.context().close();
    },
  );

  // The test of each look checks the contrast, which takes axe most of the time.
  it("is accessible in every operation", async () => {
    const page = await (await browser.newContext(LOOKS["on a light screen"] ?? {})).newPage();
    await page.goto(`${server.url}/docs`);
    await page.evaluate(axe.source);
    expect(await page.evaluate(`axe.run(${without("color-contrast")}).then(${SAY})`)).toEqual([]);
    await page.context().close();
  });

  it("goes to the operation that its contents name", async () => {
    const page = await (await browser.newContext(LOOKS["on a light screen"] ?? {})).newPage();
    await page.goto(`${server.url}/docs`);
    await page
      .getByRole("link", { name: /^Revoke a balance/ })
      .first()
      .click();
    expect(page.url()).toBe(`${server.url}/docs#revokeBalance`);
    const box = await page.locator("#revokeBalance").boundingBox();
    expect(box?.y ?? -1).toBeGreaterThanOrEqual(0);
    expect(box?.y ?? 900).toBeLessThan(200);
    await page.context().close();
  });
});
