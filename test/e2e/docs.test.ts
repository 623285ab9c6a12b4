import axe from "axe-core";
import type { Browser, Page } from "playwright-core";
import { afterAll, beforeAll, describe, expect, it } from "vitest";
import { chromiumPath, connectBrowser, withoutChromium } from "./support/browser.ts";
import { RULES_OF_LOOKS } from "./support/dashboard.ts";
import { type Server, sharedServer } from "./support/server.ts";

const DESKTOP = { width: 1_440, height: 900 };
const LOOKS = {
  "on a light screen": { size: DESKTOP, colorScheme: "light" },
  "on a dark screen": { size: DESKTOP, colorScheme: "dark" },
  "on a phone": { size: { width: 390, height: 844 }, colorScheme: "light" },
} as const;

/** Matches all operations of each group except two. These two have all colours and layouts of the others. */
const MOST = "main section > section:nth-of-type(n + 3)";

/** A script that shortens each of axe's findings: rule, count, first element. */
const SAY = "(found) => found.violations.map((one) => [one.id, one.nodes.length, one.nodes[0].html.slice(0, 200)])";

// The tests use one page, from the whole reference to a part of it, because it has 19,000 elements.
describe.skipIf(chromiumPath === null)(`the reference in a browser${withoutChromium}`, () => {
  let server: Server;
  let browser: Browser;
  let page: Page;
  const complaints: string[] = [];
  const requests: string[] = [];
  beforeAll(async () => {
    [server, browser] = await Promise.all([sharedServer(), connectBrowser()]);
    page = await browser.newPage({ viewport: DESKTOP });
    page.on("console", (message) => complaints.push(message.text()));
    page.on("pageerror", (error) => complaints.push(error.message));
    page.on("request", (request) => requests.push(request.url()));
    await page.goto(`${server.url}/docs`);
  });
  afterAll(async () => {
    await browser.close();
  });

  const show = async ({ size, colorScheme }: (typeof LOOKS)[keyof typeof LOOKS]) => {
    await page.setViewportSize(size);
    await page.emulateMedia({ colorScheme });
  };
  const flaws = (options: object) =>
    page.evaluate(`axe.run(${JSON.stringify({ resultTypes: ["violations"], ...options })}).then(${SAY})`);
  const without = (...rules: readonly string[]) => ({
    rules: Object.fromEntries(rules.map((rule) => [rule, { enabled: false }])),
  });

  it("goes to the operation that its contents name", async () => {
    await page
      .getByRole("link", { name: /^Revoke a balance/ })
      .first()
      .click();
    expect(page.url()).toBe(`${server.url}/docs#revokeBalance`);
    const box = await page.locator("#revokeBalance").boundingBox();
    expect(box?.y ?? -1).toBeGreaterThanOrEqual(0);
    expect(box?.y ?? 900).toBeLessThan(200);
  });

  it.each(Object.entries(LOOKS))("%s fits the screen", async (_, look) => {
    await show(look);
    expect(await page.evaluate("document.documentElement.scrollWidth <= innerWidth")).toBe(true);
  });

  // The tests of the looks check the colours, which takes axe most of the time.
  it("is accessible in every operation", async () => {
    await show(LOOKS["on a light screen"]);
    await page.evaluate(axe.source);
    expect(await flaws(without("color-contrast", "link-in-text-block"))).toEqual([]);
  });

  it.each(Object.entries(LOOKS))("%s is accessible, also in folded parts", async (name, look) => {
    await show(look);
    await page.evaluate("for (const each of document.querySelectorAll('details')) each.open = true");
    // axe reads all elements, even those that it is configured to leave out, so they are removed.
    await page.evaluate(`for (const each of document.querySelectorAll("${MOST}")) each.remove()`);
    // Some links of the contents now have no target.
    const options = name === "on a light screen" ? without("skip-link") : { runOnly: RULES_OF_LOOKS };
    expect(await flaws(options)).toEqual([]);
  });

  it("makes no other request, and writes nothing to the console", () => {
    // The browser itself requests each site's icon.
    expect(requests.filter((url) => !url.endsWith("/favicon.ico"))).toEqual([`${server.url}/docs`]);
    expect(complaints.filter((text) => !text.includes("404"))).toEqual([]);
  });
});
