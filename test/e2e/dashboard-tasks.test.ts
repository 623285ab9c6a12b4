import type { Browser } from "playwright-core";
import { afterAll, afterEach, beforeAll, describe, expect, it } from "vitest";
import { chromiumPath, connectBrowser, withoutChromium } from "./support/browser.ts";
import { expectAccessible, openPage, signIn, type Watched } from "./support/dashboard.ts";
import { type DashboardWorld, EVIL, fillDashboard, fillDay } from "./support/dashboard-world.ts";
import { startReceiver } from "./support/receiver.ts";
import { type Server, sharedServer } from "./support/server.ts";
import { SOAK_OPERATIONS } from "./support/soak.ts";

const IS_SOAK = SOAK_OPERATIONS > 0;
const DESKTOP = { width: 1_280, height: 900 };
const PHONE = { width: 360, height: 740 };
/** A large screen, a tablet and a phone. */
const WIDTHS = [1_440, 768, 390] as const;

const query = (fields: Record<string, string>) => `?${new URLSearchParams(fields)}`;

describe.skipIf(chromiumPath === null)(`tasks of an operator in a real browser${withoutChromium}`, () => {
  let server: Server;
  let browser: Browser;
  let watched: Watched;

  beforeAll(async () => {
    [server, browser] = await Promise.all([sharedServer(), connectBrowser()]);
    watched = await openPage(browser);
    // The name in the audit is a script.
    await signIn(watched.page, server.url, EVIL);
  });
  afterAll(async () => {
    await browser.close();
  });

  describe("of a small application", () => {
    let world: DashboardWorld;
    const go = (path: string) => watched.page.goto(`${server.url}/admin/apps/${world.app.appId}/live/${path}`);
    const press = (name: string) => watched.page.getByRole("button", { name, exact: true }).click();
    const follow = (name: string) => watched.page.getByRole("link", { name, exact: true }).click();
    const sees = (text: string | RegExp) => watched.page.getByText(text).first().waitFor();
    const rows = (region: string) => watched.page.getByRole("region", { name: region }).locator("tbody tr");
    const show = async (size: typeof DESKTOP, colorScheme: "light" | "dark") => {
      await watched.page.setViewportSize(size);
      await watched.page.emulateMedia({ colorScheme });
    };
    beforeAll(async () => {
      world = await fillDashboard(server);
      await show(DESKTOP, "light");
    });
    afterEach(() => expect(watched.complaints).toEqual([]));

    it("settles an unmatched payment after a confirmation that names the grant, once even if resubmitted", async () => {
      const { page } = watched;
      await go("payments");
      await follow("unmatched");
      await follow(`pi_${EVIL}`);
      await page.getByLabel("User id").fill("settled");
      await page.getByLabel("Pack", { exact: true }).selectOption("Wallet (any quantity of cents)");
      await page.getByLabel("Quantity").fill("100,5");
      await press("Continue");
      await sees("Quantity must be a number such as");
      await page.getByLabel("Quantity").fill("");
      await press("Continue");
      // The paid amount according to Stripe.
      await sees("$0.00 → $10.00");
      await sees("No user has this id yet.");
      await page.getByLabel("I have checked this").check();
      await press("Grant credits");
      await sees("The payment is granted.");
      await page.goBack();
      await page.goto(page.url());
      await sees("granted");
      expect(await rows("Balances").count()).toBe(1);
      await follow("settled");
      await page.getByRole("heading", { name: "User settled" }).waitFor();
      expect(await page.locator("#totals").textContent()).toContain("$10.00");
    });

    it("sets a carry, and shows why it rejects one beside the field without writing anything", async () => {
      const { page } = watched;
      await go("payments");
      const form = page.locator("form[action$='payments/carry']");
      const errors = form.getByRole("alert");
      const send = async (fields: Readonly<Record<string, string>>) => {
        for (const [label, value] of Object.entries(fields)) await form.getByLabel(label).fill(value);
        await form.getByRole("button", { name: "Set the carry" }).click();
      };
      const rejects = async (field: string, fields: Readonly<Record<string, string>>, text: RegExp) => {
        await send(fields);
        await errors.first().waitFor();
        expect(await errors.allTextContents()).toEqual([expect.stringMatching(text)]);
        // Nothing else that was typed is lost.
        for (const [label, value] of Object.entries(fields))
          expect(await form.getByLabel(label).inputValue()).toBe(value);
        expect(await form.getByLabel(field).getAttribute("aria-describedby")).toBe(await errors.getAttribute("id"));
      };
      const known = { "Stripe customer": "cus_carry", Currency: "usd" };
      const range = /must be a whole number from 0 to 9007199254740992/;
      await rejects("Carry", { ...known, Carry: "-1" }, range);
      await rejects("Carry", { ...known, Carry: "9007199254740994" }, range);
      await rejects("Carry", { ...known, Carry: "1.5" }, range);
      await rejects("Carry", { ...known, Carry: "ten" }, /must be a number/);
      await rejects("Stripe customer", { ...known, "Stripe customer": "cus_nobody", Carry: "5" }, /No event has named/);
      await rejects("Currency", { ...known, Currency: "dollars", Carry: "5" }, /must be/);
      await go("payments?userId=carried");
      expect(await page.getByText("has a carry of").count()).toBe(0);
      await go("payments");
      await send({ ...known, Carry: "1250" });
      await sees("The carry is set.");
      await go("payments?userId=carried");
      await sees("cus_carry has a carry of");
    });

    it("creates an endpoint, tests it, shows the attempt, sends the message again, replays the day, and deletes it, on a dark phone", {
      timeout: 90_000,
    }, async () => {
      const { page } = watched;
      const receiver = await startReceiver((response) => response.writeHead(204).end());
      await show(PHONE, "dark");
      try {
        await go("webhooks");
        await page.getByLabel("URL").fill(`${receiver.url}/${"long".repeat(50)}`);
        await press("Create endpoint");
        const secret = await page.getByLabel("Signing secret").inputValue();
        // The cron also sends other messages to this endpoint.
        const tests = () => receiver.attempts.filter(({ message }) => message.type === "purser.test");
        const arrived = (attempts: number) => expect.poll(() => tests().length, { timeout: 20_000 }).toBe(attempts);
        await press("Send a test");
        await sees("Test message sent");
        await arrived(1);
        const sent = rows("Deliveries").filter({ hasText: "purser.test" });
        const shown = async () => {
          await page.reload();
          return sent.textContent();
        };
        await expect.poll(shown, { timeout: 20_000, interval: 500 }).toMatch(/delivered.*204/);
        await sent.getByRole("button", { name: /^Resend msg_/ }).click();
        await sees("Message sent again");
        await arrived(2);
        // The same form again takes effect once.
        await page.reload();
        await expectAccessible(page);
        await press("Replay");
        await sees("sent again, within minutes");
        await server.cron();
        await arrived(3);
        expect(new Set(tests().map(({ message }) => message.id)).size).toBe(1);
        receiver.verifyAll(secret);
        expect(() => receiver.verifyAll(`whsec_${"A".repeat(43)}=`)).toThrow();
        await follow("Delete");
        await sees("This cannot be undone.");
        await press("Delete endpoint");
        await sees("Endpoint deleted.");
      } finally {
        await receiver.close();
        await show(DESKTOP, "light");
      }
    });

    it("changes a pack that somebody else changed meanwhile after seeing both versions, and restores an archived one", async () => {
      const { page, context } = watched;
      const other = await context.newPage();
      const path = `packs/${world.ids.packId}`;
      await go(path);
      await other.goto(page.url());
      await other.getByLabel("Name", { exact: true }).fill("Theirs");
      await other.getByRole("button", { name: "Save pack" }).click();
      await other.getByText("Pack saved").waitFor();
      await other.close();
      await page.getByLabel("Name", { exact: true }).fill("Mine");
      await press("Save pack");
      await sees("As it is now: version 2");
      await sees("Theirs");
      expect(await page.getByLabel("Name", { exact: true }).inputValue()).toBe("Mine");
      await expectAccessible(page);
      await go(path);
      expect(await page.getByLabel("Name", { exact: true }).inputValue()).toBe("Theirs");
      await go(`packs/${world.ids.archivedId}`);
      await press("Restore pack");
      await page.getByRole("link", { name: "Archive pack" }).waitFor();
    });

    it("erases a person after the id is typed exactly, reads the receipt, and lifts the erasure", async () => {
      const { page } = watched;
      const distinctId = `bob ${EVIL}`;
      await go(`people${query({ distinctId })}`);
      await follow("Erase this person…");
      await page.getByLabel("Reason (kept in the receipt)").selectOption("objection");
      await page.getByLabel(/^Type the id to confirm/).fill("bob");
      await press("Erase person");
      await sees("Nothing was erased: type the id exactly");
      await page.getByLabel(/^Type the id to confirm/).fill(distinctId);
      await press("Erase person");
      await page.getByRole("heading", { name: "Erasure", exact: true }).waitFor();
      for (const text of ["completed", "objection", "This receipt contains no personal data"]) await sees(text);
      expect(await page.getByRole("main").textContent()).not.toContain("bob");
      const receipt = page.url();
      await go(`people${query({ distinctId })}`);
      await sees("No person has this id");
      await page.goto(receipt);
      await press("Lift");
      await page.getByRole("button", { name: "Lift" }).waitFor({ state: "detached" });
    });
  });

  // The soak does each task at each width.
  describe.each(IS_SOAK ? WIDTHS : [null])("each day, by keyboard only (at %s pixels)", (widthOfAll) => {
    let root = "";
    beforeAll(async () => {
      const { appId } = await fillDay(server);
      root = `${server.url}/admin/apps/${appId}/live`;
    });
    afterEach(() => expect(watched.complaints).toEqual([]));

    const sees = (text: string | RegExp) => watched.page.getByRole("main").getByText(text).first().waitFor();
    const press = (key: string) => watched.page.keyboard.press(key);
    const type = (text: string) => watched.page.keyboard.type(text);
    const start = async (ownWidth: (typeof WIDTHS)[number]) => {
      const width = widthOfAll ?? ownWidth;
      await watched.page.setViewportSize({ width, height: 900 });
      await watched.page.goto(`${root}/packs`);
    };
    const FOCUSED = `(() => {
      const { activeElement: e } = document;
      return (e.getAttribute("aria-label") ?? e.labels?.[0]?.textContent ?? e.textContent).replaceAll(/\\s+/g, " ").trim();
    })()`;
    /** Moves the focus with Tab to the element of this name. */
    const tabTo = async (name: string) => {
      const passed: unknown[] = [];
      for (let n = 0; n < 120; n++) {
        await press("Tab");
        const focused = await watched.page.evaluate(FOCUSED);
        if (focused === name) return;
        passed.push(focused);
      }
      throw new Error(`Tab reaches no ${name} on ${watched.page.url()}, but ${passed.join(", ")}`);
    };
    /** Presses Enter on the element of each name, and waits for the page that it opens. */
    const open = async (...names: readonly string[]) => {
      for (const name of names) {
        await tabTo(name);
        const opened = watched.page.waitForEvent("load");
        await press("Enter");
        await opened;
      }
    };
    const search = async (text: string) => {
      await press("/");
      await type(text);
      const opened = watched.page.waitForEvent("load");
      await press("Enter");
      await opened;
    };
    /** Shows a part of a user's page. */
    const showTab = async (name: string) => {
      await tabTo(name);
      await press("Enter");
    };
    const timeline = () => watched.page.getByRole("region", { name: "Timeline" }).locator("tbody tr");
    const rowsOf = (name: string) => watched.page.getByRole("region", { name }).locator("tbody tr");

    it("shows who was charged twice, and who got a 402 and why", async () => {
      await start(1_440);
      await search("twice");
      await open("twice");
      await showTab("Timeline");
      const paid = await timeline()
        .filter({ hasText: /payment pi_\d of \$10\.00/ })
        .allTextContents();
      expect(paid).toHaveLength(2);
      await expectAccessible(watched.page);
      // Rejections are written some seconds later.
      const shown = async () => {
        await watched.page.goto(`${root}/rejections?kind=shortage`);
        return (await rowsOf("Insufficient credits").allTextContents()).join();
      };
      await expect
        .poll(shown, { timeout: 20_000, interval: 1_000 })
        .toMatch(/short.*chat.*large.*60 tokens.*too little/);
      await expectAccessible(watched.page);
      await open("short");
      await showTab("Timeline");
      expect(await timeline().first().textContent()).toMatch(/Rejected \(402\): chat · large, 60 tokens missing/);
    });

    it("shows whose credits end tomorrow and who spends most, and closes the month", async () => {
      await start(768);
      const { page } = watched;
      if (await page.getByRole("button", { name: "Menu" }).isVisible()) {
        await tabTo("Menu");
        await press("Enter");
      }
      await open("Usage");
      await sees("1 user runs out by tomorrow");
      expect(await rowsOf("Runs out next").first().textContent()).toMatch(/^tomorrow.*within a day/);
      expect(await rowsOf("Top users").first().textContent()).toMatch(/50,000/);
      await expectAccessible(page);
      await page.goto(`${root}/statements`);
      await tabTo("Month (UTC)");
      // A month can be closed an hour after its end, so this is the month before the last one.
      const month = new Date();
      for (let n = 0; n < 2; n++) month.setUTCDate(0);
      await type(month.toISOString().slice(0, 7));
      const opened = page.waitForEvent("load");
      await press("Enter");
      await opened;
      await sees("The statement is being made.");
      await server.cron();
      await page.reload();
      await sees(/Nothing was granted, spent or left/);
      await expectAccessible(page);
    });

    it("refunds an order after a preview, ends a link and erases a person", async () => {
      await start(390);
      await search("buyer");
      await open("buyer");
      await showTab("More actions");
      await open("Refund an order");
      await tabTo("Reference of the order");
      await type("order-9");
      await tabTo("Reason (kept in the ledger)");
      await type("not needed");
      await open("Continue");
      await sees("200 → 0 tokens");
      await expectAccessible(watched.page);
      await open("Refund");
      await sees("Order refunded.");
      await showTab("Timeline");
      expect(await timeline().first().textContent()).toMatch(/Refunded: Tokens “not needed”.*-200 tokens.*<img/);

      await search("leaver");
      await open("leaver", "Create download link");
      const link = await watched.page.getByLabel(/Download link, valid until/).inputValue();
      expect((await fetch(link)).status).toBe(200);
      await open("End all links");
      const dead = await fetch(link, { headers: { accept: "text/html" } });
      expect([dead.status, dead.headers.get("content-disposition")]).toEqual([401, null]);

      await open("Erase this person…");
      await tabTo("Type the id to confirm: leaver");
      await type("leaver");
      await expectAccessible(watched.page);
      await open("Erase person");
      await sees("This receipt contains no personal data");
    });
  });
});
