/**
 * Takes the pictures of the dashboard and of the balance element, from a server with its own database, which is filled with a
 * month of data.
 */
import { mkdirSync } from "node:fs";
import { pathToFileURL } from "node:url";
import { chromium } from "playwright-core";
import { createTestHarness } from "wrangler";
import { STARTER, userToken } from "./seed.mjs";

// The local runtime would send a request to find its location.
process.env.CLOUDFLARE_CF_FETCH_ENABLED = "false";

const ADMIN_TOKEN = "administrator-token-of-the-pictures-01";
const END_USER_SECRET = "end-user-secret-of-the-pictures-0001";
const DAYS = 30;
const OTHERS = ["grace", "edsger", "barbara", "alan", "hedy"];
const DAY_MS = 86_400_000;

async function startServer() {
  const harness = createTestHarness({
    workers: [
      {
        configPath: "wrangler.toml",
        secrets: {
          ADMIN_TOKEN,
          ANALYTICS_EXPORT_SECRET: "export-secret-of-the-pictures",
          SETTINGS_SECRET: "settings-secret-of-the-pictures-0001",
        },
      },
    ],
  });
  const { url } = await harness.listen();
  const worker = harness.getWorker();
  await worker.applyD1Migrations("DB");
  const { DB } = await worker.getEnv();
  const cron = () => worker.scheduled({ cron: "* * * * *" });
  return { url: url.origin, db: DB, cron, close: () => harness.close() };
}

/** Sends JSON. Throws if the response is not a success. */
async function send(url, method, path, key, body) {
  const answer = await fetch(`${url}/api/v1${path}`, {
    method,
    headers: { authorization: `Bearer ${key}`, "content-type": "application/json" },
    body: JSON.stringify(body),
  });
  if (!answer.ok) throw new Error(`${method} ${path} answered ${answer.status}: ${await answer.text()}`);
  return answer.json();
}

/** Creates an application, its packs, and a user who bought and used credits. */
async function fill(url) {
  const admin = (path, body) => send(url, "POST", `/admin${path}`, ADMIN_TOKEN, body);
  const { appId } = await admin("/apps", { name: "Lighthouse" });
  const { key } = await admin(`/apps/${appId}/keys`, { kind: "secret", mode: "live", name: "Backend" });
  await admin(`/apps/${appId}/packs`, STARTER);
  const post = (path, body) => send(url, "POST", path, key, body);
  await post("/credits/grant", { userId: "ada", packId: "starter", externalRef: "order-1", notes: "order-1" });
  for (const userId of OTHERS) await post("/credits/grant", { userId, packId: "starter" });
  for (let index = 0; index < 60; index++) {
    const isCall = index % 4 === 3;
    await post("/usage/events", {
      eventId: `event-${index}`,
      userId: index < 40 ? "ada" : OTHERS[(index * index) % OTHERS.length],
      event: isCall ? "transcribe" : "chat.completion",
      ...(isCall ? {} : { model: index % 5 === 0 ? "small-3" : "small-2" }),
      quantities: isCall
        ? { count: 0, seconds: 20 + ((index * 37) % 90) }
        : { count: 0, tokens: 400 + ((index * 733) % 1_900) },
    });
  }
  const chat = { userId: "ada", event: "chat.completion", model: "small-3" };
  // This one is rejected with 402.
  await post("/usage/events", { eventId: "refused", ...chat, quantities: { count: 0, tokens: 9_000_000 } }).catch(
    () => {},
  );
  const hold = { reservationId: "res_chat", ...chat, quantities: { count: 0, tokens: 1_200 } };
  await post("/usage/reservations", hold);
  await post("/usage/reservations/res_chat/commit", { eventId: "held", quantities: { count: 0, tokens: 870 } });
  const share = { part: 1, of: 10 };
  await post("/credits/refund", {
    userId: "ada",
    externalRef: "order-1",
    refundRef: "refund-1",
    share,
    reason: "slow",
  });
  const setting = { type: "hs256", secret: END_USER_SECRET };
  await send(url, "PUT", `/admin/apps/${appId}/end-user-auth`, ADMIN_TOKEN, { mode: "live", setting });
  const publishable = await admin(`/apps/${appId}/keys`, { kind: "publishable", mode: "live", name: "Page" });
  return { appId, publishableKey: publishable.key };
}

/** Fills the overview's table, which has figures by day. */
async function fillDays(db, appId) {
  const { id } = await db.prepare("SELECT id FROM environments WHERE app_id = ? AND mode = 'live'").bind(appId).first();
  const today = Math.floor(Date.now() / DAY_MS);
  const wave = (day, most) => Math.round(most * (0.4 + 0.35 * Math.sin(day / 2.1) + ((day * 7) % 5) / 16));
  const rows = Array.from({ length: DAYS }, (_, back) => today - back).flatMap((day) => [
    ["granted", day, "tokens", wave(day, 710_000_000)],
    ["granted", day, "cents", wave(day + 2, 4_000_000_000)],
    ["spent", day, "tokens", wave(day + 1, 700_000_000)],
    ["spent", day, "cents", wave(day + 3, 4_150_000_000)],
    ["expiring", day + DAYS - 1, "tokens", wave(day + 4, 200_000_000)],
    ["expiring", day + DAYS - 1, "cents", day % 6 === 0 ? 500_000_000 : 0],
    ["shortage", day, "", wave(day + 5, 14)],
    ["failed_grant", day, "", day % 5 === 0 ? 2 : 0],
    ["minted", day, "", day % 3],
    ["opened", day, "", day % 3 === 2 ? 1 : 0],
  ]);
  await db.prepare("DELETE FROM daily_activity").run();
  await db
    .prepare(
      `INSERT INTO daily_activity (environment_id, kind, day, unit, amount)
       SELECT CAST(? AS INTEGER), value ->> 0, value ->> 1, value ->> 2, value ->> 3 FROM json_each(?)`,
    )
    .bind(id, JSON.stringify(rows))
    .run();
}

async function takePictures(url, { appId, publishableKey }) {
  const browser = await chromium.launch({
    executablePath: process.env.CHROMIUM_PATH ?? "/usr/bin/chromium",
    args: ["--no-sandbox", "--disable-gpu", "--disable-background-networking", "--disable-component-update"],
  });
  try {
    const shop = await browser.newPage({ viewport: { width: 560, height: 300 }, deviceScaleFactor: 2 });
    const token = await userToken(END_USER_SECRET, "ada");
    const values = new URLSearchParams({ url, key: publishableKey, user: "ada", token });
    await shop.goto(`${pathToFileURL("examples/balance.html")}#${values}`);
    await shop.locator("purser-balance[data-state=ok], purser-balance[data-state=low]").waitFor();
    await shop.screenshot({ path: "docs/balance-element.png" });
    console.log("docs/balance-element.png");
    const page = await browser.newPage({ viewport: { width: 1_440, height: 900 }, colorScheme: "light" });
    await page.goto(`${url}/admin`);
    await page.getByLabel("Your name").fill("Ana");
    await page.getByLabel("Admin token").fill(ADMIN_TOKEN);
    await page.getByRole("button", { name: "Sign in" }).click();
    await page.getByRole("heading", { name: "Applications" }).waitFor();
    const take = async (path, file) => {
      await page.goto(`${url}/admin/apps/${appId}/live/${path}`);
      await page.screenshot({ path: `docs/${file}` });
      console.log(`docs/${file}`);
    };
    await take("overview", "dashboard-overview.png");
    await take("users?userId=ada", "dashboard-user.png");
    await page.getByRole("link", { name: "Timeline", exact: true }).click();
    await page.locator("#timeline").screenshot({ path: "docs/dashboard-timeline.png" });
    console.log("docs/dashboard-timeline.png");
    await take("usage", "dashboard-usage.png");
  } finally {
    await browser.close();
  }
}

mkdirSync("docs", { recursive: true });
const server = await startServer();
try {
  const app = await fill(server.url);
  // The Worker writes its own figures a few seconds later. They must not be added to these.
  await new Promise((resolve) => setTimeout(resolve, 4_000));
  await fillDays(server.db, app.appId);
  // The cron sums the usage of days.
  await server.cron();
  await takePictures(server.url, app);
} finally {
  await server.close();
}
