import { randomBytes, randomUUID } from "node:crypto";
import { existsSync, mkdirSync, readFileSync, writeFileSync } from "node:fs";
import { call } from "./client.mjs";
import { dim } from "./terminal.mjs";

const FILE = ".purser/demo.json";
const DAY_MS = 86_400_000;

/** The person of whom something is held. */
export const PERSON = "user_ada";
/** The end-user of the story: has nothing at first. */
export const USER = "user_grace";

async function makeApp(url, adminToken) {
  const admin = (method, path, body) => call(url, method, `/api/v1/admin${path}`, { key: adminToken, body });
  const { appId } = await admin("POST", "/apps", { name: "Lighthouse (demonstration)" });
  const keys = {};
  for (const mode of ["live", "test"]) {
    for (const kind of ["secret", "publishable"]) {
      const made = await admin("POST", `/apps/${appId}/keys`, { kind, mode, name: `${kind} ${mode}` });
      keys[`${kind === "secret" ? "sk" : "pk"}_${mode}`] = made.key;
    }
  }
  const endUserSecret = randomBytes(32).toString("hex");
  for (const mode of ["live", "test"]) {
    await admin("PUT", `/apps/${appId}/end-user-auth`, { mode, setting: { type: "hs256", secret: endUserSecret } });
  }
  const starter = await admin("POST", `/apps/${appId}/packs`, {
    packName: "Starter",
    defaultExpiryDays: 365,
    items: [
      { amount: 100_000, unit: "tokens", matches: [{ event: "chat.*", model: "small-*" }], priority: 10 },
      { amount: 3_600, unit: "seconds", matches: [{ event: "transcribe" }], priority: 20 },
      { amount: 500, unit: "cents" },
    ],
  });
  const topUp = await admin("POST", `/apps/${appId}/packs`, { packName: "Top-up", unit: "cents", items: [] });
  return { appId, keys, endUserSecret, packs: { starter: starter.packId, topUp: topUp.packId } };
}

function analyticsEvents(startMs) {
  const pages = ["/", "/pricing", "/docs", "/chat", "/account"];
  const before = Array.from({ length: 40 }, (_, index) => ({
    uuid: randomUUID(),
    event: "$pageview",
    distinct_id: "anon_7d1f",
    timestamp: new Date(startMs + index * 60_000).toISOString(),
    properties: { $current_url: `https://lighthouse.example${pages[index % pages.length]}`, $browser: "Firefox" },
  }));
  const identify = {
    uuid: randomUUID(),
    event: "$identify",
    distinct_id: PERSON,
    timestamp: new Date(startMs + 41 * 60_000).toISOString(),
    properties: {
      $anon_distinct_id: "anon_7d1f",
      $set: { name: "Ada", plan: "starter" },
      $set_once: { first_seen_on: "/" },
    },
  };
  const after = Array.from({ length: 260 }, (_, index) => ({
    uuid: randomUUID(),
    event: index % 4 === 0 ? "message sent" : "$pageview",
    distinct_id: PERSON,
    timestamp: new Date(startMs + 2 * DAY_MS + index * 3_600_000).toISOString(),
    properties: { $current_url: `https://lighthouse.example${pages[index % pages.length]}`, turn: index },
  }));
  return [...before, identify, ...after];
}

function usageEvents(startMs) {
  return Array.from({ length: 300 }, (_, index) => ({
    eventId: `seed-${String(index).padStart(3, "0")}-${randomBytes(4).toString("hex")}`,
    userId: PERSON,
    ...(index % 5 === 0
      ? { event: "transcribe", quantities: { seconds: 4 + (index % 7), cents: 0.6 } }
      : { event: "chat.completion", model: "small-2", quantities: { tokens: 120 + index, cents: 0.036 } }),
    occurredAt: new Date(startMs + 2 * DAY_MS + index * 3_000_000).toISOString(),
    properties: { conversation: `c${index % 12}` },
    onShortage: "partial",
  }));
}

async function seedPerson(url, { keys }) {
  const startMs = Date.now() - 20 * DAY_MS;
  const key = keys.sk_live;
  const grant = { userId: PERSON, packId: "Starter", externalRef: "order-0001", notes: "first order" };
  await call(url, "POST", "/api/v1/credits/grant", { key, body: grant });
  const events = usageEvents(startMs);
  for (let from = 0; from < events.length; from += 100) {
    const { results } = await call(url, "POST", "/api/v1/usage/events", { key, body: events.slice(from, from + 100) });
    const refused = results.find((result) => result.error !== undefined);
    if (refused !== undefined) throw new Error(`A seeded usage event was refused: ${JSON.stringify(refused)}`);
  }
  const batch = { api_key: keys.pk_live, sent_at: new Date().toISOString(), batch: analyticsEvents(startMs) };
  await call(url, "POST", "/batch/", { body: batch });
  for (const [purpose, decision] of [
    ["analytics", "granted"],
    ["marketing", "granted"],
    ["marketing", "withdrawn"],
  ]) {
    const body = { distinctId: PERSON, purpose, decision, method: "banner", noticeVersion: "2026-01" };
    await call(url, "POST", "/api/v1/consent", { key, body });
  }
}

/** What the demonstration knows of itself, kept beside the local database; null when it was never seeded. */
export function readDemo() {
  return existsSync(FILE) ? JSON.parse(readFileSync(FILE, "utf8")) : null;
}

/** Seeds the demonstration once per database; afterwards answers the same application and keys. */
export async function ensureDemo(url, adminToken) {
  const { apps } = await call(url, "GET", "/api/v1/admin/apps", { key: adminToken });
  const kept = readDemo();
  if (kept !== null && apps.some((app) => app.appId === kept.appId)) return kept;
  console.log(dim("Seeding a demonstration …"));
  const demo = await makeApp(url, adminToken);
  await seedPerson(url, demo);
  mkdirSync(".purser", { recursive: true });
  writeFileSync(FILE, `${JSON.stringify(demo, null, 2)}\n`, { mode: 0o600 });
  return demo;
}
