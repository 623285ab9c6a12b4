import { type ChildProcess, execFile, spawn } from "node:child_process";
import { createHmac } from "node:crypto";
import { mkdirSync, mkdtempSync, readFileSync, rmSync, symlinkSync, writeFileSync } from "node:fs";
import { tmpdir } from "node:os";
import { join } from "node:path";
import { promisify } from "node:util";
import { afterAll, beforeAll, describe, expect, it, vi } from "vitest";
import { Purser } from "../../clients/typescript/src/index.ts";
import { chromiumPath, connectBrowser, withoutChromium } from "./support/browser.ts";
import { expectAccessible } from "./support/dashboard.ts";
import { freePort } from "./support/free-port.ts";
import { node20 } from "./support/runtimes.ts";
import { ADMIN_TOKEN, type Server, sharedServer } from "./support/server.ts";

const run = promisify(execFile);
const root = join(import.meta.dirname, "../..");
/** Node 20 if this machine has it, because the page requires Node 20. */
const NODE = node20.command ?? process.execPath;

let server: Server;
let directory: string;
let shop: ChildProcess;
let url: string;
let output = "";
let settings: Readonly<Record<string, string>>;

/** Writes each file of docs/first-product.md. The file's first line has its name. */
function writeFiles(): void {
  const text = readFileSync(join(root, "docs/first-product.md"), "utf8");
  for (const [, name = "", code = ""] of text.matchAll(/^```js\n\/\/ (\S+)\n([\s\S]*?)^```$/gm)) {
    writeFileSync(join(directory, name), code);
  }
  writeFileSync(join(directory, "package.json"), '{ "type": "module" }');
  mkdirSync(join(directory, "node_modules"));
  symlinkSync(join(root, "clients/typescript"), join(directory, "node_modules/purser-client"));
}

beforeAll(async () => {
  server = await sharedServer();
  directory = mkdtempSync(join(tmpdir(), "purser-shop-"));
  writeFiles();
  const port = await freePort();
  url = `http://localhost:${port}`;
  const env = { PATH: process.env.PATH, PURSER_URL: server.url, ADMIN_TOKEN, SHOP_URL: `http://127.0.0.1:${port}` };
  // The types of Workers also add the Worker's variables to `env`.
  const { stdout } = await run(NODE, ["setup.mjs"], { cwd: directory, env: env as unknown as NodeJS.ProcessEnv });
  writeFileSync(join(directory, ".env"), stdout);
  settings = Object.fromEntries(
    stdout
      .trim()
      .split("\n")
      .map((line) => line.split("=", 2)),
  );
  shop = spawn(NODE, ["--env-file=.env", "shop.mjs"], {
    cwd: directory,
    env: { PORT: String(port) } as unknown as NodeJS.ProcessEnv,
  });
  for (const stream of [shop.stdout, shop.stderr]) {
    stream?.on("data", (chunk) => {
      output += chunk;
    });
  }
  await vi.waitFor(() => expect(output).toContain(`Shop at ${url}`), { timeout: 10_000 });
});
afterAll(async () => {
  shop.kill();
  rmSync(directory, { recursive: true });
});

const post = (path: string, init: RequestInit = {}) => fetch(url + path, { method: "POST", ...init });

async function remaining(userId = "grace"): Promise<number[]> {
  const purser = new Purser({ url: server.url, key: settings.SECRET_KEY ?? "" });
  return (await purser.listBalances({ userId })).credits.map((balance) => balance.remaining);
}

function pay(payment: object, secret = settings.PROVIDER_SECRET ?? "") {
  const body = JSON.stringify(payment);
  return post("/paid", { body, headers: { "x-signature": createHmac("sha256", secret).update(body).digest("hex") } });
}

describe("the product of docs/first-product.md", () => {
  it("grants once for a payment, and nothing for an unsigned event", async () => {
    const payment = { paymentId: "pay-1", userId: "grace", pack: "Starter" };
    expect((await pay(payment, "another")).status).toBe(400);
    for (let n = 0; n < 2; n++) expect(await (await pay(payment)).text()).toBe("Granted 2 balances.");
    expect(await remaining()).toEqual([1_000, 500]);
  });

  it("debits a chat with a known price, and reports when credits do not suffice", async () => {
    expect(await (await post("/chat")).text()).toBe("Hello!");
    expect(await remaining()).toEqual([990, 500]);
    const poor = await post("/chat", { headers: { cookie: "user=nobody" } });
    expect([poor.status, await poor.text()]).toEqual([402, "You have too few credits for this."]);
  });

  it("charges a stream for its usage, even if its reader leaves", async () => {
    expect((await (await post("/stream")).text()).split(" ")).toHaveLength(51);
    expect(await remaining()).toEqual([940, 500]);
    const left = new AbortController();
    const leaving = await post("/stream", { signal: left.signal });
    await leaving.body?.getReader().read();
    left.abort();
    await vi.waitFor(async () => expect((await remaining())[0]).toBeGreaterThan(889), { timeout: 10_000 });
    const [tokens = 0] = await remaining();
    expect(tokens).toBeLessThan(940);
    expect(tokens).toBeGreaterThan(900);
  });

  it.skipIf(chromiumPath === null)(`shows the balance in a page, and each debit of it${withoutChromium}`, async () => {
    const [tokens = 0] = await remaining();
    const browser = await connectBrowser();
    const page = await browser.newPage();
    await page.goto(url);
    const amount = page.locator("purser-balance [part~=amount][part~=tokens]");
    await amount.filter({ hasText: String(tokens) }).waitFor();
    await expectAccessible(page);
    await page.getByRole("button", { name: "Chat" }).click();
    await amount.filter({ hasText: String(tokens - 10) }).waitFor();
    await browser.close();
  });

  it("receives webhooks, exports a person's data, and erases a person", async () => {
    const data = await (await post("/my-data")).json();
    expect(data).toMatchObject({ distinctId: "grace", format: "json" });
    const receipt = await (await post("/forget-me")).json();
    expect(receipt).toMatchObject({ status: "completed", reason: "request" });
    expect(JSON.stringify(receipt)).not.toContain("grace");
    expect(await remaining()).toEqual([]);
    const types = ["credits.granted", "usage.recorded", "person.exported", "person.erased"];
    await vi.waitFor(() => expect(types.filter((type) => !output.includes(type))).toEqual([]), { timeout: 20_000 });
    expect((await post("/purser", { body: "{}" })).status).toBe(400);
    expect(output).not.toContain("Error");
  });
});
