import { createServer } from "node:http";
import type { AddressInfo } from "node:net";
import { join } from "node:path";
import { build } from "esbuild";
import { SignJWT } from "jose";
import type { Browser } from "playwright-core";
import { createElement, type FunctionComponent, StrictMode } from "react";
import { renderToString } from "react-dom/server";
import { afterAll, beforeAll, describe, expect, it } from "vitest";
import { userToken } from "../../scripts/seed.mjs";
import { END_USER_SECRET, END_USER_SETTING } from "../support/end-user-setting.ts";
import { chromiumPath, connectBrowser, withoutChromium } from "./support/browser.ts";
import { ADMIN_TOKEN, type ServedApp, type Server, sharedServer } from "./support/server.ts";

const root = join(import.meta.dirname, "../..");

interface Options {
  readonly url: string;
  readonly publishableKey: string;
  readonly userId: string;
  readonly getToken: () => string;
  readonly currency?: string;
}

/** The package has a page's types, which conflict with those of Workers, so it is imported without types. */
const REACT: string = join(root, "clients/react/src/index.ts");
const {
  PurserBalance,
  usePurserBalance,
}: {
  readonly PurserBalance: FunctionComponent<Options>;
  readonly usePurserBalance: (options: Options) => {
    readonly status: string;
    readonly credits: readonly { remaining: number }[];
  };
} = await import(REACT);

/** The server and the page both render this. Only the page has `getToken`. */
const APP = `
  import { createElement as h } from "react";
  import { PurserBalance, usePurserBalance } from "purser-react";
  function Own(options) {
    const { status, credits, unitNames, error } = usePurserBalance(options);
    const left = ({ remaining, unit }) => [remaining, unitNames[unit]?.[remaining === 1 ? "one" : "other"]].join(" ").trim();
    return h("output", null, status + " " + credits.map(left).join(", ") + (error?.code ?? ""));
  }
  export const App = ({ way, ...options }) =>
    way === "hook" ? h(Own, options) : h(PurserBalance, options, h("a", { href: "/buy" }, "Buy more"));`;

const PAGE = `
  import { StrictMode, createElement as h } from "react";
  import { hydrateRoot } from "react-dom/client";
  import { App } from "the app";
  const { token, ...props } = window.given;
  window.tokens = 0;
  const getToken = async () => (window.tokens++, token);
  hydrateRoot(document.querySelector("main"), h(StrictMode, null, h(App, { ...props, getToken })), {
    onRecoverableError: (error) => console.error("not hydrated", error),
  });`;

/** Bundles the page's script from the packages' sources and React's development build, which prints warnings. */
async function bundlePage(): Promise<string> {
  const { outputFiles } = await build({
    stdin: { contents: PAGE, resolveDir: root },
    bundle: true,
    format: "esm",
    write: false,
    define: { "process.env.NODE_ENV": '"development"' },
    alias: {
      "purser-react": join(root, "clients/react/src/index.ts"),
      "purser-client": join(root, "clients/typescript/src/index.ts"),
      "purser-balance": join(root, "clients/balance/purser-balance.ts"),
    },
    plugins: [
      {
        name: "the app",
        setup: ({ onResolve, onLoad }) => {
          onResolve({ filter: /^the app$/ }, () => ({ path: "app", namespace: "app" }));
          onLoad({ filter: /./, namespace: "app" }, () => ({ contents: APP, resolveDir: root }));
        },
      },
    ],
  });
  return outputFiles[0]?.text ?? "";
}

/** Returns the user's own token, or for a team that of a member, which names the team. */
const tokenFor = (userId: string): Promise<string> =>
  userId.startsWith("org_")
    ? new SignJWT({ org_id: userId })
        .setProtectedHeader({ alg: "HS256" })
        .setSubject("joan")
        .setIssuedAt()
        .setExpirationTime("1h")
        .sign(new TextEncoder().encode(END_USER_SECRET))
    : userToken(END_USER_SECRET, userId);

function Own(options: Options) {
  const { status, credits } = usePurserBalance(options);
  return createElement("output", null, `${status} ${credits.map((one) => one.remaining).join(" ")}`);
}

const Element = (options: Options) =>
  createElement(PurserBalance, options, createElement("a", { href: "/buy" }, "Buy more"));

describe.skipIf(chromiumPath === null)(`purser-react, rendered on a server and hydrated${withoutChromium}`, () => {
  let server: Server;
  let browser: Browser;
  let app: ServedApp;
  let script = "";
  let html = "";
  const shop = createServer((request, response) => {
    const isScript = request.url === "/page.js";
    response.writeHead(200, { "content-type": isScript ? "text/javascript" : "text/html; charset=utf-8" });
    response.end(isScript ? script : html);
  });
  beforeAll(async () => {
    [server, browser, script] = await Promise.all([sharedServer(), connectBrowser(), bundlePage()]);
    await new Promise<void>((resolve) => shop.listen(0, "127.0.0.1", resolve));
    app = await server.makeApp({ ...END_USER_SETTING, payerClaim: "org_id" });
    const send = (path: string, key: string, body: object, method = "POST") =>
      fetch(server.url + path, {
        method,
        headers: { authorization: `Bearer ${key}`, "content-type": "application/json" },
        body: JSON.stringify(body),
      });
    await send(`/api/v1/admin/apps/${app.appId}/packs`, ADMIN_TOKEN, { packName: "T", items: [], unit: "tokens" });
    await send(`/api/v1/admin/apps/${app.appId}/packs`, ADMIN_TOKEN, { packName: "Money", items: [], unit: "cents" });
    await send("/api/v1/credits/grant", app.keys.sk_live, { userId: "ada", packId: "t", quantity: 12 });
    await send(`/api/v1/admin/apps/${app.appId}/packs`, ADMIN_TOKEN, { packName: "Calls", items: [], unit: "count" });
    for (const [userId, quantity] of [
      ["one", 1],
      ["few", 3],
    ])
      await send("/api/v1/credits/grant", app.keys.sk_live, { userId, packId: "calls", quantity });
    const names = { count: { one: "credit", other: "credits" } };
    const put = { mode: "live", names };
    await send(`/api/v1/admin/apps/${app.appId}/unit-names`, ADMIN_TOKEN, put, "PUT");
    for (const [userId, quantity] of [
      ["org_harbor", 700],
      ["yen", 1_000],
      ["dinar", 1_234],
    ])
      await send("/api/v1/credits/grant", app.keys.sk_live, { userId, packId: "money", quantity });
  });
  afterAll(async () => {
    await browser.close();
    shop.close();
  });

  it.each([
    ["<PurserBalance>", "element", "purser-balance[data-state=ok]", "12", { userId: "ada" }],
    [
      "<PurserBalance> in yen",
      "element",
      "purser-balance[data-state=ok]",
      "¥1,000",
      { userId: "yen", currency: "JPY" },
    ],
    [
      ...(["<PurserBalance> in dinars", "element", "purser-balance[data-state=ok]"] as const),
      ...(["KWD\u00a01.234", { userId: "dinar", currency: "KWD" }] as const),
    ],
    [
      ...(["<PurserBalance> of a team, with a member's token,", "element"] as const),
      ...(["purser-balance[data-state=ok]", "700", { userId: "org_harbor" }] as const),
    ],
    ["usePurserBalance", "hook", "output:has-text('ok')", "ok 12", { userId: "ada" }],
    ["<PurserBalance> of a named unit", "element", "purser-balance[data-state=ok]", "Credits3", { userId: "few" }],
    ["usePurserBalance of a named unit", "hook", "output:has-text('ok')", "ok 3 credits", { userId: "few" }],
    ["usePurserBalance of one of a named unit", "hook", "output:has-text('ok')", "ok 1 credit", { userId: "one" }],
    [
      ...(["usePurserBalance of a team, with a member's token,", "hook", "output:has-text('ok')"] as const),
      ...(["ok 700", { userId: "org_harbor" }] as const),
    ],
  ] as const)(
    "%s shows the remaining credits after one token, with one request for the balance, without a warning, in strict mode",
    async (_name, way, shown, text, own) => {
      const props = { url: server.url, publishableKey: app.keys.pk_live, ...own };
      const options = { ...props, getToken: () => "the server's render asks for none" };
      const rendered = renderToString(
        createElement(StrictMode, null, createElement(way === "hook" ? Own : Element, options)),
      );
      const given = JSON.stringify({ ...props, way, token: await tokenFor(own.userId) });
      html = `<!doctype html><html lang="en"><title>Shop</title><main>${rendered}</main><script>window.given=${given}</script><script type="module" src="/page.js"></script>`;
      const page = await browser.newPage();
      const printed: string[] = [];
      const requested: string[] = [];
      page.on("console", (message) => printed.push(message.text()));
      page.on("pageerror", (error) => printed.push(error.message));
      page.on("request", (request) => {
        if (request.method() === "GET" && request.url().startsWith(server.url))
          requested.push(new URL(request.url()).pathname);
      });
      // A server listening on a TCP port has an address of this form.
      await page.goto(`http://127.0.0.1:${(shop.address() as AddressInfo).port}/`);
      await page.waitForSelector(shown);
      await page.waitForTimeout(300);
      expect(await page.locator(way === "hook" ? "output" : "[part~=balance]").textContent()).toContain(text);
      expect(printed.filter((line) => !line.includes("React DevTools"))).toEqual([]);
      expect(requested.sort()).toEqual(["/api/v1/credits", "/api/v1/unit-names"]);
      expect(await page.evaluate("window.tokens")).toBe(1);
      await page.close();
    },
  );
});
