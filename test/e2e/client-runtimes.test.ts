import { execFile } from "node:child_process";
import { readFileSync } from "node:fs";
import { createServer } from "node:http";
import type { AddressInfo } from "node:net";
import { join } from "node:path";
import { promisify } from "node:util";
import type { Browser } from "playwright-core";
import { afterAll, afterEach, beforeAll, describe, expect, it } from "vitest";
import { PurserAdmin } from "../../clients/typescript/src/admin.ts";
import { Purser } from "../../clients/typescript/src/index.ts";
import { userToken } from "../../scripts/seed.mjs";
import { END_USER_SECRET, END_USER_SETTING } from "../support/end-user-setting.ts";
import { chromiumPath, connectBrowser, withoutChromium } from "./support/browser.ts";
import { type FaultyProxy, startFaultyProxy } from "./support/faulty-proxy.ts";
import { clientRuntimes } from "./support/runtimes.ts";
import { ADMIN_TOKEN, type ServedApp, type Server, sharedServer } from "./support/server.ts";

const run = promisify(execFile);
/** The client as it is published. `npm run reference` bundles it, and so does each run of the tests. */
const CLIENT = join(import.meta.dirname, "../../clients/typescript/dist/index.js");
const STORY = join(import.meta.dirname, "support/client-story.mjs");

let server: Server;
let proxy: FaultyProxy;
let app: ServedApp;
beforeAll(async () => {
  server = await sharedServer();
  proxy = await startFaultyProxy(server.url);
  app = await server.makeApp(END_USER_SETTING);
  const admin = new PurserAdmin({ url: server.url, key: ADMIN_TOKEN });
  await admin.createPack({ appId: app.appId, packName: "Tokens", items: [], unit: "tokens" });
});
afterEach(() => {
  proxy.faults.length = 0;
  proxy.seen.length = 0;
});
afterAll(async () => {
  await proxy.close();
});

describe("the built client", () => {
  for (const { name, command, args, without } of clientRuntimes) {
    it.skipIf(command === null)(`charges once on ${name}, whatever happens to its connections${without}`, async () => {
      // The grant, the event, the first hold and its commit.
      proxy.faults.push("lost", null, "refused", "cut", null, "lost", null, "lost", "cut", null);
      const { stdout } = await run(command ?? "", [...args, STORY, CLIENT, proxy.url, app.keys.sk_live]);
      expect(JSON.parse(stdout)).toEqual({
        granted: 100,
        paid: 90,
        held: ["done", 85],
        aborted: [false, false, 20],
        failed: [false, false, "RangeError"],
        short: [true, true, "insufficient_credits"],
        late: [false, false, 20],
        deltas: [50, -50, -7, 50, -50, -5, 50, -50, -10, 100],
        hasBookmark: true,
        type: "purser.test",
        forged: [false, false, "WebhookVerificationError"],
      });
      expect(proxy.faults).toEqual([]);
    });
  }
});

describe.skipIf(chromiumPath === null)(`the built client in a page${withoutChromium}`, () => {
  let browser: Browser;
  const shop = createServer((request, response) => {
    const isScript = request.url === "/purser-client.js";
    response.writeHead(200, { "content-type": isScript ? "text/javascript" : "text/html; charset=utf-8" });
    response.end(isScript ? readFileSync(CLIENT) : '<!doctype html><html lang="en"><title>Shop</title>');
  });
  beforeAll(async () => {
    browser = await connectBrowser();
    await new Promise<void>((resolve) => shop.listen(0, "127.0.0.1", resolve));
  });
  afterAll(async () => {
    await browser.close();
    shop.close();
  });

  it("reads a user's balances with a publishable key from another origin, even when responses are lost", async () => {
    const backend = new Purser({ url: server.url, key: app.keys.sk_live });
    await backend.grantCredits({ userId: "ada", packId: "tokens", quantity: 12.5 });
    const page = await browser.newPage();
    const complaints: string[] = [];
    page.on("pageerror", (error) => complaints.push(error.message));
    // A server that listens on a TCP port has an address of this form.
    await page.goto(`http://127.0.0.1:${(shop.address() as AddressInfo).port}/`);
    const tokens = { ada: await userToken(END_USER_SECRET, "ada"), eve: await userToken(END_USER_SECRET, "eve") };
    proxy.faults.push("refused", null, "lost", "cut", { status: 502, body: "<html>" });
    const seen = await page.evaluate(`(async () => {
      const { Purser, PurserError } = await import("/purser-client.js");
      const tokens = ${JSON.stringify(tokens)};
      let tokenCalls = 0;
      const purser = new Purser({
        url: ${JSON.stringify(proxy.url)},
        key: ${JSON.stringify(app.keys.pk_live)},
        userToken: async () => (tokenCalls++, tokens.ada),
      });
      const codeOf = (call) => call.then(() => "none", (error) => [error instanceof PurserError, error.code ?? null, typeof error.requestId]);
      const { credits } = await purser.listBalances({ userId: "ada" });
      return {
        remaining: credits.map(({ remaining }) => remaining),
        hasAskedAgain: tokenCalls > 1,
        hasBookmark: purser.bookmark !== null,
        eve: await codeOf(purser.listBalances({ userId: "ada" }, { userToken: tokens.eve })),
        write: await codeOf(purser.grantCredits({ userId: "ada", packId: "tokens", quantity: 1 })),
        again: (await purser.listBalances({ userId: "ada" })).credits.length,
      };
    })()`);
    expect(seen).toEqual({
      remaining: [12.5],
      hasAskedAgain: true,
      hasBookmark: true,
      eve: [true, "forbidden", "string"],
      // A publishable key cannot grant. The client throws a TypeError before it sends anything.
      write: [false, null, "undefined"],
      again: 1,
    });
    expect(proxy.faults).toEqual([]);
    const bookmarks = proxy.seen.filter(({ headers }) => headers["x-d1-bookmark"] !== undefined);
    expect(bookmarks.length).toBeGreaterThan(0);
    expect(complaints).toEqual([]);
    await page.close();
  });
});
