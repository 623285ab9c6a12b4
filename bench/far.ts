/**
 * The cost of a call with a far database, cold and warm: trips one after another, and milliseconds. It is a part of
 * `npm run bench`. `npm run bench:far` runs only this part, in a minute.
 */
import { SignJWT } from "jose";
import { median, table } from "./figures.ts";
import { ADMIN_TOKEN, APP_ID, bundle, type Call, call, PUBLISHABLE_KEY, prepare, serve, spentOf } from "./serve.ts";

/** The round trips to a database on another continent, and to a replica on the same one. */
const DISTANCES = { PRIMARY_MS: "100", REPLICA_MS: "10" };
/** Each operation is measured in so many isolates. */
const ROUNDS = Number(process.env.BENCH_ROUNDS ?? 3);
const CREDITS = "/api/v1/credits";
const USAGE = "/api/v1/usage";
const END_USER_SECRET = "end-user-secret-of-the-benchmark";

/** The user of one measurement. */
interface Scene {
  readonly userId: string;
  readonly userToken: string;
}

/** Makes a request. `tag` distinguishes the requests for one user. */
type Make = (scene: Scene, tag: string) => Call;

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
  body: { userId, packId: "tokens", externalRef: `${userId} ${tag}` },
});
const grantAgain: Make = (scene) => grant(scene, "again");
const capture: Make = ({ userId }, tag) => {
  const batch = [...Array(10).keys()].map((index) => ({
    ...{ event: "seen", distinct_id: userId, properties: { tag, index } },
  }));
  return { path: "/batch/", body: { api_key: PUBLISHABLE_KEY, batch } };
};

const OPERATIONS: Readonly<Record<string, FarOperation>> = {
  "list, publishable key": {
    request: ({ userId, userToken }) => ({
      ...{ path: `${CREDITS}?userId=${userId}`, key: PUBLISHABLE_KEY, headers: { "x-user-token": userToken } },
    }),
  },
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

function userTokenOf(sub: string): Promise<string> {
  const token = new SignJWT({ sub, exp: Math.ceil(Date.now() / 1_000) + 3_600 }).setProtectedHeader({ alg: "HS256" });
  return token.sign(new TextEncoder().encode(END_USER_SECRET));
}

async function figureOf(url: string, request: Call) {
  const startedMs = performance.now();
  await call(url, request);
  const ms = performance.now() - startedMs;
  return { ms, ...(await spentOf(url)) };
}
type Figure = Awaited<ReturnType<typeof figureOf>>;

/** One operation in one isolate: its first request, and the same again after a write for the user. */
async function measure(nearUrl: string, url: string, operation: FarOperation) {
  const { before, request, warming = before ?? usageEvent } = operation;
  const userId = new URL(url).port;
  const scene = { userId, userToken: await userTokenOf(userId) };
  // Another isolate, with a near database, prepares it.
  for (const make of [grant, capture]) await call(nearUrl, make(scene, "first"));
  if (before !== undefined) await call(nearUrl, before(scene, "cold"));
  const cold = await figureOf(url, request(scene, "cold"));
  await figureOf(url, warming(scene, warming === before ? "warm" : "warming"));
  return { cold, warm: await figureOf(url, request(scene, "warm")) };
}

/** The most trips, with those to the primary in brackets, and the median of the times. */
function summary(figures: readonly Figure[]): string {
  const most = (field: "inSequence" | "primary") => Math.max(...figures.map((figure) => figure[field]));
  return `${most("inSequence")} (${most("primary")}), ${median(figures.map(({ ms }) => ms)).toFixed(0)} ms`;
}

/** Measures every operation, each in isolates of its own. Returns a table. */
export async function measureFar(): Promise<string> {
  const [near, code] = [await bundle("src/index.ts"), await bundle("bench/workers/measured.ts")];
  const isolates = Array(Object.keys(OPERATIONS).length * ROUNDS).fill(code);
  const served = await serve([near, ...isolates], { bindings: DISTANCES });
  try {
    await prepare(served.db);
    const [nearUrl = "", ...urls] = served.urls;
    const body = { mode: "live", setting: { type: "hs256", secret: END_USER_SECRET } };
    const path = `/api/v1/admin/apps/${APP_ID}/end-user-auth`;
    await call(nearUrl, { path, body, method: "PUT", key: ADMIN_TOKEN });
    const rows: string[][] = [];
    for (const [name, operation] of Object.entries(OPERATIONS)) {
      const measured = [];
      for (const url of urls.splice(0, ROUNDS)) measured.push(await measure(nearUrl, url, operation));
      rows.push([name, summary(measured.map(({ cold }) => cold)), summary(measured.map(({ warm }) => warm))]);
    }
    return table(["Operation", "Cold: trips (to the primary), time", "Warm"], rows);
  } finally {
    await served.close();
  }
}

if (import.meta.main) console.log(await measureFar());
