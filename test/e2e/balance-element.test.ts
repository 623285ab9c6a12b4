import { readFileSync } from "node:fs";
import { createServer } from "node:http";
import type { AddressInfo } from "node:net";
import { join } from "node:path";
import { gzipSync } from "node:zlib";
import { SignJWT } from "jose";
import type { Browser, Page, Route } from "playwright-core";
import { afterAll, afterEach, beforeAll, describe, expect, it, onTestFinished } from "vitest";
import { userToken } from "../../scripts/seed.mjs";
import { DAY_MS } from "../../src/lib/time.ts";
import { END_USER_SECRET, END_USER_SETTING } from "../support/end-user-setting.ts";
import { chromiumPath, connectBrowser, withoutChromium } from "./support/browser.ts";
import { expectAccessible } from "./support/dashboard.ts";
import { ADMIN_TOKEN, type ServedApp, type Server, sharedServer } from "./support/server.ts";

const EXAMPLE = readFileSync(join(import.meta.dirname, "../../examples/balance.html"), "utf8");

/** A page of another origin. Its policy allows no style except its own. */
function startShop() {
  const shop = createServer((request, response) => {
    const page =
      request.url === "/example" ? EXAMPLE : '<!doctype html><html lang="en"><title>Shop</title><main></main>';
    response.writeHead(200, { "content-type": "text/html; charset=utf-8" }).end(page);
  });
  return new Promise<typeof shop>((resolve) => shop.listen(0, "127.0.0.1", () => resolve(shop)));
}

describe.skipIf(chromiumPath === null)(`<purser-balance> in a browser${withoutChromium}`, () => {
  let server: Server;
  let browser: Browser;
  let app: ServedApp;
  let shop: Awaited<ReturnType<typeof startShop>>;
  let shopUrl = "";
  // One page for all tests, because each context starts a process.
  let page: Page;
  const complaints: string[] = [];
  beforeAll(async () => {
    [server, browser, shop] = await Promise.all([sharedServer(), connectBrowser(), startShop()]);
    // A server that listens on a TCP port has an address of this form.
    shopUrl = `http://127.0.0.1:${(shop.address() as AddressInfo).port}`;
    page = await browser.newPage();
    page.on("pageerror", (error) => complaints.push(error.message));
    app = await server.makeApp(END_USER_SETTING);
    for (const unit of ["tokens", "cents", "count"]) {
      await post(`/api/v1/admin/apps/${app.appId}/packs`, { packName: unit, items: [], unit }, ADMIN_TOKEN);
    }
  });
  afterAll(async () => {
    await browser.close();
    shop.close();
  });

  afterEach(async () => {
    await page.emulateMedia({ colorScheme: "light" });
    expect(complaints).toEqual([]);
  });

  async function post(path: string, body: object, key = app.keys.sk_live): Promise<Response> {
    const headers = { authorization: `Bearer ${key}`, "content-type": "application/json" };
    const response = await fetch(server.url + path, { method: "POST", headers, body: JSON.stringify(body) });
    expect(response.status).toBe(200);
    return response;
  }

  async function put(path: string, body: object): Promise<void> {
    const headers = { authorization: `Bearer ${ADMIN_TOKEN}`, "content-type": "application/json" };
    const response = await fetch(server.url + path, { method: "PUT", headers, body: JSON.stringify(body) });
    expect(response.status).toBe(200);
  }

  const grant = (userId: string, packId: string, quantity: number, expiresAt: string | null = null) =>
    post("/api/v1/credits/grant", { userId, packId, quantity, expiresAt });
  const spend = (userId: string, quantities: object) =>
    post("/api/v1/usage/events", { eventId: crypto.randomUUID(), userId, event: "chat", quantities });

  /** Opens the shop's page with the element for this user. */
  async function openElement(userId: string, attributes = "", member?: { publishableKey: string; token: string }) {
    await page.goto(shopUrl);
    const { publishableKey, token } = member ?? {
      publishableKey: app.keys.pk_live,
      token: await userToken(END_USER_SECRET, userId),
    };
    const markup = `<purser-balance publishable-key="${publishableKey}" user-id="${userId}" ${attributes}></purser-balance>`;
    await page.evaluate(
      `document.querySelector("main").innerHTML = ${JSON.stringify(markup)};
       document.querySelector("purser-balance").getToken = () => ${JSON.stringify(token)};
       document.head.append(Object.assign(document.createElement("script"), { type: "module", src: "${server.url}/purser-balance.js" }));`,
    );
  }

  const textIn = async (state: string): Promise<string> => {
    await page.waitForSelector(`purser-balance[data-state="${state}"]`, { state: "attached" });
    return (await page.locator("purser-balance [part~=balance] :is(dt, dd, p)").allTextContents()).join(" ");
  };
  const zoneOf = async () => String(await page.evaluate("Intl.DateTimeFormat().resolvedOptions().timeZone"));
  const run = (script: string) => page.evaluate(`const balance = document.querySelector("purser-balance"); ${script}`);

  it("shows the remaining credits by unit, the next expiry and low balances, in light and dark", async () => {
    await grant("ada", "tokens", 1_000, "2099-12-03T12:00:00Z");
    await grant("ada", "tokens", 234.5);
    await grant("ada", "cents", 500);
    await spend("ada", { cents: 460.5 });
    await grant("ada", "count", 3, "2098-01-02T12:00:00Z");
    await openElement("ada", 'currency="EUR"');
    expect(await textIn("low")).toBe(
      "Uses 3 Tokens 1,234.5 Balance €0.39 (low) Next to expire, on Jan 2, 2098: 3 Uses",
    );
    for (const [colorScheme, colours] of [
      ["light", "background: #fff; color: #111"],
      ["dark", "background: #111; color: #eee"],
    ] as const) {
      await page.emulateMedia({ colorScheme });
      await page.evaluate(`document.documentElement.style = "color-scheme: ${colorScheme}; ${colours}"`);
      await expectAccessible(page);
    }
  });

  it.each([
    ["JPY", 1_000, "en", "Balance ¥1,000"],
    ["JPY", 1_000.9, "en", "Balance ¥1,000"],
    ["KWD", 1_234, "en", "Balance KWD\u00a01.234"],
    ["KWD", 7, "en", "Balance KWD\u00a00.007"],
    ["USD", 1_234, "en", "Balance $12.34"],
    ["USD", 29, "en", "Balance $0.29"],
    ["JPY", 1_234_567, "de", "Balance 1.234.567\u00a0¥"],
    ["KWD", 1_234_567, "de", "Balance 1.234,567\u00a0KWD"],
  ])(
    "shows %s of %d smallest units in %s with the currency's own digits, never more than remains",
    async (currency, quantity, language, text) => {
      const userId = crypto.randomUUID();
      await grant(userId, "cents", quantity);
      await openElement(userId, `lang="${language}" currency="${currency}"`);
      expect(await textIn("ok")).toBe(text);
    },
  );

  it("supports any language through attributes, and styles through custom properties and parts", async () => {
    await grant("grace", "tokens", 1_234.5, "2099-12-03T12:00:00Z");
    await openElement(
      "grace",
      'lang="de" low-tokens="2000" text-tokens="Wörter" text-low="wenig" text-expires="{date}: {amounts} <b>"',
    );
    expect(await textIn("low")).toBe("Wörter 1.234,5 (wenig) 03.12.2099: 1.234,5 Wörter <b>");
    await run(
      `document.head.insertAdjacentHTML("beforeend", "<style>purser-balance { --purser-low: rgb(1, 2, 3) } purser-balance::part(unit) { color: rgb(4, 5, 6) }</style>")`,
    );
    const colourOf = (part: string) =>
      run(`getComputedStyle(balance.shadowRoot.querySelector("[part~=${part}]")).color`).then(String);
    expect([await colourOf("amount"), await colourOf("unit")]).toEqual(["rgb(1, 2, 3)", "rgb(4, 5, 6)"]);
  });

  it("isolates numbers, amounts and dates in right-to-left text", async () => {
    await grant("noor", "tokens", 1_500, "2099-12-03T12:00:00Z");
    await grant("noor", "cents", 500, "2099-12-03T12:00:00Z");
    await openElement(
      "noor",
      'lang="ar" dir="rtl" currency="USD" text-tokens="رموز" text-cents="رصيد" text-expires="ينتهي في {date}: {amounts}."',
    );
    expect(await textIn("ok")).toMatch(
      /^رموز 1,500 رصيد .*5\.00.*US\$ ينتهي في .*2099.*: 1,500 رموز و.*5\.00.*US\$\.$/,
    );
    expect(await page.locator("purser-balance [part~=expires] > bdi").count()).toBe(3);
    expect(await page.locator("purser-balance bdi", { hasText: /^US\$$/ }).count()).toBe(2);
    // The amount is at the end of its line, which is the left.
    const xOf = async (part: string) => (await page.locator(`[part~=${part}][part~=tokens]`).boundingBox())?.x ?? 0;
    expect(await xOf("amount")).toBeLessThan(await xOf("unit"));
    await expectAccessible(page);
  });

  it("fits into a narrow place and at four times the size, without animations", async () => {
    await grant("wide", "tokens", 1_000_000, "2099-12-03T12:00:00Z");
    await openElement("wide", 'text-tokens="Words of the day"');
    await textIn("ok");
    for (const style of ["width: 7rem", "width: 320px; font-size: 400%"]) {
      await run(`balance.style = ${JSON.stringify(style)}`);
      expect(await run("balance.scrollWidth <= balance.clientWidth"), style).toBe(true);
    }
    expect(await run("balance.shadowRoot.getAnimations().length")).toBe(0);
  });

  it("accepts getToken from a framework, and changes its text only when the balance changes", async () => {
    await grant("rea", "tokens", 100);
    await openElement("rea");
    await textIn("ok");
    // React sets a property if the element has it, and otherwise an attribute.
    expect(await run('"getToken" in document.createElement("purser-balance")')).toBe(true);
    // The first function makes the element read. Later functions do not.
    const token = JSON.stringify(await userToken(END_USER_SECRET, "rea"));
    await run(
      `globalThis.tokenCalls = 0; const late = balance.cloneNode(); balance.replaceWith(late);
      for (let n = 0; n < 3; n++) setTimeout(() => { late.getToken = () => { tokenCalls++; return ${token}; }; }, 50 * n);`,
    );
    expect(await textIn("ok")).toBe("Tokens 100");
    await page.waitForTimeout(300);
    expect(await run("globalThis.tokenCalls")).toBe(1);
    await run(
      `globalThis.changes = 0; new MutationObserver(() => changes++).observe(balance.shadowRoot, { childList: true, subtree: true });
      balance.refresh()`,
    );
    expect(await run("globalThis.changes")).toBe(0);
    await spend("rea", { tokens: 1 });
    await run("balance.refresh()");
    expect(await textIn("ok")).toBe("Tokens 99");
    expect(await run("globalThis.changes")).toBeGreaterThan(0);
  });

  it("reloads on request and when the page becomes visible, and follows its user", async () => {
    await grant("eve", "tokens", 100);
    await openElement("eve");
    expect(await textIn("ok")).toBe("Tokens 100");
    const { headers } = await spend("eve", { tokens: 95 });
    await run(`balance.refresh("${headers.get("x-d1-bookmark")}")`);
    expect(await textIn("low")).toBe("Tokens 5 (low)");
    await spend("eve", { tokens: 5 });
    await run('document.dispatchEvent(new Event("visibilitychange"))');
    expect(await textIn("empty")).toBe("No credits left.");
    await grant("eve", "tokens", 7);
    await run('dispatchEvent(new Event("purser-refresh"))');
    expect(await textIn("ok")).toBe("Tokens 7");
    // Eve's token is not valid for another user.
    await run('balance.setAttribute("user-id", "ada")');
    expect(await textIn("unknown")).toBe("Your credits cannot be shown now.");
  });

  it("shows no credits of the user before, if its user changes during a read while the page is hidden", async () => {
    await grant("hedy", "tokens", 100);
    await openElement("hedy");
    await textIn("ok");
    const hide = (state: string) =>
      `Object.defineProperty(document, "visibilityState", { value: "${state}", configurable: true });`;
    await run(
      "balance.getToken = () => new Promise((resolve) => { globalThis.late = resolve; }); globalThis.first = balance.refresh(); 0",
    );
    await run(
      `${hide("hidden")} balance.setAttribute("user-id", "ivan");
      globalThis.late(${JSON.stringify(await userToken(END_USER_SECRET, "hedy"))});`,
    );
    await run("globalThis.first");
    expect(await textIn("loading")).toBe("");
    await run(hide("visible"));
  });

  it("shows no credits of the user before, if its user changes while it is not on the page", async () => {
    await grant("jack", "tokens", 100);
    await openElement("jack");
    await textIn("ok");
    const moved = await run(
      `balance.remove(); balance.setAttribute("user-id", "kate"); document.querySelector("main").append(balance);
      balance.dataset.state + balance.shadowRoot.textContent`,
    );
    expect(moved).toBe("loading");
    expect(await textIn("unknown")).toBe("Your credits cannot be shown now.");
  });

  it("reads once for another user, by that user's token, if a framework sets the attributes before getToken", async () => {
    await grant("lena", "tokens", 100);
    await grant("mona", "tokens", 7);
    await openElement("lena");
    await textIn("ok");
    const token = JSON.stringify(await userToken(END_USER_SECRET, "mona"));
    await run(
      `globalThis.tokenCalls = 0; balance.setAttribute("user-id", "mona"); balance.setAttribute("event", "chat");
      balance.getToken = () => { tokenCalls++; return ${token}; };`,
    );
    expect(await textIn("ok")).toBe("Tokens 7");
    expect(await run("globalThis.tokenCalls")).toBe(1);
  });

  it("takes the page's language also inside another component, and as frameworks write it", async () => {
    await grant("otto", "tokens", 1_234.5);
    await openElement("otto", 'lang="de_DE"');
    expect(await textIn("ok")).toBe("Tokens 1.234,5");
    await run('balance.setAttribute("lang", "no language"); balance.refresh()');
    expect(await textIn("ok")).toBe("Tokens 1,234.5");
    await run(
      `balance.removeAttribute("lang"); document.documentElement.lang = "de"; const host = document.createElement("div");
      host.attachShadow({ mode: "open" }).append(balance); document.body.append(host);`,
    );
    await expect.poll(() => textIn("ok")).toBe("Tokens 1.234,5");
  });

  /** Lets the test use a page of its own, whose clock it moves. */
  async function withClock(): Promise<void> {
    const shared = page;
    page = await browser.newPage();
    onTestFinished(async () => {
      await page.close();
      page = shared;
    });
    await page.clock.install();
  }

  it("reads again a minute after a fault of the network, or an answer that is not Purser's", async () => {
    await withClock();
    await grant("rita", "tokens", 100);
    await openElement("rita");
    await textIn("ok");
    const path = "**/api/v1/credits?*";
    for (const fault of [
      (route: Route) => route.abort(),
      (route: Route) => route.fulfill({ status: 502, contentType: "text/html", body: "<html>" }),
    ]) {
      await page.route(path, fault);
      await run("balance.refresh()");
      expect(await textIn("unknown")).toBe("Your credits cannot be shown now.");
      await page.unroute(path);
      await page.clock.fastForward(60_000);
      expect(await textIn("ok")).toBe("Tokens 100");
    }
  });

  it("reads again at an expiry that is more than a day away, unless it has left the page", async () => {
    await withClock();
    const read: string[] = [];
    page.on("request", (request) => request.url().includes("/api/v1/credits") && read.push(request.url()));
    await grant("rosa", "tokens", 100, new Date(Date.now() + 5 * DAY_MS).toISOString());
    await openElement("rosa");
    await textIn("ok");
    await spend("rosa", { tokens: 95 });
    await page.clock.fastForward(2 * DAY_MS);
    expect(await textIn("low")).toContain("Tokens 5 (low)");
    await run("balance.remove(); balance.refresh()");
    read.length = 0;
    await page.clock.fastForward(2 * DAY_MS);
    await page.waitForTimeout(300);
    expect(read).toEqual([]);
  });

  it("shows that credits are unknown when offline, without a token, or after an outdated response", async () => {
    await grant("mallory", "tokens", 100);
    await openElement("mallory");
    await textIn("ok");
    await page.context().setOffline(true);
    expect(await textIn("unknown")).toBe("Your credits cannot be shown now.");
    await page.context().setOffline(false);
    expect(await textIn("ok")).toBe("Tokens 100");
    // If two reads run concurrently, only the later one may change the page.
    await run(
      "balance.getToken = () => new Promise((resolve) => { globalThis.late = resolve; }); globalThis.first = balance.refresh(); 0",
    );
    await run(
      `balance.getToken = null; balance.addEventListener("purser-token", (event) => event.detail.provide("x"), { once: true });
      balance.addEventListener("purser-error", (event) => { globalThis.heard = event.detail.message; }); balance.refresh();`,
    );
    await textIn("unknown");
    expect(await run("globalThis.heard")).toContain("token");
    await run(`globalThis.late(${JSON.stringify(await userToken(END_USER_SECRET, "mallory"))})`);
    await run("globalThis.first");
    expect(await textIn("unknown")).toContain("cannot be shown");
  });

  it("writes once to the console why it shows nothing, and what to do", async () => {
    await openElement("ada");
    await page.waitForSelector("purser-balance[data-state]", { state: "attached" });
    const logged: string[] = [];
    page.on("console", (message) => logged.push(message.text()));
    const expectAdvice = async (change: string, words: string[]) => {
      logged.length = 0;
      await run(`${change}; balance.refresh().then(() => balance.refresh());`);
      const warnings = () => logged.filter((text) => text.startsWith("<purser-balance>"));
      // The browser reports a message after the element wrote it.
      await expect.poll(() => warnings().length, { timeout: 10_000 }).toBeGreaterThan(0);
      expect(warnings()).toHaveLength(1);
      for (const word of words) expect(warnings()[0]).toContain(word);
    };
    const key = app.keys.pk_live;
    await expectAdvice(`balance.getToken = () => "no.token"`, ["(malformed)", "getToken"]);
    await expectAdvice("balance.getToken = async () => null", ["signed in"]);
    await expectAdvice(`balance.getToken = () => ${JSON.stringify(await userToken(END_USER_SECRET, "eve"))}`, [
      "user-id",
    ]);
    await expectAdvice(`balance.setAttribute("publishable-key", "${key}x")`, ["publishable-key"]);
    // The page's own server answers each path with a page, as many do.
    await expectAdvice(
      `balance.setAttribute("publishable-key", "${key}"); balance.setAttribute("url", ${JSON.stringify(shopUrl)})`,
      ["not Purser answered 200", "url"],
    );
    await expectAdvice('balance.setAttribute("url", "http://127.0.0.1:9")', ["connect-src"]);
  });

  it("works in examples/balance.html, with a link for users with low credits", async () => {
    await grant("walt", "cents", 1_000);
    await page.emulateMedia({ colorScheme: "dark" });
    const fragment = new URLSearchParams({
      url: server.url,
      key: app.keys.pk_live,
      user: "walt",
      token: await userToken(END_USER_SECRET, "walt"),
    });
    await page.goto(`${shopUrl}/example#${fragment}`);
    expect(await textIn("ok")).toBe("Balance $10.00");
    const link = page.getByRole("link", { name: "Buy more" });
    expect(await link.isVisible()).toBe(false);
    await spend("walt", { cents: 900 });
    await run("balance.refresh()");
    expect(await textIn("low")).toBe("Balance $1.00 (low)");
    expect(await link.isVisible()).toBe(true);
    await expectAccessible(page);
  });

  it("shows the use of each limit and the next recurring credits, if asked to", async () => {
    const limits = `/api/v1/admin/apps/${app.appId}/usage-limits`;
    const limit = { mode: "live", matches: [{ event: "free.*" }], unit: "count" };
    const made = await post(limits, { ...limit, name: "Messages", amount: 50, every: "day" }, ADMIN_TOKEN);
    const { limitId } = (await made.json()) as { limitId: string };
    await post(limits, { ...limit, name: "Pictures", amount: 12, every: "month" }, ADMIN_TOKEN);
    await grant("lim", "count", 100);
    // Its next period is far away, so that the text does not depend on the day.
    const startsAt = new Date(Date.now() + 300 * DAY_MS);
    const recurring = {
      userId: "lim",
      packId: "tokens",
      quantity: 5,
      every: "month",
      startsAt: startsAt.toISOString(),
    };
    await post("/api/v1/credits/recurring", recurring);
    await spend("lim", { count: 1 });
    const use = () =>
      post("/api/v1/usage/events", {
        ...{ eventId: crypto.randomUUID(), userId: "lim", event: "free.chat", quantities: { count: 12 } },
      });
    await use();
    await openElement("lim", "limits recurring");
    const begins = startsAt.toLocaleDateString("en-US", { dateStyle: "medium", timeZone: await zoneOf() });
    expect(await textIn("ok")).toBe(
      `Uses 87 New credits on ${begins}: tokens Messages 12 of 50 today Pictures 12 of 12 this month`,
    );
    const reached = () => page.locator("purser-balance [part~=reached]").allTextContents();
    expect(await reached()).toEqual(["Pictures", "12 of 12 this month"]);
    await expectAccessible(page);
    // The user has no limit on messages, so none is shown.
    const path = `${server.url}/api/v1/usage/limits/${limitId}/amount`;
    const headers = { authorization: `Bearer ${app.keys.sk_live}`, "content-type": "application/json" };
    await fetch(path, { method: "PUT", headers, body: JSON.stringify({ userId: "lim", amount: null }) });
    await run('balance.removeAttribute("recurring"); balance.setAttribute("text-limit", "{window}: {used}/{amount}")');
    await run('balance.setAttribute("text-month", "<i>")');
    await run("balance.refresh()");
    expect(await textIn("ok")).toBe("Uses 87 Pictures <i>: 12/12");
    await run('balance.removeAttribute("limits")');
    expect(await textIn("ok")).toBe("Uses 87");
  });

  it("says when a limit resets, at its zone's time and place, whatever the browser's zone is", async () => {
    const zoned = await server.makeApp(END_USER_SETTING);
    const limits = `/api/v1/admin/apps/${zoned.appId}/usage-limits`;
    const limit = { mode: "live", unit: "count", amount: 50 };
    await post(limits, { ...limit, name: "Daily", every: "day", timeZone: "Europe/Berlin" }, ADMIN_TOKEN);
    await post(limits, { ...limit, name: "Monthly", every: "month", timeZone: "America/New_York" }, ADMIN_TOKEN);
    await post(limits, { ...limit, name: "Plain", every: "day" }, ADMIN_TOKEN);
    const { sk_live: key, pk_live: publishableKey } = zoned.keys;
    const shown = await fetch(`${server.url}/api/v1/usage/limits?userId=zoe`, {
      headers: { authorization: `Bearer ${key}` },
    });
    const monthly = ((await shown.json()) as { limits: { resetsAt: string }[] }).limits[1]?.resetsAt ?? "";
    const first = new Date(monthly).toLocaleDateString("en-US", { dateStyle: "medium", timeZone: "America/New_York" });
    await openElement("zoe", 'limits locale="en-US"', {
      publishableKey,
      token: await userToken(END_USER_SECRET, "zoe"),
    });
    await page.waitForSelector("purser-balance [part~=resets]", { state: "attached" });
    const resets = (await page.locator("purser-balance [part~=resets]").allTextContents()).map((text) =>
      text.replace("\u202f", " "),
    );
    expect(resets).toEqual(["resets at 12:00 AM, Berlin", `resets at ${first}, 12:00 AM, New York`]);
    await run('balance.setAttribute("lang", "de")');
    await run("balance.refresh()");
    expect(await page.locator("purser-balance [part~=resets]").first().textContent()).toBe("resets at 00:00, Berlin");
    await expectAccessible(page);
  });

  it("shows the operator's names of units, and the page's own texts rather than them", async () => {
    const named = await server.makeApp(END_USER_SETTING);
    const admin = `/api/v1/admin/apps/${named.appId}`;
    const names = { count: { one: "credit", other: "<b>credits" }, tokens: { one: "word", other: "words" } };
    await put(`${admin}/unit-names`, { mode: "live", names });
    const { sk_live: key, pk_live: publishableKey } = named.keys;
    for (const [unit, quantity] of [
      ["count", 7],
      // It is shown as 1.
      ["tokens", 1.004],
      ["cents", 5],
    ] as const) {
      await post(`${admin}/packs`, { packName: unit, items: [], unit }, ADMIN_TOKEN);
      const expiresAt = unit === "cents" ? null : "2098-01-02T12:00:00Z";
      await post("/api/v1/credits/grant", { userId: "nora", packId: unit, quantity, expiresAt }, key);
    }
    await openElement("nora", "", { publishableKey, token: await userToken(END_USER_SECRET, "nora") });
    const next = "Next to expire, on Jan 2, 2098: 7 <b>credits and 1 word";
    expect(await textIn("ok")).toBe(`<b>credits 7 Words 1 Cents 5 ${next}`);
    await run('balance.setAttribute("text-tokens", "my tokens")');
    await run("balance.refresh()");
    expect(await textIn("ok")).toBe(`<b>credits 7 my tokens 1 Cents 5 ${next.replace("word", "my tokens")}`);
    // A browser keeps the names, but for their own environment.
    const url = `${server.url}/api/v1/unit-names`;
    const read = (sent: string) =>
      run(`fetch("${url}", { headers: { authorization: "Bearer ${sent}" } }).then((answer) => answer.json())`);
    expect([await read(publishableKey), await read(named.keys.pk_test)]).toEqual([{ names }, { names: {} }]);
  });

  it("shows a member the balances of the team that the token names, and the member's own limits", async () => {
    const team = await server.makeApp({ ...END_USER_SETTING, payerClaim: "org_id" });
    const admin = `/api/v1/admin/apps/${team.appId}`;
    await post(`${admin}/packs`, { packName: "tokens", items: [], unit: "tokens" }, ADMIN_TOKEN);
    const limit = { mode: "live", unit: "tokens", every: "day" };
    await post(`${admin}/usage-limits`, { ...limit, name: "Team", amount: 50 }, ADMIN_TOKEN);
    await post(`${admin}/usage-limits`, { ...limit, name: "Each", amount: 20, per: "member" }, ADMIN_TOKEN);
    const { sk_live: key, pk_live } = team.keys;
    await post("/api/v1/credits/grant", { userId: "org_harbor", packId: "tokens", quantity: 100 }, key);
    for (const memberId of ["joan", "joan", "katherine"]) {
      const usage = { userId: "org_harbor", memberId, event: "chat", quantities: { tokens: 6 } };
      await post("/api/v1/usage/events", { eventId: crypto.randomUUID(), ...usage }, key);
    }
    const token = await new SignJWT({ org_id: "org_harbor" })
      .setProtectedHeader({ alg: "HS256" })
      .setSubject("joan")
      .setIssuedAt()
      .setExpirationTime("1m")
      .sign(new TextEncoder().encode(END_USER_SECRET));
    await openElement("org_harbor", "limits", { publishableKey: pk_live, token });
    expect(await textIn("ok")).toBe("Tokens 82 Each 12 of 20 today");
    await run('balance.setAttribute("user-id", "org_other")');
    expect(await textIn("unknown")).toBe("Your credits cannot be shown now.");
  });

  it("requests limits and recurring grants only if asked to", async () => {
    await grant("plain", "count", 1);
    const paths: string[] = [];
    await openElement("plain");
    page.on("request", (request) => paths.push(new URL(request.url()).pathname));
    await textIn("ok");
    await run("balance.refresh()");
    expect(new Set(paths.filter((path) => path.startsWith("/api/")))).toEqual(
      new Set(["/api/v1/credits", "/api/v1/unit-names"]),
    );
  });

  it("reports a secret key in the page and in the console, and does not send it", async () => {
    await openElement("ada");
    await page.waitForSelector("purser-balance[data-state]", { state: "attached" });
    const printed: string[] = [];
    const sent: string[] = [];
    page.on("console", (message) => printed.push(`${message.type()} ${message.text()}`));
    page.on("request", (request) => sent.push(request.url()));
    for (const key of [app.keys.sk_live, "rk_live_x", "ak_x", " sk_test_x"]) {
      printed.length = 0;
      await run(`balance.setAttribute("publishable-key", ${JSON.stringify(key)})`);
      expect(await textIn("unknown")).toContain("was given a secret key");
      expect(printed.join()).toMatch(/^error .*secret key/);
      expect(printed.join()).not.toContain(key);
    }
    expect(sent).toEqual([]);
    await run(`balance.setAttribute("publishable-key", ${JSON.stringify(app.keys.pk_live)})`);
    expect(await textIn("low")).toContain("Tokens");
  });

  it("is below 5 KiB compressed, and served to any origin", async () => {
    const response = await fetch(`${server.url}/purser-balance.js`, { headers: { origin: "https://shop.example" } });
    expect(response.headers.get("content-type")).toBe("text/javascript; charset=utf-8");
    expect(response.headers.get("access-control-allow-origin")).toBe("*");
    expect(response.headers.get("cache-control")).toBe("public, max-age=3600");
    expect(gzipSync(await response.text()).length).toBeLessThan(5 * 1_024);
  });
});
