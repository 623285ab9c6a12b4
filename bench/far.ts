/**
 * The cost of a call with a far database, cold and warm: trips one after another, and milliseconds. It is a part of
 * `npm run bench`. `npm run bench:far` runs only this part, in a minute.
 */
import { mkdtempSync, rmSync } from "node:fs";
import { tmpdir } from "node:os";
import { join } from "node:path";
import { SignJWT } from "jose";
import type { Trips } from "../test/support/far-d1.ts";
import { bundle } from "./bundle.ts";
import { DISTANCES } from "./distances.ts";
import { spread } from "./load.ts";
import { ADMIN_TOKEN, migrate, serveIsolates } from "./serve.ts";
import { table, verdict } from "./table.ts";

interface Figure {
  readonly trips: Trips;
  readonly ms: number;
}

/** The most trips, cold and warm, and where they go. */
interface Limit {
  readonly cold: number;
  readonly warm: number;
  readonly to: "primary" | "replica";
}

export interface FarRow {
  readonly operation: string;
  readonly limit: Limit;
  /** For an isolate that has served no request. */
  readonly cold: Figure;
  /** For an isolate that has just written for this user. */
  readonly warm: Figure;
}

interface Request {
  readonly path: string;
  readonly body?: object;
  readonly headers?: Readonly<Record<string, string>>;
}

/** The user of one measurement, and its application. */
interface Scene {
  readonly userId: string;
  readonly publishableKey: string;
  readonly userToken: string;
}

interface Operation {
  readonly name: string;
  readonly limit: Limit;
  /** Prepares the call. `tag` distinguishes the calls on one user. */
  readonly before?: (scene: Scene, tag: string) => Request;
  readonly request: (scene: Scene, tag: string) => Request;
  /** The write that makes an isolate warm: `before` if there is one, otherwise a usage event. */
  readonly warming?: (scene: Scene, tag: string) => Request;
}

const ROUNDS = 3;
const CREDITS = "/api/v1/credits";
const USAGE = "/api/v1/usage";
const END_USER_SECRET = "end-user-secret-of-the-benchmark";

const reading: Limit = { cold: 1, warm: 1, to: "replica" };
const writing = (cold: number, warm: number): Limit => ({ cold, warm, to: "primary" });
const use = { event: "chat.done", quantities: { count: 0, tokens: 1 } };
const reservationId = ({ userId }: Scene, tag: string) => `res_${userId}_${tag}`;

const usageEvent = ({ userId }: Scene, tag: string): Request => ({
  path: `${USAGE}/events`,
  body: { ...use, userId, eventId: `${userId} ${tag}` },
});
const reserve = (scene: Scene, tag: string): Request => ({
  path: `${USAGE}/reservations`,
  body: { ...use, userId: scene.userId, reservationId: reservationId(scene, tag) },
});
const grant = ({ userId }: Scene, tag: string): Request => ({
  path: `${CREDITS}/grant`,
  body: { userId, packId: "Bench", externalRef: `${userId} ${tag}` },
});
const capture = ({ userId, publishableKey }: Scene, tag: string): Request => {
  const batch = Array.from({ length: 10 }, (_, index) => ({
    event: "seen",
    distinct_id: userId,
    properties: { tag, index },
  }));
  return { path: "/batch/", body: { api_key: publishableKey, batch } };
};

const mint = ({ userId }: Scene): Request => ({ path: "/api/v1/export-person", body: { distinctId: userId } });

const operations: readonly Operation[] = [
  {
    name: "list, publishable key",
    limit: reading,
    request: ({ userId, publishableKey, userToken }) => ({
      path: `${CREDITS}?userId=${userId}`,
      headers: { authorization: `Bearer ${publishableKey}`, "x-user-token": userToken },
    }),
  },
  { name: "list", limit: reading, request: ({ userId }) => ({ path: `${CREDITS}?userId=${userId}` }) },
  {
    name: "history, 50",
    limit: reading,
    request: ({ userId }) => ({ path: `${CREDITS}/history?userId=${userId}&limit=50` }),
  },
  { name: "plan", limit: reading, request: ({ userId }) => ({ path: `${CREDITS}/plan`, body: { ...use, userId } }) },
  { name: "totals", limit: reading, request: ({ userId }) => ({ path: `${USAGE}?userId=${userId}` }) },
  { name: "grant, 1 item", limit: writing(2, 2), request: grant },
  {
    name: "grant, replayed",
    limit: writing(1, 1),
    before: (scene) => grant(scene, "again"),
    request: (scene) => grant(scene, "again"),
  },
  { name: "usage event", limit: writing(2, 1), request: usageEvent },
  {
    name: "usage events, 20 of one user",
    limit: writing(2, 1),
    request: (scene, tag) => ({
      path: `${USAGE}/events`,
      body: Array.from({ length: 20 }, (_, index) => usageEvent(scene, `${tag} ${index}`).body),
    }),
  },
  { name: "reserve", limit: writing(2, 1), request: reserve },
  {
    name: "commit",
    limit: writing(2, 1),
    before: reserve,
    request: (scene, tag) => ({
      path: `${USAGE}/reservations/${reservationId(scene, tag)}/commit`,
      body: { eventId: `${scene.userId} ${tag}`, quantities: use.quantities },
    }),
  },
  {
    name: "release",
    limit: writing(2, 1),
    before: reserve,
    request: (scene, tag) => ({ path: `${USAGE}/reservations/${reservationId(scene, tag)}/release`, body: {} }),
  },
  { name: "mint a link", limit: writing(1, 1), request: mint },
  { name: "capture, 10 events of a known person", limit: writing(2, 1), request: capture, warming: capture },
];

/** Sends a request and returns its body. Any status but 200 ends the run. */
async function send(url: string, key: string, { path, body, headers }: Request, method = body ? "POST" : "GET") {
  const response = await fetch(url + path, {
    method,
    headers: { authorization: `Bearer ${key}`, "content-type": "application/json", ...headers },
    ...(body === undefined ? {} : { body: JSON.stringify(body) }),
  });
  const text = await response.text();
  if (response.status !== 200) throw new Error(`${method} ${path}: ${response.status} ${text}`);
  return JSON.parse(text);
}

/** An application with both keys, an end-user setting and a pack of one item. */
async function makeApp(url: string) {
  const admin = (path: string, body: object, method?: string) =>
    send(url, ADMIN_TOKEN, { path: `/api/v1/admin/apps${path}`, body }, method);
  const { appId } = await admin("", { name: "Bench" });
  const keyOf = async (kind: string): Promise<string> => (await admin(`/${appId}/keys`, { kind, mode: "live" })).key;
  const setting = { type: "hs256", secret: END_USER_SECRET };
  await admin(`/${appId}/end-user-auth`, { mode: "live", setting }, "PUT");
  await admin(`/${appId}/packs`, { packName: "Bench", items: [{ amount: 1_000_000, unit: "tokens" }] });
  return { secretKey: await keyOf("secret"), publishableKey: await keyOf("publishable") };
}

const userTokenOf = (userId: string): Promise<string> =>
  new SignJWT({})
    .setProtectedHeader({ alg: "HS256" })
    .setSubject(userId)
    .setExpirationTime("1h")
    .sign(new TextEncoder().encode(END_USER_SECRET));

async function figureOf(url: string, key: string, request: Request): Promise<Figure> {
  const startedMs = performance.now();
  await send(url, key, request);
  const ms = performance.now() - startedMs;
  return { ms, trips: (await (await fetch(`${url}/bench/trips`)).json()) as Trips };
}

/** One operation in one isolate: its first request, and the same again after a write for the user. */
async function measure(nearUrl: string, url: string, app: Awaited<ReturnType<typeof makeApp>>, operation: Operation) {
  const { before, request, warming = before ?? usageEvent } = operation;
  const userId = new URL(url).port;
  const scene = { userId, publishableKey: app.publishableKey, userToken: await userTokenOf(userId) };
  // Another isolate, with a near database, prepares it.
  const prepare = (made: Request) => send(nearUrl, app.secretKey, made);
  await prepare(grant(scene, "first"));
  await prepare(capture(scene, "first"));
  if (before !== undefined) await prepare(before(scene, "cold"));
  const cold = await figureOf(url, app.secretKey, request(scene, "cold"));
  await figureOf(url, app.secretKey, warming(scene, warming === before ? "warm" : "warming"));
  const warm = await figureOf(url, app.secretKey, request(scene, "warm"));
  return { cold, warm };
}

/** The most trips, and the median of the times. */
function summary(figures: readonly Figure[]): Figure {
  const most = (field: keyof Trips) => Math.max(...figures.map(({ trips }) => trips[field]));
  return {
    trips: { inSequence: most("inSequence"), primary: most("primary"), replica: most("replica") },
    ms: spread(figures.map(({ ms }) => ms)).median,
  };
}

/** Every operation, each in isolates of its own. */
export async function measureFar(directory: string): Promise<FarRow[]> {
  const [near = "", far = ""] = await Promise.all(["src/index.ts", "bench/workers/far.ts"].map(bundle));
  const isolates = Array.from({ length: operations.length * ROUNDS }, () => far);
  const served = await serveIsolates([near, ...isolates], directory);
  try {
    await migrate(served.db);
    const [nearUrl = "", ...urls] = served.urls;
    const app = await makeApp(nearUrl);
    const rows: FarRow[] = [];
    for (const operation of operations) {
      const measured = [];
      for (const url of urls.splice(0, ROUNDS)) measured.push(await measure(nearUrl, url, app, operation));
      rows.push({
        operation: operation.name,
        limit: operation.limit,
        cold: summary(measured.map(({ cold }) => cold)),
        warm: summary(measured.map(({ warm }) => warm)),
      });
    }
    return rows;
  } finally {
    await served.close();
  }
}

const isWithin = ({ trips }: Figure, most: number, { to }: Limit): boolean =>
  trips.inSequence <= most && (to === "primary" || trips.primary === 0);

/** The section of RESULTS.md. */
export function farTable(rows: readonly FarRow[]): string {
  const tripsOf = ({ inSequence, primary, replica }: Trips) =>
    `${inSequence} (${[primary > 0 ? `${primary} far` : "", replica > 0 ? `${replica} near` : ""].filter(Boolean).join(", ")})`;
  return table(
    ["Operation", "Trips cold", "At most", "ms cold", "Trips warm", "At most", "ms warm", "What distance asks", "Kept"],
    rows.map(({ operation, limit, cold, warm }) => {
      const distanceMs = limit.to === "primary" ? DISTANCES.primaryMs : DISTANCES.replicaMs;
      const asked = [limit.cold * distanceMs, limit.warm * distanceMs];
      return [
        operation,
        tripsOf(cold.trips),
        String(limit.cold),
        cold.ms.toFixed(0),
        tripsOf(warm.trips),
        String(limit.warm),
        warm.ms.toFixed(0),
        `${[...new Set(asked)].join(", ")} ms`,
        verdict(isWithin(cold, limit.cold, limit) && isWithin(warm, limit.warm, limit)),
      ];
    }),
  );
}

if (import.meta.main) {
  const directory = mkdtempSync(join(tmpdir(), "purser-far-"));
  try {
    console.log(farTable(await measureFar(directory)));
  } finally {
    rmSync(directory, { recursive: true, force: true });
  }
}
