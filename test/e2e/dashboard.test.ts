import { SignJWT } from "jose";
import type { Browser, Page } from "playwright-core";
import { afterAll, beforeAll, describe, expect, it } from "vitest";
import { END_USER_SECRET } from "../support/end-user-setting.ts";
import { chromiumPath, connectBrowser, withoutChromium } from "./support/browser.ts";
import { expectAccessible, openPage, signIn, type Watched } from "./support/dashboard.ts";
import { EVIL } from "./support/dashboard-world.ts";
import { type Server, sharedServer } from "./support/server.ts";

const USER = `ada ${EVIL}`;
/** A publishable key may link only an id that has the form of a device's id. */
const DEVICE = "0194685f-1b2c-7d3e-8f40-5a6b7c8d9e0f";

describe.skipIf(chromiumPath === null)(`the dashboard in a real browser${withoutChromium}`, () => {
  let server: Server;
  let browser: Browser;
  let watched: Watched;
  let page: Page;
  let secretKey = "";
  let publishableKey = "";

  beforeAll(async () => {
    [server, browser] = await Promise.all([sharedServer(), connectBrowser()]);
    watched = await openPage(browser);
    ({ page } = watched);
  });
  afterAll(async () => {
    await browser.close();
  });

  /** Shows a part of a user's page. */
  const tab = (name: string) =>
    page.getByRole("navigation", { name: "Parts of this page" }).getByRole("link", { name, exact: true }).click();
  /** Opens the menu of the first grant, and the page of an action on one of its balances. */
  const actOnBalance = async (name: "Adjust" | "Revoke", index: number) => {
    await page
      .getByLabel(/^Actions for/)
      .first()
      .click();
    await page.getByRole("link", { name }).nth(index).click();
  };
  const submit = (name: string) => page.getByRole("button", { name, exact: true }).click();
  const section = (name: string) => page.getByRole("navigation").getByRole("link", { name }).click();
  const notice = () => page.locator(".notice").textContent();
  const fieldError = () => page.locator(".field-error").textContent();
  const api = (path: string, key: string, init: RequestInit = {}) =>
    fetch(server.url + path, {
      ...init,
      headers: { authorization: `Bearer ${key}`, "content-type": "application/json" },
    });

  it("requires the admin token", async () => {
    await page.goto(`${server.url}/admin/apps`);
    expect(page.url()).toContain("/admin/sign-in");
    await page.getByLabel("Your name").fill("Ana");
    await page.getByLabel("Admin token").fill("not the token");
    await submit("Sign in");
    expect(await fieldError()).toContain("Wrong admin token");
    await signIn(page, server.url);
    const [cookie] = await watched.context.cookies();
    expect(cookie).toMatchObject({ httpOnly: true, sameSite: "Strict", path: "/admin" });
  });

  it("creates an application and its keys, each key shown once, with a button to copy it", async () => {
    await page.getByLabel("Name").fill(`Desk ${EVIL}`);
    await submit("Create an application");
    expect(await notice()).toContain("Application created");
    await page.getByRole("link", { name: "Live", exact: true }).click();
    await section("Keys");
    const make = async (kind: string) => {
      await page.getByLabel("New key").selectOption(kind);
      await submit("Create key");
      const shown = page.getByLabel(`${kind} key, live mode`);
      await submit("Copy");
      await page.getByText("Copied").waitFor();
      expect(await page.evaluate("navigator.clipboard.readText()")).toBe(await shown.inputValue());
      return shown.inputValue();
    };
    secretKey = await make("secret");
    publishableKey = await make("publishable");
    await expectAccessible(page);
    await section("Keys");
    expect(await page.content()).not.toContain(secretKey);
    expect((await api("/api/v1/credits?userId=u", secretKey)).status).toBe(200);
  });

  it("sets how user tokens are verified, and verifies a pasted token", async () => {
    await page.getByLabel("Verified by").selectOption("hs256");
    await page.getByRole("textbox", { name: /^Shared secret/ }).fill("too short");
    await submit("Save");
    expect(await fieldError()).toContain("Shared secret must have at least 32 bytes");
    await page.getByLabel("Verified by").selectOption("hs256");
    await page.getByRole("textbox", { name: /^Shared secret/ }).fill(END_USER_SECRET);
    await submit("Save");
    expect(await notice()).toContain("takes effect now");
    expect(await page.content()).not.toContain(END_USER_SECRET);

    const token = (exp: number) =>
      new SignJWT({ sub: USER, exp })
        .setProtectedHeader({ alg: "HS256" })
        .sign(new TextEncoder().encode(END_USER_SECRET));
    const test = async (text: string) => {
      await page.getByLabel(/User token/).fill(text);
      await submit("Verify token");
      return notice();
    };
    const now = Math.floor(Date.now() / 1_000);
    expect(await test(await token(now + 600))).toContain(`Valid token for user ${USER}`);
    expect(await test(await token(now - 600))).toContain("has expired");
    expect(await test("no token at all")).toContain("Invalid token");
  });

  it("creates a pack with items and rules, and tests the rules while they are typed", async () => {
    await section("Packs");
    await page.getByRole("link", { name: "New pack" }).click();
    await page.getByLabel("Name", { exact: true }).fill(`Starter ${EVIL}`);
    const first = page.getByRole("group", { name: "Item 1" });
    await first.getByLabel("Amount").fill("100,5");
    // There is no empty rule: an item without rules pays for every event.
    expect(await first.getByLabel("Event").count()).toBe(0);
    await first.getByRole("button", { name: "Add a rule" }).click();
    await first.getByLabel("Event").fill("chat.*");
    await page.getByRole("button", { name: "Add an item" }).click();
    const second = page.getByRole("group", { name: "Item 2" });
    // The new field has the focus.
    await page.keyboard.type("12.5");
    await second.getByLabel("Unit").selectOption("cents");

    const tester = page.locator("[data-tester]");
    await tester.getByLabel("Event").fill("chat.done");
    await tester.getByText("✓ Item 1").waitFor();
    await tester.getByLabel("Event").fill("image.made");
    await tester.getByText("Matching rules would be: image.made, image.*, *").waitFor();
    await tester.getByText("No rules: pays for every event").waitFor();
    await expectAccessible(page);

    await submit("Create pack");
    expect(await fieldError()).toContain("Amount must be a number such as");
    await page.getByRole("group", { name: "Item 1" }).getByLabel("Amount").fill("1000");
    await submit("Create pack");
    expect(await notice()).toContain("Pack created");
    await page.reload();
    expect(await page.locator(".notice").count()).toBe(0);
    // Leaves the page of the rejected form, so that a reload sends no form again.
    await page.goBack();
    await page.getByRole("heading", { name: "New pack" }).waitFor();
    await page.goForward();
    await page.getByText(`Starter ${EVIL}`).waitFor();
  });

  it("edits a pack, keeps its items' ids, and says that existing balances do not change", async () => {
    await page.getByRole("link", { name: "Starter" }).click();
    await page.getByText("Existing balances do not change").waitFor();
    const packId = new URL(page.url()).pathname.split("/").at(-1);
    const readItems = async () => {
      const items = "SELECT id, amount_minor FROM credit_pack_items WHERE pack_id = ? ORDER BY position";
      return (await server.db.prepare(items).bind(packId).all()).results;
    };
    const [first, second] = await readItems();
    await page.getByRole("group", { name: "Item 1" }).getByLabel("Amount").fill("2000");
    await submit("Save pack");
    expect(await notice()).toContain("Pack saved");
    expect(await readItems()).toEqual([{ ...first, amount_minor: 2_000_000 }, second]);
  });

  it("grants with a reason, once even if the confirmation is resubmitted, and shows it in the ledger", async () => {
    await section("Users");
    await page.getByLabel("User id").fill(USER);
    await submit("Search");
    await page.getByText("No user has this id").waitFor();
    await page.getByRole("link", { name: "Grant to a new user?" }).click();
    await page.getByLabel(/^Reason \(kept/).fill(`goodwill ${EVIL}`);
    await submit("Continue");
    await page.getByRole("heading", { name: "Confirm grant" }).waitFor();
    await page.getByLabel("I have checked this").check();
    // A double click sends the form twice, and so may a browser.
    await page.evaluate(`(async () => {
      const form = document.querySelector("main form");
      const send = () => fetch(form.action, { method: "POST", body: new URLSearchParams(new FormData(form)) });
      await Promise.all([send(), send()]);
    })()`);
    await submit("Grant credits");
    expect(await notice()).toContain("These credits were granted before");
    expect(await page.locator("#balances .remaining").count()).toBe(2);
    expect(await page.locator("#ledger .scroll tbody tr").count()).toBe(2);
    await tab("Ledger");
    await page.locator("#ledger").getByText(`goodwill ${EVIL}`).first().waitFor();
    // The confirmation can be reopened with Back, and the page after it reloaded.
    await page.goBack();
    await page.getByRole("heading", { name: "Confirm grant" }).waitFor();
    await submit("Grant credits");
    expect(await notice()).toContain("Nothing was granted again");
    await page.reload();
    expect(await page.locator("#balances .remaining").count()).toBe(2);
  });

  it("asks twice before it grants a large amount, and then shows the user's balance", async () => {
    await actOnBalance("Adjust", 0);
    await page.getByLabel(/Amount to add/).fill("+12,345,678");
    await page.getByLabel(/^Reason \(kept/).fill("by mistake");
    await submit("Continue");
    await page.getByText("2,000 → 12,347,678 tokens").waitFor();
    await page.getByText("This is a large amount: 12,345,678 tokens.").waitFor();
    await submit("Confirm adjustment");
    // The browser keeps the form until the box is ticked.
    expect(await page.getByRole("heading", { level: 1 }).textContent()).toBe("Confirm adjustment");
    await page.getByRole("link", { name: "Cancel" }).click();
    await page.getByRole("heading", { name: `User ${USER}` }).waitFor();
    expect(await page.locator("#totals").textContent()).toContain("2,000");
  });

  it("finds the user by the beginning of the id, and a balance by its id, and follows the links between pages", async () => {
    await section("Users");
    await page.getByLabel("User id").fill("ada");
    await submit("Search");
    const toUser = () => page.getByRole("main").getByRole("link", { name: USER, exact: true }).click();
    await toUser();
    await page
      .getByRole("link", { name: /^Starter/ })
      .first()
      .click();
    await page.getByText(/manual, by Ana/).waitFor();
    await page.getByRole("region", { name: "Other balances of this grant" }).getByRole("link").first().click();
    await page.getByRole("heading", { name: /^Balance Starter/ }).waitFor();
    await toUser();
    await page.getByRole("link", { name: "All balances, by status, pack and reference" }).click();
    // The previous page also has a region with this name.
    await page.getByRole("heading", { name: /^Balances of/ }).waitFor();
    expect(await page.getByRole("region", { name: "Balances" }).locator("tbody tr").count()).toBe(2);
    await toUser();
    await page.getByLabel("More actions").click();
    await page.getByRole("link", { name: "Verify the ledger" }).click();
    await page.getByText("✓ Sound").waitFor();
    await toUser();
    await page.getByRole("heading", { name: `User ${USER}` }).waitFor();
  });

  it("previews a debit, and shows the uncovered quantities", async () => {
    await tab("Usage and limits");
    const plan = page.locator("#plan");
    await plan.getByLabel("Event").fill("chat.done");
    await plan.getByLabel("Tokens").fill("500");
    await plan.getByRole("button", { name: "Preview" }).click();
    await page.locator("#plan").getByText("500 tokens").waitFor();
    await page.locator("#plan").getByText("the event has no quantity in its unit").waitFor();
    await plan.getByLabel("Tokens").fill("5000");
    await plan.getByRole("button", { name: "Preview" }).click();
    await page.getByText("Not covered: 0.6 count, 3,000 tokens").waitFor();
  });

  it("adjusts and revokes with a reason after confirmations, charts the balance, and saves the ledger as CSV", async () => {
    await tab("Credits");
    await actOnBalance("Adjust", 0);
    await page.getByLabel(/Amount to add/).fill("-3000");
    await page.getByLabel(/^Reason \(kept/).fill("=1+1");
    await submit("Continue");
    expect(await fieldError()).toContain("would make the balance negative");
    await page.getByLabel(/Amount to add/).fill("-500.5");
    await submit("Continue");
    await page.getByText("2,000 → 1,499.5 tokens").waitFor();
    await submit("Confirm adjustment");
    expect(await notice()).toContain("Balance adjusted");
    await tab("Ledger");
    await page.locator("#ledger .scroll").getByText("1,499.5").first().waitFor();
    await page.getByRole("img", { name: /tokens remaining: from 2,000 on/ }).waitFor();

    await tab("Credits");
    await actOnBalance("Revoke", 1);
    await page.getByLabel(/^Reason \(kept/).fill("refunded");
    await submit("Revoke balance");
    expect(await notice()).toContain("Balance revoked");
    await tab("Ledger");
    await page.locator("#ledger").getByText("refunded").waitFor();

    const downloading = page.waitForEvent("download");
    await page.locator("#ledger").getByRole("link", { name: "CSV" }).click();
    const stream = await (await downloading).createReadStream();
    const csv = Buffer.concat(await stream.toArray())
      .toString()
      .replace(/^\ufeff/, "");
    const lines = csv.trimEnd().split("\r\n");
    expect(lines[0]).toBe(
      "occurredAt,balanceId,packId,delta,unit,remaining,reason,cause,by,eventId,reservationId,note",
    );
    expect(lines).toHaveLength(5);
    expect(lines[2]).toContain(`,-500.5,"tokens",1499.5,"admin_adjust","adjustment","admin",,,"'=1+1"`);

    // The CSV that the browser makes escapes the same first characters.
    const begins = ["=", "+", "-", "@"];
    await page.evaluate(
      `for (const [n, begin] of ${JSON.stringify(begins)}.entries()) document.querySelector("#timeline tbody tr").cells[n].textContent = begin + "1|calc"`,
    );
    await tab("Timeline");
    const saving = page.waitForEvent("download");
    await page.locator("#timeline button[data-csv]").click();
    const saved = Buffer.concat(await (await (await saving).createReadStream()).toArray()).toString();
    expect(saved.split("\r\n")[1]).toBe(begins.map((begin) => `"'${begin}1|calc"`).join(","));

    await tab("Ledger");
    await page.getByLabel("Reason", { exact: true }).selectOption("admin_adjust");
    await page.getByRole("button", { name: "Filter" }).click();
    await page.waitForURL(/[?&]reason=admin_adjust/);
    expect(await page.locator("#ledger .scroll tbody tr").count()).toBe(2);
  });

  it("finds a person by any id, shows stored data as text, and creates a link whose use appears in the history", async () => {
    const event = (name: string, properties: object) => ({ event: name, distinct_id: USER, properties });
    const batch = [event("$identify", { $anon_distinct_id: DEVICE, $set: { name: EVIL } }), event(EVIL, { at: EVIL })];
    const captured = await api("/batch/", publishableKey, {
      method: "POST",
      body: JSON.stringify({ api_key: publishableKey, batch }),
    });
    expect(captured.status).toBe(200);
    const consent = { distinctId: USER, purpose: EVIL, decision: "granted", method: EVIL };
    await api("/api/v1/consent", secretKey, { method: "POST", body: JSON.stringify(consent) });

    await section("People");
    await page.getByLabel("Distinct id", { exact: true }).fill(EVIL);
    await submit("Search");
    await page.getByText("No person has this id").waitFor();
    await page.getByLabel("Distinct id", { exact: true }).fill(DEVICE);
    await submit("Search");
    await page.locator("#claims").getByRole("link", { name: USER, exact: true }).click();
    await page.getByText("identified", { exact: true }).waitFor();
    await page.getByRole("region", { name: "Linked ids" }).getByText(DEVICE, { exact: true }).waitFor();
    await page.getByRole("region", { name: "Consents" }).getByText("granted").waitFor();
    await page.getByRole("region", { name: "Events" }).getByText("Show").first().click();

    await submit("Create download link");
    const link = await page.getByLabel(/Download link, valid until/).inputValue();
    await submit("Copy");
    await page.getByText("Copied").waitFor();
    const document = (await (await fetch(link)).json()) as { person: { properties: object }; consentLog: unknown[] };
    expect(document.person.properties).toEqual({ name: EVIL });
    expect(document.consentLog).toHaveLength(1);
    await page.reload();
    const exports = page.getByRole("region", { name: "Exports" });
    for (const action of ["created", "opened", "completed"]) await exports.getByText(action, { exact: true }).waitFor();
    expect(await page.content()).not.toContain(new URL(link).searchParams.get("token"));
  });

  it("shows the day's figures soon after the events", async () => {
    await section("Overview");
    await expect
      .poll(
        async () => {
          await page.reload();
          return page.locator("main").textContent();
        },
        { timeout: 20_000, interval: 1_000 },
      )
      .toMatch(/Granted, 30 days\s*2K[\s\S]*Export links created\s+1[\s\S]*Export links opened\s+1/);
    // A figure links to its events, and each event links to its user.
    await page.locator(".plot canvas").first().waitFor();
    await page.getByRole("link", { name: "+2,000", exact: true }).click();
    await page.getByRole("heading", { name: "Granted" }).waitFor();
    await page.getByText("+2,000 tokens").waitFor();
    await page.getByRole("main").getByRole("link", { name: USER, exact: true }).first().click();
    await page.getByRole("heading", { name: `User ${USER}` }).waitFor();
  });

  it("draws a chart with each date once, and the last bar whole", async () => {
    await page.addInitScript(`
      window.drawn = new Map();
      const { clearRect, fillText } = CanvasRenderingContext2D.prototype;
      CanvasRenderingContext2D.prototype.clearRect = function (...place) {
        drawn.set(this.canvas, []);
        clearRect.apply(this, place);
      };
      CanvasRenderingContext2D.prototype.fillText = function (text, ...place) {
        drawn.get(this.canvas).push(text);
        fillText.call(this, text, ...place);
      };`);
    await section("Overview");
    await page.getByRole("link", { name: "7 days" }).click();
    await page.getByRole("link", { name: /^Export links created/ }).click();
    await page.reload();
    await page.locator("#export-links-created canvas").waitFor();
    const charts = (await page.evaluate("[...drawn.values()]")) as string[][];
    const dates = charts.map((texts) => texts.filter((text) => /^[A-Z][a-z]+ \d+$/.test(text)));
    expect(dates.flat().length).toBeGreaterThan(3);
    expect(dates).toEqual(dates.map((ofChart) => [...new Set(ofChart)]));
    // Today's bar ends before the plot does.
    const gap = await page.evaluate(`(() => {
      const [canvas, over] = ["canvas", ".u-over"].map((name) => document.querySelector("#export-links-created " + name));
      const right = Math.round((over.getBoundingClientRect().right - canvas.getBoundingClientRect().left) * devicePixelRatio);
      const row = Math.round((over.getBoundingClientRect().bottom - canvas.getBoundingClientRect().top) * devicePixelRatio) - 20;
      const { data } = canvas.getContext("2d").getImageData(0, row, right, 1);
      let end = right - 1;
      while (end > 0 && data[end * 4 + 3] === 0) end--;
      return end === 0 ? -1 : right - 1 - end;
    })()`);
    expect(gap).toBeGreaterThan(3);
  });

  it("archives a pack and revokes a key, each confirmed", async () => {
    await section("Packs");
    await page.getByRole("link", { name: "Starter" }).click();
    await page.getByRole("link", { name: "Archive pack" }).click();
    await submit("Archive pack");
    expect(await notice()).toContain("Pack archived");
    await section("Keys");
    await page.getByRole("link", { name: /Revoke sk_live/ }).click();
    await submit("Revoke key");
    expect(await notice()).toContain("Key revoked");
    expect((await api("/api/v1/credits?userId=u", secretKey)).status).toBe(401);
  });

  it("creates an application and a pack, finds a user and grants without JavaScript", async () => {
    const plain = await openPage(browser, { javaScriptEnabled: false });
    const at = plain.page;
    await signIn(at, server.url);
    await at.getByLabel("Name").fill("Plain");
    await at.getByRole("button", { name: "Create an application" }).click();
    await at.getByRole("navigation").getByRole("link", { name: "Packs" }).click();
    await at.getByRole("link", { name: "New pack" }).click();
    await at.getByLabel("Amount", { exact: true }).first().fill("1,000");
    await at.getByLabel("Name", { exact: true }).fill("Any");
    // Enter submits the main form of the page.
    await at.getByLabel("Name", { exact: true }).press("Enter");
    await at.getByText("Pack created.").waitFor();
    await at.getByRole("navigation").getByRole("link", { name: "Users" }).click();
    await at.getByLabel("User id").fill("bob");
    await at.getByLabel("User id").press("Enter");
    await at.getByRole("link", { name: "Grant to a new user?" }).click();
    await at.getByLabel(/^Reason/).fill("Welcome");
    await at.getByRole("button", { name: "Continue" }).click();
    await at.getByLabel("I have checked this").check();
    await at.getByRole("button", { name: "Grant credits" }).click();
    await at.getByText("1,000 of 1,000 tokens").first().waitFor();
    expect(plain.complaints).toEqual([]);
    await plain.context.close();
  });

  it("opens no page after the sign-out", async () => {
    const inside = page.url();
    await submit("Sign out");
    await page.goto(inside);
    expect(page.url()).toContain("/admin/sign-in");
  });

  it("runs no foreign script, loads nothing from other servers, and logs no error on all these pages", () => {
    expect(watched.complaints).toEqual([]);
  });
});
