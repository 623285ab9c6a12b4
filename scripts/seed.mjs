/** The demonstration that `npm start` creates: an application with its packs, and a person with stored data. */
import { createHash, randomBytes } from "node:crypto";
import { SignJWT } from "jose";
import { DAYS, freeTier, makePlans, monthMoments, usageOfMonth } from "./demo-month.mjs";
import { openJournal, readJson, writeJson } from "./local-state.mjs";
import { dim } from "./terminal.mjs";

const FILE = ".purser/demo.json";
const JOURNAL = ".purser/seeding.json";
const NAME = "Lighthouse";
const DAY_MS = 86_400_000;

/** The person with stored data. */
export const PERSON = "user_ada";
/** The user of the examples, who has nothing at first. */
export const USER = "user_grace";

const STARTER = {
  packName: "Starter",
  defaultExpiryDays: 365,
  items: [
    { amount: 100_000, unit: "tokens", matches: [{ event: "chat.*", model: "small-*" }], priority: 10 },
    { amount: 3_600, unit: "seconds", matches: [{ event: "transcribe" }], priority: 20 },
    { amount: 500, unit: "cents" },
  ],
};
const FREE = { packName: "Free", items: [{ amount: 50, unit: "count", matches: [{ event: "chat.free" }] }] };
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

/** Sends requests at the time of a clock, which scripts/month-worker.mjs reads. */
function openWorld(url, adminToken, clock) {
  const send = (path, init) => fetch(url + path, { ...init, headers: { ...init.headers, "x-now": String(clock.ms) } });
  /** Returns the response's JSON. If it is not a success, throws an error with the response's text. */
  const call = async (method, path, key, body) => {
    const headers = {
      ...(key && { authorization: `Bearer ${key}` }),
      ...(body && { "content-type": "application/json" }),
    };
    const response = await send(path, { method, headers, ...(body && { body: JSON.stringify(body) }) });
    const text = await response.text();
    if (!response.ok) throw new Error(`${method} ${path} answered ${response.status}: ${text}`);
    return JSON.parse(text);
  };
  const admin = (method, path, body) => call(method, `/api/v1/admin${path}`, adminToken, body);
  return { url, clock, send, call, admin };
}

/** Signs in to the dashboard, for what only its forms do. */
async function signIn(send, adminToken, name) {
  const post = async (path, fields, headers = {}) => {
    const init = { method: "POST", redirect: "manual", headers, body: new URLSearchParams(fields) };
    const response = await send(path, init);
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
    read: async (path) => (await send(path, { method: "GET", headers })).text(),
    send: (path, page, fields) => {
      const [, token = ""] = /name="_form" value="([^"]+)"/.exec(page) ?? [];
      return post(path, { _form: token, ...fields }, headers);
    },
  };
}

async function makeApp(world, { facts, once }) {
  const { admin } = world;
  const appId = await once("app", async () => {
    const { apps } = await admin("GET", "/apps");
    const existing = apps.find((app) => app.name === NAME && Date.parse(app.createdAt) === startMsOf(facts));
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
  return {
    appId,
    keys,
    endUserSecret,
    packs: {
      starter: await pack(STARTER),
      topUp: await pack(TOP_UP),
      free: await pack(FREE),
      ...(await makePlans(world, at, once)),
    },
  };
}

/** This id has the form of a device id, so a publishable key may link it to its user. */
const DEVICE = "0194685f-8a3c-7d11-9f2b-6c1d2e3f7d1f";
/** The day on which the person comes. */
const PERSON_DAY = DAYS - 20;

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
    timestamp: new Date(startMs + 2 * DAY_MS + index * 5_400_000).toISOString(),
    properties: { $current_url: `https://lighthouse.example${pages[index % pages.length]}`, turn: index },
  }));
  return [...before, identify, ...after].map((event, index) => ({ uuid: uuidOf(run, index), ...event }));
}

function usageOfPerson(run, startMs) {
  return Array.from({ length: 180 }, (_, index) => ({
    eventId: `${PERSON}-${index}-${run}`,
    userId: PERSON,
    ...(index % 5 === 0
      ? { event: "transcribe", quantities: { seconds: 4 + (index % 7), cents: 0.6 } }
      : {
          event: "chat.completion",
          model: index % 3 === 0 ? "small-3" : "small-2",
          quantities: { tokens: 120 + index, cents: 0.036 },
        }),
    // The events reach up to now, so that the page of this week's usage shows some of them.
    occurredAt: new Date(startMs + 2 * DAY_MS + index * 8_630_000).toISOString(),
    properties: { conversation: `c${index % 12}` },
    onShortage: "partial",
  }));
}

/** Returns lists of `size` entries, each with the time of its last one. */
function batchesOf(entries, size, timeOf) {
  const sorted = entries.toSorted((a, b) => timeOf(a) - timeOf(b));
  return Array.from({ length: Math.ceil(sorted.length / size) }, (_, index) => {
    const batch = sorted.slice(index * size, (index + 1) * size);
    return { atMs: timeOf(batch.at(-1)), batch };
  });
}

/** Why usage may be rejected: the credits or a limit are used up. The page of rejections shows it. */
const EXPECTED_REJECTIONS = ["insufficient_credits", "usage_limit_reached"];

/** Returns the usage of everybody, in small batches, as a backend would send it. */
function usageMoments(post, facts, personMs) {
  const events = [...usageOfPerson(facts.run, personMs), ...usageOfMonth(facts)];
  return batchesOf(events, 12, ({ occurredAt }) => Date.parse(occurredAt)).map(({ atMs, batch }, index) => ({
    ...{ atMs, name: `usage ${index}` },
    work: async () => {
      const { results } = await post("/api/v1/usage/events", batch);
      const failed = results.find(({ error }) => error !== undefined && !EXPECTED_REJECTIONS.includes(error.code));
      if (failed !== undefined) throw new Error(`A seeded usage event was rejected: ${JSON.stringify(failed)}`);
    },
  }));
}

/** Returns what happens to the person: an order, analytics, consent, a hold, and a refund. */
function personMoments({ call, clock }, post, { pk_live: key }, { run }, personMs) {
  const grant = { userId: PERSON, packId: "Starter", externalRef: "order-0001", notes: "first order" };
  const analytics = batchesOf(analyticsEvents(run, personMs), 41, ({ timestamp }) => Date.parse(timestamp));
  const consents = [
    [1, "analytics", "granted"],
    [2, "marketing", "granted"],
    [9, "marketing", "withdrawn"],
  ];
  const hold = { reservationId: `res_call-${run}`, userId: PERSON, event: "transcribe", quantities: { seconds: 600 } };
  const expiresInSeconds = 900;
  const commit = { eventId: `call-${run}`, quantities: { seconds: 431.5 } };
  const book = { eventId: `book-${run}`, userId: PERSON, event: "chat.completion", model: "small-3" };
  const refund = { userId: PERSON, externalRef: "order-0001", refundRef: `slow-${run}`, share: { part: 1, of: 10 } };
  const nowMs = personMs + (DAYS - PERSON_DAY) * DAY_MS;
  const minutesAgo = (minutes, name, work) => ({ atMs: nowMs - minutes * 60_000, name, work });
  return [
    { atMs: personMs, name: "order", work: () => post("/api/v1/credits/grant", grant) },
    { atMs: personMs, name: "free tier", work: () => post(...freeTier(PERSON)) },
    ...analytics.map(({ atMs, batch }, index) => ({
      ...{ atMs, name: `analytics ${index}` },
      work: () =>
        call("POST", "/batch/", undefined, { api_key: key, sent_at: new Date(clock.ms).toISOString(), batch }),
    })),
    ...consents.map(([days, purpose, decision]) => ({
      ...{ atMs: personMs + days * DAY_MS, name: `consent ${purpose} ${decision}` },
      work: () =>
        post("/api/v1/consent", { distinctId: PERSON, purpose, decision, method: "banner", noticeVersion: "2026-01" }),
    })),
    minutesAgo(190, "hold", () => post("/api/v1/usage/reservations", { ...hold, expiresInSeconds })),
    minutesAgo(182, "commit", () => post(`/api/v1/usage/reservations/${hold.reservationId}/commit`, commit)),
    minutesAgo(130, "refund of a tenth", () =>
      post("/api/v1/credits/refund", { ...refund, reason: "Slow for an hour" }),
    ),
    minutesAgo(70, "rejected book", () =>
      post("/api/v1/usage/events", [{ ...book, quantities: { count: 0, tokens: 400_000 } }]),
    ),
  ];
}

const startMsOf = ({ startedMs }) => startedMs - DAYS * DAY_MS;

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

/** Lets everything happen in the order of time, which began some weeks ago. */
async function liveMonth(world, adminToken, { appId, keys }, { facts, once }) {
  const startMs = startMsOf(facts);
  const post = (path, body) => world.call("POST", path, keys.sk_live, body);
  const personMs = startMs + PERSON_DAY * DAY_MS;
  const business = {
    ...{ appId, post, secret: signingSecretOf(facts) },
    signIn: (name) => signIn(world.send, adminToken, name),
  };
  const moments = [
    ...monthMoments(world, business, facts).map((moment) => ({ ...moment, atMs: startMs + moment.day * DAY_MS })),
    ...personMoments(world, post, keys, facts, personMs),
    ...usageMoments(post, facts, personMs),
  ];
  for (const { atMs, name, work } of moments.toSorted((a, b) => a.atMs - b.atMs)) {
    world.clock.ms = Math.floor(atMs);
    await once(name, work);
  }
}

/** The demonstration of an earlier start. Null if there is none, or if it is in another database. */
export async function findDemo(url, adminToken) {
  const demo = readDemo();
  const { apps } = await openWorld(url, adminToken, { ms: Date.now() }).admin("GET", "/apps");
  return apps.some(({ appId }) => appId === demo?.appId) ? demo : null;
}

/**
 * Seeds the demo through scripts/month-worker.mjs, once in each database, also if it was interrupted. After that it returns the
 * same application and keys.
 */
export async function ensureDemo(url, adminToken) {
  const found = await findDemo(url, adminToken);
  if (found !== null) return found;
  console.log(dim("Seeding a demonstration …"));
  const clock = { ms: Date.now() };
  const world = openWorld(url, adminToken, clock);
  const { apps } = await world.admin("GET", "/apps");
  const journal = journalFor(apps);
  clock.ms = startMsOf(journal.facts);
  const demo = await makeApp(world, journal);
  await liveMonth(world, adminToken, demo, journal);
  writeJson(FILE, demo);
  journal.close();
  return demo;
}
