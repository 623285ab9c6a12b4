import { readFileSync } from "node:fs";
import { createRequire } from "node:module";
import type { Browser, BrowserContext, Page } from "playwright-core";
import { expect } from "vitest";
import { ADMIN_TOKEN } from "./server.ts";

const axeSource = readFileSync(createRequire(import.meta.url).resolve("axe-core/axe.min.js"), "utf8");

/** A page that records errors, violations of the content policy, and dialogs that a script opened. */
export interface Watched {
  readonly page: Page;
  readonly context: BrowserContext;
  readonly complaints: string[];
}

export async function openPage(browser: Browser, options: Parameters<Browser["newContext"]>[0] = {}): Promise<Watched> {
  const context = await browser.newContext(options);
  await context.grantPermissions(["clipboard-read", "clipboard-write"]);
  const page = await context.newPage();
  page.setDefaultTimeout(10_000);
  const complaints: string[] = [];
  page.on("pageerror", (error) => complaints.push(`page error: ${error.message}`));
  page.on("dialog", async (dialog) => {
    complaints.push(`dialog: ${dialog.message()}`);
    await dialog.dismiss();
  });
  page.on("console", (message) => {
    // Chromium reports the 4xx of a rejected form as an error.
    if (message.type() !== "error" || /status of 4\d\d/.test(message.text())) return;
    complaints.push(`console: ${message.text()}`);
  });
  return { page, context, complaints };
}

/** Loads axe with every page of a context. Sending its half a megabyte for each check takes as long as the check. */
export const loadAxe = (context: BrowserContext): Promise<unknown> => context.addInitScript(axeSource);

export async function signIn(page: Page, url: string, name = "Ana"): Promise<void> {
  await page.goto(`${url}/admin`);
  await page.getByLabel("Your name").fill(name);
  await page.getByLabel("Admin token").fill(ADMIN_TOKEN);
  await page.getByRole("button", { name: "Sign in" }).click();
  await page.getByRole("heading", { name: "Applications", exact: true }).waitFor();
}

interface AxeResults {
  readonly violations: readonly {
    readonly id: string;
    readonly impact: string | null;
    readonly nodes: readonly { readonly html: string }[];
  }[];
}

/** Checks that axe finds nothing serious or critical on the page. */
export async function expectAccessible(page: Page): Promise<void> {
  // A click resolves when the next page starts to load, which may have no root element yet.
  await page.waitForLoadState();
  // A shadow shows that a table can be scrolled. axe cannot check the contrast over a gradient.
  await page.evaluate('for (const table of document.querySelectorAll(".scroll")) table.style.background = "none"');
  // The debugger evaluates axe, because the content policy does not apply to it. Once per document, because axe is large.
  if (!(await page.evaluate("'axe' in globalThis"))) await page.evaluate(axeSource);
  // Passed checks are counted but not listed, which halves the work. No rule needs the style sheets loaded once more.
  const options = JSON.stringify({ resultTypes: ["violations"], preload: false });
  const results = (await page.evaluate(`axe.run(document, ${options})`)) as AxeResults;
  const serious = results.violations.filter(({ impact }) => impact === "serious" || impact === "critical");
  const findings = serious.map(({ id, nodes }) => `${id}: ${nodes.map((node) => node.html).join(" | ")}`);
  expect(findings, `axe on ${page.url()}`).toEqual([]);
}
