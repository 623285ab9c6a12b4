import { readFileSync } from "node:fs";
import { createServer, type Server as HttpServer } from "node:http";
import { createRequire } from "node:module";
import type { AddressInfo } from "node:net";
import type { Browser, Page, Request } from "playwright-core";
import { afterAll, beforeAll, describe, expect, it } from "vitest";
import { chromiumPath, connectBrowser, withoutChromium } from "./support/browser.ts";
import { eventsIn, personIn } from "./support/people.ts";
import { type ServedApp, type Server, sharedServer } from "./support/server.ts";

/** The methods of `window.posthog` that a page calls. Functions given to `page.evaluate` run in the browser. */
interface PageClient {
  init(key: string, options: object): void;
  capture(event: string, properties?: object, options?: object): void;
  identify(distinctId: string, set?: object, setOnce?: object): void;
  alias(alias: string): void;
  group(type: string, key: string, properties?: object): void;
  get_distinct_id(): string;
  reset(): void;
  isFeatureEnabled(flag: string): boolean | undefined;
  compression?: string;
}
declare const posthog: PageClient;
declare const localStorage: { getItem(name: string): string | null; setItem(name: string, value: string): void };
declare const navigator: { sendBeacon: (url: string, data?: unknown) => boolean };

const script = readFileSync(createRequire(import.meta.url).resolve("posthog-js/dist/array.full.js"));

let server: Server;
let shop: HttpServer;
let shopUrl: string;
let browser: Browser;

/** A shop's page of another origin than Purser's, with the script of that origin. */
async function openShop(): Promise<void> {
  shop = createServer((request, response) => {
    const isScript = request.url === "/array.full.js";
    response.setHeader("content-type", isScript ? "text/javascript" : "text/html; charset=utf-8");
    const page = '<!doctype html><title>Shop</title><script src="/array.full.js"></script>';
    response.end(isScript ? script : request.url === "/bye" ? "<!doctype html><title>Bye</title>" : page);
  });
  await new Promise<void>((resolve) => shop.listen(0, "127.0.0.1", resolve));
  // A server that listens on a TCP port has an address of this form.
  shopUrl = `http://127.0.0.1:${(shop.address() as AddressInfo).port}/`;
}

beforeAll(async () => {
  if (chromiumPath === null) return;
  server = await sharedServer();
  await openShop();
  browser = await connectBrowser();
});
afterAll(async () => {
  if (chromiumPath === null) return;
  await browser.close();
  await new Promise((resolve) => shop.close(resolve));
});

interface Visit {
  readonly app: ServedApp;
  readonly page: Page;
  readonly requests: readonly Request[];
  /** The errors of the page's console and network. */
  readonly complaints: readonly string[];
  /** Settles when the client has applied its remote configuration. */
  readonly configured: () => Promise<void>;
}

/** Opens the shop as a new visitor. Its posthog-js is configured only with Purser's address as the host. */
async function visit(options: object = {}): Promise<Visit> {
  const app = await server.makeApp();
  const context = await browser.newContext();
  const page = await context.newPage();
  const requests: Request[] = [];
  const complaints: string[] = [];
  page.on("request", (request) => {
    if (request.url().startsWith(server.url)) requests.push(request);
  });
  page.on("response", (response) => {
    if (response.status() >= 400 && !response.url().endsWith("/favicon.ico")) {
      complaints.push(`${response.status()} ${response.url()}`);
    }
  });
  page.on("pageerror", (error) => complaints.push(String(error)));
  await page.goto(shopUrl);
  const host = server.url;
  // By default posthog-js sends nothing from a browser that a program controls.
  const given = { api_host: host, persistence: "localStorage", opt_out_useragent_filter: true, ...options };
  await page.evaluate(([key, settings]) => posthog.init(key, settings), [app.keys.pk_live, given] as const);
  // The configuration is a script. The client applies it in the script's `load` event.
  const configured = async () => {
    await page.waitForFunction(() => "_POSTHOG_REMOTE_CONFIG" in globalThis);
  };
  return { app, page, requests, complaints, configured };
}

const pathsOf = (requests: readonly Request[]) => requests.map((request) => new URL(request.url()).pathname);

async function eventually<T>(read: () => Promise<T>, isThere: (value: T) => boolean): Promise<T> {
  for (let tries = 0; ; tries++) {
    const value = await read();
    if (isThere(value) || tries === 40) return value;
    await new Promise((resolve) => setTimeout(resolve, 200));
  }
}

const idOf = (page: Page) => page.evaluate(() => posthog.get_distinct_id());
const readEnvironment = (app: ServedApp) => app.environmentIds.live;

const waitForEvents = (app: ServedApp, ids: readonly string[], count: number) =>
  eventually(
    () => eventsIn(server.db, readEnvironment(app), ids),
    (events) => events.length >= count,
  );

async function post(app: ServedApp, path: string, body: object) {
  const response = await fetch(`${server.url}/api/v1/${path}`, {
    method: "POST",
    headers: { authorization: `Bearer ${app.keys.sk_live}`, "content-type": "application/json" },
    body: JSON.stringify(body),
  });
  expect(response.status).toBe(200);
  return response.json();
}

async function exportOf(app: ServedApp, distinctId: string): Promise<unknown> {
  const { downloadUrl } = (await post(app, "export-person", { distinctId })) as { downloadUrl: string };
  return (await fetch(downloadUrl)).json();
}

/** The rows of an application's tables that hold one of these texts. */
async function rowsThatName(app: ServedApp, texts: readonly string[]): Promise<string[]> {
  const { results: tables } = await server.db
    .prepare("SELECT name FROM sqlite_schema WHERE type = 'table' AND sql LIKE '%environment_id%'")
    .all<{ name: string }>();
  const statements = tables.map(({ name }) =>
    server.db.prepare(`SELECT * FROM "${name}" WHERE environment_id = ?`).bind(readEnvironment(app)),
  );
  const answers = await server.db.batch(statements);
  const rows = answers.flatMap(({ results }, index) =>
    results.map((row) => `${tables[index]?.name} ${JSON.stringify(row)}`),
  );
  return rows.filter((row) => texts.some((text) => row.includes(text)));
}

describe.skipIf(chromiumPath === null)(`posthog-js on a page of another origin${withoutChromium}`, () => {
  it("loads its configuration without a flag or a script from Purser, captures, identifies and aliases, in gzip without a header", async () => {
    const { app, page, requests, complaints, configured } = await visit({ person_profiles: "identified_only" });
    const device = await idOf(page);
    await configured();
    await page.evaluate(() => {
      posthog.capture("looked", { item: "ünïcode ✓", __nested: { deep: [1, null] } });
      posthog.group("company", "acme", { size: 3 });
      posthog.identify("ana", { plan: "gold" }, { first: "shop" });
      posthog.alias("crm-7");
      posthog.capture("bought");
    });
    const events = await waitForEvents(app, [device, "ana"], 6);
    const names = events.map((event) => event.event);
    for (const name of ["$pageview", "looked", "$groupidentify", "$identify", "$create_alias", "bought"]) {
      expect(names).toContain(name);
    }
    expect(events.find((event) => event.event === "looked")?.properties).toMatchObject({
      item: "ünïcode ✓",
      __nested: { deep: [1, null] },
    });
    for (const event of events) expect(Math.abs(event.timestampMs - Date.now())).toBeLessThan(60_000);
    const person = await personIn(server.db, readEnvironment(app), "ana");
    expect(person?.isIdentified).toBe(true);
    // Only a server may link an alias that is not a device's id, because the page's key is public.
    expect(person?.distinctIds).toEqual(["ana", device].sort());
    expect(person?.properties).toMatchObject({ plan: "gold", first: "shop" });
    const packed = requests.filter((request) => request.url() === `${server.url}/e/`);
    expect(packed.length).toBeGreaterThan(0);
    for (const request of packed) {
      expect(request.postDataBuffer()?.subarray(0, 2).toString("hex")).toBe("1f8b");
      expect(request.headers()["content-type"]).toBe("text/plain");
      expect(request.headers()["content-encoding"]).toBeUndefined();
    }
    // The client sends all requests of its configuration before the events.
    expect(await page.evaluate(() => posthog.isFeatureEnabled("beta"))).toBeFalsy();
    expect(pathsOf(requests).filter((path) => path.startsWith("/static/"))).toEqual([]);
    expect(complaints).toEqual([]);
    await page.context().close();
  });

  it("creates no person before identify, which then gives earlier events to the person", async () => {
    const { app, page } = await visit({ person_profiles: "identified_only" });
    const device = await idOf(page);
    await page.evaluate(() => posthog.capture("looked"));
    await waitForEvents(app, [device], 2);
    expect(await personIn(server.db, readEnvironment(app), device)).toBeNull();
    await page.evaluate(() => posthog.identify("ana"));
    await waitForEvents(app, ["ana"], 1);
    expect((await personIn(server.db, readEnvironment(app), "ana"))?.distinctIds).toEqual([device, "ana"].sort());
    expect((await personIn(server.db, readEnvironment(app), device))?.claimedBy).toBe("ana");
    await page.context().close();
  });

  it("sends plain JSON after a preflight", async () => {
    const { app, page, requests, complaints } = await visit({ disable_compression: true, request_batching: false });
    await page.evaluate(() => posthog.capture("looked"));
    const events = await waitForEvents(app, [await idOf(page)], 2);
    expect(events.map((event) => event.event)).toContain("looked");
    const sent = requests.filter((request) => request.method() === "POST" && new URL(request.url()).pathname === "/e/");
    expect(sent[0]?.headers()["content-type"]).toBe("application/json");
    expect(complaints).toEqual([]);
    await page.context().close();
  });

  it("sends base64 in a form", async () => {
    const { app, page, requests, complaints, configured } = await visit({ request_batching: false });
    await configured();
    await page.evaluate(() => {
      posthog.compression = "base64";
      posthog.capture("looked", { item: "~~??>> ünïcode" });
    });
    const events = await eventually(
      async () => eventsIn(server.db, readEnvironment(app), [await idOf(page)]),
      (found) => found.some((event) => event.event === "looked"),
    );
    expect(events.find((event) => event.event === "looked")?.properties).toMatchObject({ item: "~~??>> ünïcode" });
    const packed = requests.find((request) => request.url().includes("compression=base64"));
    expect(packed?.headers()["content-type"]).toBe("application/x-www-form-urlencoded");
    expect(complaints).toEqual([]);
    await page.context().close();
  });

  it.each(["left", "closed"])("sends its queued events by beacon when the page is %s", async (how) => {
    const { app, page } = await visit();
    const device = await idOf(page);
    await waitForEvents(app, [device], 1);
    await page.evaluate(() => {
      const sendBeacon = navigator.sendBeacon.bind(navigator);
      navigator.sendBeacon = (url, data) => {
        localStorage.setItem("beacon", String(url));
        return sendBeacon(url, data);
      };
      posthog.capture("last words");
    });
    if (how === "closed") await page.close({ runBeforeUnload: true });
    else await page.goto(`${shopUrl}bye`);
    const events = await waitForEvents(app, [device], 3);
    expect(events.map((event) => event.event)).toEqual(expect.arrayContaining(["last words", "$pageleave"]));
    if (how === "left") expect(await page.evaluate(() => localStorage.getItem("beacon"))).toContain(`${server.url}/e/`);
    await page.context().close();
  });

  it("stores no data of an erased user again, before and after its own `reset()`", async () => {
    const ana = "Zq7-ana@example.com";
    const { app, page, requests, complaints } = await visit({ request_batching: false, disable_compression: true });
    const device = await idOf(page);
    await page.evaluate((id) => {
      posthog.capture("looked", { item: "Zq7 earlier" });
      posthog.identify(id, { email: id });
      posthog.capture("bought", { item: "Zq7 earlier" });
    }, ana);
    const sent = (name: string) =>
      eventually(
        async () => requests.map((one) => one.postData() ?? "").find((body) => body.includes(`"${name}"`)),
        (body) => body !== undefined,
      );
    await eventually(
      () => eventsIn(server.db, readEnvironment(app), [ana]),
      (events) => events.some(({ event }) => event === "bought"),
    );
    expect((await personIn(server.db, readEnvironment(app), ana))?.distinctIds).toEqual([ana, device].sort());
    expect(await rowsThatName(app, [ana, device, "Zq7"])).not.toEqual([]);
    const erased = await post(app, "erase-person", { distinctId: ana });
    expect(erased).toMatchObject({ status: "completed", distinctIdCount: 2 });

    await page.evaluate((id) => {
      posthog.capture("after the erasure");
      posthog.identify(id, { email: id, plan: "gold" });
    }, ana);
    expect(await sent("after the erasure")).toContain(ana);
    await page.evaluate(() => {
      posthog.reset();
      posthog.capture("after the reset");
    });
    const fresh = await idOf(page);
    expect([ana, device]).not.toContain(fresh);
    const events = await eventually(
      () => eventsIn(server.db, readEnvironment(app), [fresh]),
      (found) => found.some(({ event }) => event === "after the reset"),
    );
    const last = events.find(({ event }) => event === "after the reset");
    // The client still sends the device's id, and Purser does not store it.
    expect(await sent("after the reset")).toContain(`"$device_id":"${device}"`);
    expect(last?.properties).not.toHaveProperty("$device_id");
    expect(await rowsThatName(app, [ana, device, "Zq7"])).toEqual([]);
    for (const id of [ana, device]) {
      expect(await exportOf(app, id)).toMatchObject({ person: null, events: { analytics: [], metering: [] } });
    }
    expect(await rowsThatName(app, [ana, device, "Zq7"])).toEqual([]);
    expect(complaints).toEqual([]);
    await page.context().close();
  });
});
