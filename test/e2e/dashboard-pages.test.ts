import type { Browser } from "playwright-core";
import { afterAll, beforeAll, describe, expect, it } from "vitest";
import { chromiumPath, launchBrowser, withoutChromium } from "./support/browser.ts";
import { expectAccessible, openPage, signIn, type Watched } from "./support/dashboard.ts";
import { type DashboardWorld, EVIL, fillDashboard } from "./support/dashboard-world.ts";
import { type Server, startServer } from "./support/server.ts";

const IS_SOAK = Number(process.env.SOAK_OPERATIONS) > 0;
const SCHEMES = ["light", "dark"] as const;
const SIZES = [
  { width: 1_280, height: 900 },
  { width: 360, height: 740 },
] as const;

const query = (fields: Record<string, string>) => `?${new URLSearchParams(fields)}`;

/** A last day for lists of what is to come: the pack of the world expires after 30 days. */
const AHEAD = new Date(Date.now() + 31 * 86_400_000).toISOString().slice(0, 10);

/** Every page of an application, and pages that refuse a form. */
function pagesOf({ userId, ids }: DashboardWorld): Readonly<Record<string, readonly string[]>> {
  const { packId, archivedId, balanceId, eventId, webhookId, erasureId } = ids;
  const user = query({ userId });
  const person = query({ distinctId: userId });
  const balance = query({ userId, balanceId });
  const grant = { userId: ` ${userId}`, packId, notes: EVIL, ref: "r", quantity: "7" };
  const adjustment = { userId, balanceId, note: EVIL, adjustmentId: EVIL };
  return {
    "of the business": [
      "overview",
      "overview?days=7",
      "refusals?kind=shortage",
      "refusals?kind=failed_grant",
      ...["refunded", "expiring", "minted"].map(
        (figure) => `figures${query({ figure, from: "2026-01-01", to: AHEAD })}`,
      ),
      "limits",
    ],
    "of packs": ["packs", "packs/new", `packs/${packId}`, `packs/${packId}/archive`, `packs/${archivedId}`],
    "of users": [
      "users",
      `users${query({ q: "order" })}`,
      `users${query({ q: eventId })}`,
      `users${user}`,
      `users${query({ userId, event: "chat", tokens: "1e9" })}`,
      `users${query({ userId, from: "never" })}`,
      `users/balances${user}`,
      `users/balance${balance}`,
      `users/event${query({ eventId })}`,
      `users/reservation${query({ reservationId: "res_open" })}`,
    ],
    "of the books": [
      `users/as-of${query({ userId, asOf: "2026-01-01T00:00" })}`,
      `users/as-of${query({ userId, asOf: "2926-01-01T00:00" })}`,
      `users/verify${user}`,
      "verify",
      "audit",
      `audit${query({ by: EVIL, target: EVIL })}`,
    ],
    "of acts": [
      `users/grant${user}`,
      `users/grant/confirm${query(grant)}`,
      `users/grant/confirm${query({ ...grant, notes: "" })}`,
      `users/adjust${balance}`,
      `users/adjust/confirm${query({ ...adjustment, delta: "\u221212,345,678" })}`,
      `users/adjust/confirm${query({ ...adjustment, delta: "20,000,000" })}`,
      `users/revoke${balance}`,
    ],
    "of people": [
      "people",
      "people?by=id",
      `people${query({ q: "ada" })}`,
      `people${person}`,
      `people/erase${person}`,
      `people/erasures/${erasureId}`,
    ],
    "of payments and keys": [
      "payments",
      "payments?status=unmatched",
      "payments/pi_granted",
      `payments/${encodeURIComponent(`pi_${EVIL}`)}`,
      "keys",
    ],
    "of messages and time, and none at all": [
      "alerts",
      "webhooks",
      `webhooks/${webhookId}`,
      `webhooks/${webhookId}/rotate`,
      `webhooks/${webhookId}/delete`,
      "clock",
      "../test/clock",
      "../test/clock/confirm?now=2036-01-01T00:00",
      "../test/clock/confirm?now=2016-01-01T00:00",
      "no-such-page",
      "packs/cpk_none",
    ],
  };
}

const GROUPS = [
  "of the business",
  "of packs",
  "of users",
  "of the books",
  "of acts",
  "of people",
  "of payments and keys",
  "of messages and time, and none at all",
] as const;

describe.skipIf(chromiumPath === null)(`the pages of the dashboard in a real browser${withoutChromium}`, () => {
  let server: Server;
  let browser: Browser;
  let watched: Watched;
  let world: DashboardWorld;

  beforeAll(async () => {
    const secrets = { ERASURE_SECRET: "erasure-secret-of-the-tests-00001" };
    [server, browser] = await Promise.all([startServer({ secrets }), launchBrowser()]);
    world = await fillDashboard(server);
    watched = await openPage(browser);
    // The name in the audit is a script as well.
    await signIn(watched.page, server.url, EVIL);
  });
  afterAll(async () => {
    await browser.close();
    await server.close();
  });

  /**
   * Looks at a page at both widths, each in a scheme of its own, and in the soak in both: nothing spills out, axe finds nothing, and
   * no script ran.
   */
  async function inspect(url: string): Promise<void> {
    const { page, complaints } = watched;
    await page.goto(url);
    expect(await page.title(), url).toContain("Purser");
    for (const details of await page.locator("summary").all()) await details.click();
    for (const [index, size] of SIZES.entries()) {
      await page.setViewportSize(size);
      const [wide, room] = (await page.evaluate(
        "[document.documentElement.scrollWidth, document.documentElement.clientWidth]",
      )) as [number, number];
      expect(wide, `${url} at ${size.width}`).toBeLessThanOrEqual(room);
      for (const colorScheme of IS_SOAK ? SCHEMES : SCHEMES.slice(index, index + 1)) {
        await page.emulateMedia({ colorScheme });
        await expectAccessible(page);
      }
    }
    expect(complaints, url).toEqual([]);
  }

  it.each(GROUPS)(
    "%s: all can be read, nothing is cut, and no script in any field runs",
    { timeout: 180_000 },
    async (group) => {
      const at = `${server.url}/admin/apps/${world.app.appId}/live`;
      const pages = pagesOf(world);
      expect(Object.keys(pages)).toEqual(GROUPS);
      for (const path of pages[group] ?? []) await inspect(`${at}/${path}`);
    },
  );

  it("of no application: the list, the sessions, a page that is not there, and the sign-in", async () => {
    for (const path of ["apps", "apps/sessions", "nothing/here", "apps/app_none/live/overview"]) {
      await inspect(`${server.url}/admin/${path}`);
    }
    const outside = await openPage(browser);
    watched = outside;
    await inspect(`${server.url}/admin/sign-in${query({ next: `/admin/apps/${EVIL}` })}`);
    await outside.page.getByLabel("Your name").fill(` ${EVIL}`);
    await outside.page.getByLabel("Admin token").fill("wrong");
    await outside.page.getByRole("button", { name: "Sign in" }).click();
    await outside.page.locator(".field-error").waitFor();
    await expectAccessible(outside.page);
    expect(outside.complaints).toEqual([]);
    await outside.context.close();
  });
});
