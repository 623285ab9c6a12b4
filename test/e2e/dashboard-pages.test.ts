import type { Browser } from "playwright-core";
import { afterAll, beforeAll, describe, expect, it } from "vitest";
import { DAY_MS } from "../../src/lib/time.ts";
import { chromiumPath, connectBrowser, withoutChromium } from "./support/browser.ts";
import { expectAccessible, loadAxe, openPage, signIn, type Watched } from "./support/dashboard.ts";
import { type DashboardWorld, EVIL, fillDashboard } from "./support/dashboard-world.ts";
import { type Server, sharedServer } from "./support/server.ts";
import { SOAK_OPERATIONS } from "./support/soak.ts";

const IS_SOAK = SOAK_OPERATIONS > 0;
const SCHEMES = ["light", "dark"] as const;
const DESKTOP = { width: 1_280, height: 900 };
const PHONE = { width: 360, height: 740 };
/** Each size has its own color scheme. The soak uses both at each. */
const LOOKS = [
  { size: DESKTOP, schemes: IS_SOAK ? SCHEMES : (["light"] as const) },
  { size: PHONE, schemes: IS_SOAK ? SCHEMES : (["dark"] as const) },
];

const query = (fields: Record<string, string>) => `?${new URLSearchParams(fields)}`;

const dayIn = (days: number) => new Date(Date.now() + days * DAY_MS).toISOString().slice(0, 10);
/** The last day for lists of expiries: the pack of this application expires after 30 days. */
const AHEAD = dayIn(31);

/** All pages of an application, and pages that reject a form. */
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
      "rejections?kind=shortage",
      "rejections?kind=failed_grant",
      ...["refunded", "expiring", "minted"].map(
        (figure) => `figures${query({ figure, from: "2026-01-01", to: AHEAD })}`,
      ),
      "limits",
      "search?q=a",
      "overview?days=90&compare=before",
      "usage",
      "statements",
      "prices",
      "usage-limits",
      "usage-limits/reached",
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
      `users/revoke-grant${balance}`,
      `users/refund${user}`,
      `users/recurring${user}`,
      "users/bulk-grant",
      "recurring",
      `users/members${user}`,
    ],
    "of people": [
      "people",
      "people?by=id",
      `people${query({ q: "ada" })}`,
      `people${person}`,
      `people/erase${person}`,
      `people/erasures/${erasureId}`,
      "people/erasures",
    ],
    "of payments and keys": [
      "payments",
      "payments?status=unmatched",
      "payments/pi_granted",
      `payments/${encodeURIComponent(`pi_${EVIL}`)}`,
      `payments/${encodeURIComponent(`pi_${EVIL}`)}/settle/confirm${query({ userId: ` ${EVIL}`, packId, quantity: "7" })}`,
      "keys",
      "stripe-events",
      "stripe-off",
    ],
    "of messages and time, and none at all": [
      "alerts",
      "webhooks",
      `webhooks/${webhookId}`,
      `webhooks/${webhookId}/rotate`,
      `webhooks/${webhookId}/delete`,
      "clock",
      "../test/clock",
      `../test/clock/confirm?now=${dayIn(3_000)}T00:00`,
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
  /** The page whose documents all have axe. */
  let inspected: Watched;
  let world: DashboardWorld;

  beforeAll(async () => {
    [server, browser] = await Promise.all([sharedServer(), connectBrowser()]);
    world = await fillDashboard(server);
    inspected = await openPage(browser);
    await loadAxe(inspected.context);
    // The name in the audit is a script as well.
    await signIn(inspected.page, server.url, EVIL);
  });
  afterAll(async () => {
    await browser.close();
  });

  /** The looks in the order of the next page. */
  let looks = LOOKS;
  /**
   * Checks that a page fits a desktop and a phone, that axe finds nothing, and that no script ran. axe looks at one page on a light
   * desktop and at the next on a dark phone. In the soak it looks at each page in all four ways.
   */
  async function inspect(url: string): Promise<void> {
    const { page, complaints } = inspected;
    await page.goto(url);
    expect(await page.title(), url).toContain("Purser");
    await page.evaluate('for (const one of document.querySelectorAll("main details:not(.row-menu)")) one.open = true');
    await page.evaluate('for (const one of document.querySelectorAll("[data-tab]")) one.hidden = false');
    for (const [index, { size, schemes }] of looks.entries()) {
      await page.setViewportSize(size);
      const [wide, room] = (await page.evaluate(
        "[document.documentElement.scrollWidth, document.documentElement.clientWidth]",
      )) as [number, number];
      expect(wide, `${url} at ${size.width}`).toBeLessThanOrEqual(room);
      for (const colorScheme of schemes) {
        await page.emulateMedia({ colorScheme });
        if (IS_SOAK || index === 0) await expectAccessible(page);
      }
    }
    expect(complaints, url).toEqual([]);
    looks = looks.toReversed();
  }

  it.each(GROUPS)(
    "the pages %s are accessible, fit the screen, and run no script from any field",
    { timeout: 180_000 },
    async (group) => {
      const at = `${server.url}/admin/apps/${world.app.appId}/live`;
      const pages = pagesOf(world);
      expect(Object.keys(pages)).toEqual(GROUPS);
      for (const path of pages[group] ?? []) await inspect(`${at}/${path}`);
    },
  );

  it("the pages outside of an application are accessible, fit the screen, and run no script from any field", async () => {
    for (const path of ["apps", "apps/sessions", "apps/admin-keys", "nothing/here", "apps/app_none/live/overview"]) {
      await inspect(`${server.url}/admin/${path}`);
    }
    const outside = await openPage(browser);
    inspected = outside;
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
