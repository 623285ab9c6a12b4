/**
 * The cost of a call with a far database, cold and warm: trips one after another, and milliseconds. It is a part of
 * `npm run bench`. `npm run bench:far` runs only this part, in a minute.
 */
import { SignJWT } from "jose";
import { ADMIN_TOKEN, bundle, median, migrate, serve, table } from "./serve.ts";
import type { Spent } from "./workers/measured.ts";

/** The round trips to a database on another continent, and to a replica on the same one. */
const PRIMARY_MS = 100;
const REPLICA_MS = 10;
/** Each operation is measured in so many isolates. */
const ROUNDS = Number(process.env.BENCH_ROUNDS ?? 3);
const CREDITS = "/api/v1/credits";
const USAGE = "/api/v1/usage";
const END_USER_SECRET = "end-user-secret-of-the-benchmark";

interface FarRequest {
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

/** Makes a request. `tag` distinguishes the requests for one user. */
type Make = (scene: Scene, tag: string) => FarRequest;

interface FarOperation {
  readonly request: Make;
  /** Prepares the call. */
  readonly before?: Make;
  /** The write that makes an isolate warm: `before` if there is one, otherwise a usage event. */
  readonly warming?: Make;
}

const use = { event: "chat.done", quantities: { count: 0, tokens: 1 } };
const reservationId = ({ userId }: Scene, tag: string) => `res_${userId}_${tag}`;
const settle =
  (how: "commit" | "release", body: (scene: Scene, tag: string) => object): Make =>
  (scene, tag) => ({ path: `${USAGE}/reservations/${reservationId(scene, tag)}/${how}`, body: body(scene, tag) });

const usageEvent: Make = ({ userId }, tag) => ({
  path: `${USAGE}/events`,
  body: { ...use, userId, eventId: `${userId} ${tag}` },
});
const reserve: Make = (scene, tag) => ({
  path: `${USAGE}/reservations`,
  body: { ...use, userId: scene.userId, reservationId: reservationId(scene, tag) },
});
const grant: Make = ({ userId }, tag) => ({
  path: `${CREDITS}/grant`,
  body: { userId, packId: "Bench", externalRef: `${userId} ${tag}` },
});
const grantAgain: Make = (scene) => grant(scene, "again");
const capture: Make = ({ userId, publishableKey }, tag) => {
  const properties = (index: number) => ({ tag, index });
  const batch = Array.from({ length: 10 }, (_, n) => ({
    event: "seen",
    distinct_id: userId,
    properties: properties(n),
  }));
  return { path: "/batch/", body: { api_key: publishableKey, batch } };
};

const OPERATIONS: Readonly<Record<string, FarOperation>> = {
  "list, publishable key": {
    request: ({ userId, publishableKey, userToken }) => ({
      path: `${CREDITS}?userId=${userId}`,
      headers: { authorization: `Bearer ${publishableKey}`, "x-user-token": userToken },
    }),
  },
  list: { request: ({ userId }) => ({ path: `${CREDITS}?userId=${userId}` }) },
  "history, 50": { request: ({ userId }) => ({ path: `${CREDITS}/history?userId=${userId}&limit=50` }) },
  plan: { request: ({ userId }) => ({ path: `${CREDITS}/plan`, body: { ...use, userId } }) },
  totals: { request: ({ userId }) => ({ path: `${USAGE}?userId=${userId}` }) },
  "grant, 1 item": { request: grant },
  "grant, replayed": { before: grantAgain, request: grantAgain },
  "usage event": { request: usageEvent },
  "usage events, 20 of one user": {
    request: (scene, tag) => ({
      path: `${USAGE}/events`,
      body: Array.from({ length: 20 }, (_, index) => usageEvent(scene, `${tag} ${index}`).body),
    }),
  },
  reserve: { request: reserve },
  commit: {
    before: reserve,
    request: settle("commit", ({ userId }, tag) => ({ eventId: `${userId} ${tag}`, quantities: use.quantities })),
  },
  release: { before: reserve, request: settle("release", () => ({})) },
  "create a link": { request: ({ userId }) => ({ path: "/api/v1/export-person", body: { distinctId: userId } }) },
  "capture, 10 events of a known person": { request: capture, warming: capture },
};

/** Sends a request and returns its body. Any status but 200 ends the run. */
async function send(url: string, key: string, { path, body, headers }: FarRequest, method = body ? "POST" : "GET") {
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

type Figure = Spent & { readonly ms: number };

async function figureOf(url: string, key: string, request: FarRequest): Promise<Figure> {
  const startedMs = performance.now();
  await send(url, key, request);
  const ms = performance.now() - startedMs;
  return { ms, ...((await (await fetch(`${url}/bench/spent`)).json()) as Spent) };
}

/** One operation in one isolate: its first request, and the same again after a write for the user. */
async function measure(
  nearUrl: string,
  url: string,
  app: Awaited<ReturnType<typeof makeApp>>,
  operation: FarOperation,
) {
  const { before, request, warming = before ?? usageEvent } = operation;
  const userId = new URL(url).port;
  const scene = { userId, publishableKey: app.publishableKey, userToken: await userTokenOf(userId) };
  // Another isolate, with a near database, prepares it.
  const prepare = (made: FarRequest) => send(nearUrl, app.secretKey, made);
  await prepare(grant(scene, "first"));
  await prepare(capture(scene, "first"));
  if (before !== undefined) await prepare(before(scene, "cold"));
  const cold = await figureOf(url, app.secretKey, request(scene, "cold"));
  await figureOf(url, app.secretKey, warming(scene, warming === before ? "warm" : "warming"));
  const warm = await figureOf(url, app.secretKey, request(scene, "warm"));
  return { cold, warm };
}

/** The most trips, with those to the primary in brackets, and the median of the times. */
function summary(figures: readonly Figure[]): string {
  const most = (field: "inSequence" | "primary") => Math.max(...figures.map((figure) => figure[field]));
  return `${most("inSequence")} (${most("primary")}), ${median(figures.map(({ ms }) => ms)).toFixed(0)} ms`;
}

/** Measures every operation, each in isolates of its own. Returns a table. */
export async function measureFar(): Promise<string> {
  const code = await bundle("bench/workers/measured.ts");
  const near = await bundle("src/index.ts");
  const isolates = Array.from({ length: Object.keys(OPERATIONS).length * ROUNDS }, () => code);
  const bindings = { PRIMARY_MS: `${PRIMARY_MS}`, REPLICA_MS: `${REPLICA_MS}` };
  const served = await serve([near, ...isolates], { bindings });
  try {
    await migrate(served.db);
    const [nearUrl = "", ...urls] = served.urls;
    const app = await makeApp(nearUrl);
    const rows: string[][] = [];
    for (const [name, operation] of Object.entries(OPERATIONS)) {
      const measured = [];
      for (const url of urls.splice(0, ROUNDS)) measured.push(await measure(nearUrl, url, app, operation));
      rows.push([name, summary(measured.map(({ cold }) => cold)), summary(measured.map(({ warm }) => warm))]);
    }
    return table(["Operation", "Cold: trips (to the primary), time", "Warm"], rows);
  } finally {
    await served.close();
  }
}

if (import.meta.main) console.log(await measureFar());
