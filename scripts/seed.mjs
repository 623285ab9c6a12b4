/** The demonstration that `npm start` creates: an application with its packs, and a person with stored data. */
import { createHash, randomBytes } from "node:crypto";
import { SignJWT } from "jose";
import { liveMonth, makePlans, writeNotes } from "./demo-month.mjs";
import { openJournal, readJson, writeJson } from "./local-state.mjs";
import { dim } from "./terminal.mjs";

const FILE = ".purser/demo.json";
const JOURNAL = ".purser/seeding.json";
const NAME = "Lighthouse (demonstration)";
const DAY_MS = 86_400_000;

/** The person with stored data. */
export const PERSON = "user_ada";
/** The user of the examples, who has nothing at first. */
export const USER = "user_grace";

/** The pack of the demo and of the dashboard's screenshots. */
export const STARTER = {
  packName: "Starter",
  defaultExpiryDays: 365,
  items: [
    { amount: 100_000, unit: "tokens", matches: [{ event: "chat.*", model: "small-*" }], priority: 10 },
    { amount: 3_600, unit: "seconds", matches: [{ event: "transcribe" }], priority: 20 },
    { amount: 500, unit: "cents" },
  ],
};
const FREE = { packName: "Free", items: [{ amount: 50, unit: "count" }] };
const TOP_UP = { packName: "Top-up", unit: "cents", items: [] };

/** The secret with which the demo signs Stripe's events. */
export const signingSecretOf = ({ endUserSecret }) =>
  `whsec_${createHash("sha256").update(`stripe ${endUserSecret}`).digest("hex")}`;

/** A user token like that of an integrator's sign-in: HS256, `sub` is the user id, valid for a day. */
export function userToken(endUserSecret, user) {
  return new SignJWT({})
    .setProtectedHeader({ alg: "HS256" })
    .setSubject(user)
    .setIssuedAt()
    .setExpirationTime("24h")
    .sign(new TextEncoder().encode(endUserSecret));
}

/** Calls Purser and returns the response's JSON. If it is not a success, throws an error with the response's text. */
async function call(url, method, path, { key, body, headers = {} } = {}) {
  const response = await fetch(url + path, {
    method,
    headers: {
      ...(key === undefined ? {} : { authorization: `Bearer ${key}` }),
      ...(body === undefined ? {} : { "content-type": "application/json" }),
      ...headers,
    },
    ...(body === undefined ? {} : { body: JSON.stringify(body) }),
  });
  const text = await response.text();
  if (!response.ok) throw new Error(`${method} ${path} answered ${response.status}: ${text}`);
  return JSON.parse(text);
}

/** Signs in to the dashboard, for what only its forms do. */
async function signIn(url, adminToken, name) {
  const post = async (path, fields, headers = {}) => {
    const response = await fetch(url + path, {
      method: "POST",
      redirect: "manual",
      headers,
      body: new URLSearchParams(fields),
    });
    if (response.status !== 303) throw new Error(`POST ${path} answered ${response.status}: ${await response.text()}`);
    return response;
  };
  const signedIn = await post("/admin/sign-in", { name, token: adminToken });
  const headers = {
    cookie: signedIn.headers
      .getSetCookie()
      .map((cookie) => cookie.split(";")[0])
      .join("; "),
  };
  return {
    read: async (path) => (await fetch(url + path, { method: "GET", headers })).text(),
    send: (path, page, fields) => {
      const [, token = ""] = /name="_form" value="([^"]+)"/.exec(page) ?? [];
      return post(path, { _form: token, ...fields }, headers);
    },
  };
}

async function makeApp(url, admin, { facts, once }) {
  const appId = await once("app", async () => {
    const { apps } = await admin("GET", "/apps");
    const existing = apps.find((app) => app.name === NAME && Date.parse(app.createdAt) >= facts.startedMs);
    return (existing ?? (await admin("POST", "/apps", { name: NAME }))).appId;
  });
  const at = `/apps/${appId}`;
  const keys = {};
  for (const mode of ["live", "test"]) {
    for (const kind of ["secret", "publishable"]) {
      const name = `${kind} ${mode}`;
      keys[`${kind === "secret" ? "sk" : "pk"}_${mode}`] = await once(`key ${name}`, async () => {
        // If a key was created but not recorded, it is lost, because it is shown only once.
        const lost = (await admin("GET", `${at}/keys`)).keys.filter((key) => key.name === name && !key.revokedAt);
        for (const { keyId } of lost) await admin("DELETE", `${at}/keys/${keyId}`);
        return (await admin("POST", `${at}/keys`, { kind, mode, name })).key;
      });
    }
  }
  const { endUserSecret } = facts;
  for (const mode of ["live", "test"]) {
    const setting = { type: "hs256", secret: endUserSecret };
    await once(`sign-in ${mode}`, () => admin("PUT", `${at}/end-user-auth`, { mode, setting }));
  }
  const stripe = { mode: "live", setting: { signingSecrets: [signingSecretOf(facts)] } };
  await once("stripe", () => admin("PUT", `${at}/stripe`, stripe));
  const pack = (body) =>
    once(`pack ${body.packName}`, async () => {
      const { packs } = await admin("GET", `${at}/packs`);
      const existing = packs.find(({ packName }) => packName === body.packName);
      return (existing ?? (await admin("POST", `${at}/packs`, body))).packId;
    });
  const limit = {
    mode: "live",
    name: "Messages a day",
    unit: "count",
    amount: 1_000,
    every: "day",
    timeZone: "Europe/Berlin",
    matches: [{ event: "chat.*" }],
  };
  await once("limit", async () => {
    const { limits } = await admin("GET", `${at}/usage-limits?mode=live`);
    return (limits[0] ?? (await admin("POST", `${at}/usage-limits`, limit))).limitId;
  });
  return {
    appId,
    keys,
    endUserSecret,
    packs: {
      starter: await pack(STARTER),
      topUp: await pack(TOP_UP),
      free: await pack(FREE),
      ...(await makePlans(url, admin, at, { facts, once })),
    },
  };
}

/** This id has the form of a device id, so a publishable key may link it to its user. */
const DEVICE = "0194685f-8a3c-7d11-9f2b-6c1d2e3f7d1f";

/** The same id for the same event of a seeding, so that a repeat is stored once. */
function uuidOf(run, index) {
  const hex = createHash("sha256").update(`${run} ${index}`).digest("hex");
  return `${hex.slice(0, 8)}-${hex.slice(8, 12)}-4${hex.slice(13, 16)}-8${hex.slice(17, 20)}-${hex.slice(20, 32)}`;
}

function analyticsEvents(run, startMs) {
  const pages = ["/", "/pricing", "/docs", "/chat", "/account"];
  const before = Array.from({ length: 40 }, (_, index) => ({
    event: "$pageview",
    distinct_id: DEVICE,
    timestamp: new Date(startMs + index * 60_000).toISOString(),
    properties: { $current_url: `https://lighthouse.example${pages[index % pages.length]}`, $browser: "Firefox" },
  }));
  const identify = {
    event: "$identify",
    distinct_id: PERSON,
    timestamp: new Date(startMs + 41 * 60_000).toISOString(),
    properties: {
      $anon_distinct_id: DEVICE,
      $set: { name: "Ada", plan: "starter" },
      $set_once: { first_seen_on: "/" },
    },
  };
  const after = Array.from({ length: 260 }, (_, index) => ({
    event: index % 4 === 0 ? "message sent" : "$pageview",
    distinct_id: PERSON,
    timestamp: new Date(startMs + 2 * DAY_MS + index * 3_600_000).toISOString(),
    properties: { $current_url: `https://lighthouse.example${pages[index % pages.length]}`, turn: index },
  }));
  return [...before, identify, ...after].map((event, index) => ({ uuid: uuidOf(run, index), ...event }));
}

function usageEvents(run, startMs) {
  return Array.from({ length: 300 }, (_, index) => ({
    eventId: `seed-${String(index).padStart(3, "0")}-${run}`,
    userId: PERSON,
    ...(index % 5 === 0
      ? { event: "transcribe", quantities: { seconds: 4 + (index % 7), cents: 0.6 } }
      : {
          event: "chat.completion",
          model: index % 3 === 0 ? "small-3" : "small-2",
          quantities: { tokens: 120 + index, cents: 0.036 },
        }),
    // The events reach up to now, so that the page of this week's usage shows some of them.
    occurredAt: new Date(startMs + 2 * DAY_MS + index * 5_180_000).toISOString(),
    properties: { conversation: `c${index % 12}` },
    onShortage: "partial",
  }));
}

async function seedPerson(url, { appId, keys }, { facts, once }) {
  const { run, startedMs } = facts;
  const startMs = startedMs - 20 * DAY_MS;
  const post = (path, body) => call(url, "POST", path, { key: keys.sk_live, body });
  const grant = { userId: PERSON, packId: "Starter", externalRef: "order-0001", notes: "first order" };
  await once("grant", () => post("/api/v1/credits/grant", grant));
  const events = usageEvents(run, startMs);
  for (let from = 0; from < events.length; from += 100) {
    await once(`usage from ${from}`, async () => {
      const { results } = await post("/api/v1/usage/events", events.slice(from, from + 100));
      const refused = results.find((result) => result.error !== undefined);
      if (refused !== undefined) throw new Error(`A seeded usage event was refused: ${JSON.stringify(refused)}`);
    });
  }
  const recurring = {
    recurringId: "rec_free-user_ada",
    userId: PERSON,
    packId: "Free",
    every: "month",
    timeZone: "Europe/Berlin",
  };
  await once("free tier", () => post("/api/v1/credits/recurring", recurring));
  const batch = { sent_at: new Date().toISOString(), batch: analyticsEvents(run, startMs) };
  await once("analytics", () => call(url, "POST", "/batch/", { body: { api_key: keys.pk_live, ...batch } }));
  await liveMonth(url, post, appId, signingSecretOf(facts), { facts, once });
  for (const [purpose, decision] of [
    ["analytics", "granted"],
    ["marketing", "granted"],
    ["marketing", "withdrawn"],
  ]) {
    const body = { distinctId: PERSON, purpose, decision, method: "banner", noticeVersion: "2026-01" };
    await once(`consent ${purpose} ${decision}`, () => post("/api/v1/consent", body));
  }
}

/** The demo's own values, stored next to the local database. Null if it was never seeded. */
export const readDemo = () => readJson(FILE);

/** The journal of an interrupted seeding in this database, or of a new one. */
function journalFor(apps) {
  const begin = () => ({
    run: randomBytes(4).toString("hex"),
    startedMs: Date.now(),
    endUserSecret: randomBytes(32).toString("hex"),
  });
  const journal = openJournal(JOURNAL, begin);
  const { app } = journal.done;
  if (app === undefined || apps.some(({ appId }) => appId === app)) return journal;
  journal.close();
  return openJournal(JOURNAL, begin);
}

/**
 * Seeds the demo once in each database, also if it was interrupted. After that it returns the same application and keys.
 */
export async function ensureDemo(url, adminToken) {
  const admin = (method, path, body) => call(url, method, `/api/v1/admin${path}`, { key: adminToken, body });
  const { apps } = await admin("GET", "/apps");
  const stored = readDemo();
  if (stored !== null && apps.some((app) => app.appId === stored.appId)) return stored;
  console.log(dim("Seeding a demonstration …"));
  const journal = journalFor(apps);
  const demo = await makeApp(url, admin, journal);
  await seedPerson(url, demo, journal);
  await writeNotes(demo.appId, await signIn(url, adminToken, "Ana"), journal);
  writeJson(FILE, demo);
  journal.close();
  return demo;
}
