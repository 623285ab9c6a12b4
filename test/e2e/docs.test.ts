import axe from "axe-core";
import type { Browser, Page } from "playwright-core";
import { afterAll, beforeAll, describe, expect, it } from "vitest";
import { chromiumPath, connectBrowser, withoutChromium } from "./support/browser.ts";
import { type Server, sharedServer } from "./support/server.ts";

const DESKTOP = { width: 1_440, height: 900 };
const PHONE = { width: 390, height: 844 };

/** A script that shortens each of axe's findings: rule, count, first element. */
const SAY = "(found) => found.violations.map((one) => [one.id, one.nodes.length, one.nodes[0].html.slice(0, 200)])";
/** Scalar gives the cards of all examples one name. Their headings tell them apart. */
const OPTIONS = { resultTypes: ["violations"], rules: { "landmark-unique": { enabled: false } } };

interface Document {
  readonly paths: Readonly<
    Record<string, Readonly<Record<string, { operationId: string; tags: string[]; summary: string }>>>
  >;
  readonly webhooks: Readonly<Record<string, unknown>>;
}

describe.skipIf(chromiumPath === null)(`the reference in a browser${withoutChromium}`, () => {
  let server: Server;
  let browser: Browser;
  let page: Page;
  const complaints: string[] = [];
  const requests: string[] = [];
  beforeAll(async () => {
    [server, browser] = await Promise.all([sharedServer(), connectBrowser()]);
    page = await browser.newPage({ viewport: DESKTOP });
    page.on("console", (message) => message.type() !== "info" && complaints.push(message.text()));
    page.on("pageerror", (error) => complaints.push(error.message));
    page.on("request", (request) => requests.push(request.url()));
    await page.goto(`${server.url}/docs`);
    await page.getByRole("link", { name: /^Grant a pack to a user/ }).waitFor();
  });
  afterAll(async () => {
    await browser.close();
  });

  /** Opens an operation by its address, and returns its section of the page. */
  const open = async (anchor: string, heading: string) => {
    await page.goto("about:blank");
    await page.goto(`${server.url}/docs#${anchor}`);
    const found = page.getByRole("heading", { name: heading, exact: true }).first();
    await found.waitFor();
    return found;
  };

  it("lists every operation and message of the document in its contents", async () => {
    const { paths, webhooks } = (await (await fetch(`${server.url}/api/v1/openapi.json`)).json()) as Document;
    const wanted = [
      ...Object.values(paths).flatMap((item) => Object.values(item).map(({ summary }) => summary)),
      ...Object.keys(webhooks),
    ];
    for (const tag of ["Usage", "Analytics", "People", "Payments", "Administration", "Messages", "Service"]) {
      const link = page.getByRole("link", { name: tag, exact: true });
      await link.first().click();
    }
    await page.getByRole("link", { name: /^Check health/ }).waitFor();
    const listed = await page.locator("aside a, nav a").allTextContents();
    const missing = wanted.filter((summary) => !listed.some((text) => text.trim().startsWith(summary)));
    expect(missing).toEqual([]);
  });

  it("shows an operation's fields, errors and examples at its own address", async () => {
    await open("tag/credits/revokeBalance", "Revoke a balance");
    const text = (await page.locator("main, #reference").first().textContent()) ?? "";
    for (const part of ["/api/v1/credits/revoke", "balanceId", "credit_balance_not_found", "curl"]) {
      expect(text).toContain(part);
    }
  });

  it.each([
    ["tag/credits/listCreditUsers", "/api/v1/credits/users \\"],
    ["tag/usage/listUsageEvents", "/api/v1/usage/events?userId=user_42'"],
  ])(
    "shows at %s a request without optional parameters, such as a cursor, which Purser would reject",
    async (anchor, end) => {
      await page.goto("about:blank");
      await page.goto(`${server.url}/docs#${anchor}`);
      await page.locator("pre, code", { hasText: end }).first().waitFor({ state: "attached", timeout: 15_000 });
    },
  );

  it("finds an operation by its search", async () => {
    await page.keyboard.press("Control+k");
    await page
      .getByRole("searchbox")
      .or(page.getByRole("combobox"))
      .or(page.getByPlaceholder(/search/i))
      .first()
      .fill("refund");
    await page.getByText("Refund a grant by its reference").last().waitFor();
    await page.keyboard.press("Escape");
  });

  it("has no console that would send a key from the page", async () => {
    expect(await page.getByRole("button", { name: /test request|send request|try it|authori[sz]e/i }).count()).toBe(0);
  });

  it.each([
    ["on a dark screen", DESKTOP, "dark"],
    ["on a light screen", DESKTOP, "light"],
    ["on a phone", PHONE, "light"],
  ] as const)("%s fits the screen and is accessible", async (_, size, colorScheme) => {
    await page.setViewportSize(size);
    await page.emulateMedia({ colorScheme });
    // The page reads the scheme when it is loaded. Another size takes effect at once.
    if (size === DESKTOP) await open("tag/usage/recordUsageEvent", "Record a usage event");
    expect(await page.evaluate("document.documentElement.scrollWidth <= innerWidth")).toBe(true);
    if (!(await page.evaluate("'axe' in globalThis"))) await page.evaluate(axe.source);
    expect(await page.evaluate(`axe.run(${JSON.stringify(OPTIONS)}).then(${SAY})`)).toEqual([]);
  });

  it("says so if the document cannot be loaded", async () => {
    const cut = await browser.newPage({ viewport: DESKTOP });
    await cut.route("**/openapi.json", (route) => route.abort());
    await cut.goto(`${server.url}/docs`);
    await cut.getByText("The reference could not be loaded. Load this page again.").waitFor();
  });

  it("requests nothing from another site, and writes no warning to the console", () => {
    const outside = requests.filter((url) => !url.startsWith(server.url) && !/^(data|blob|about):/.test(url));
    expect(outside).toEqual([]);
    expect(complaints.filter((text) => !text.includes("404"))).toEqual([]);
  });
});
