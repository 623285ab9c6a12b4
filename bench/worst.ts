/**
 * `npm run bench:worst`: requests of the worst shapes, each in its own workerd. CPU is measured with 128 MB of heap, as on the
 * platform, and memory in a heap so small that it holds little garbage. Prints each as it is measured, then the ten that take most CPU
 * and all beyond the bounds. Fails when a request exceeds its bounds, is answered 500 or ends its isolate. With a regular expression, it
 * sends only the shapes whose names match. With `--cpu`, it does not measure memory, which takes most of the time.
 */
import { parseArgs } from "node:util";
import { sealStripeSetting } from "../src/payments/stripe-setting.ts";
import { readSettings } from "../src/settings.ts";
import { entriesSql, liveBalancesSql } from "../test/support/seed.ts";
import { machine, table } from "./figures.ts";
import { APP_ID, bundle, PACK_ID, PUBLISHABLE_KEY, prepare, runAll, SETTINGS_SECRET, serve } from "./serve.ts";
import { captureShapes, MIB, type Shape, times, unknownShapes, utf8 } from "./worst-captures.ts";
import { everyRoute, formShapes, heavyBodies, heavyReads, SESSION_ID, SIGNING_SECRET } from "./worst-routes.ts";

const CPU_SECONDS_MAX = 0.25;
/**
 * A machine that needs long to unpack and parse a body also needs long for the rest. So a request may take this many times the floor:
 * the CPU of unpacking and parsing its body alone, measured in the same isolate.
 */
const FLOORS_MAX = 3;
/** No request may take more, however long its floor is. */
const ANY_CPU_SECONDS_MAX = 1;
const BYTES_MAX = 40 * MIB;
const {
  values: { cpu: isCpuOnly },
  positionals: [pattern = ""],
} = parseArgs({ options: { cpu: { type: "boolean", default: false } }, allowPositionals: true });
const PLATFORM = "--max-old-space-size=128";
/** Heaps in MB. Memory is measured in the first one in which a request survives. */
const SMALL_HEAPS = [16, 20, 24, 32, 48, 64, 96, 128];

async function send(url: string, { path, method = "POST", headers = {}, body, makeBody }: Omit<Shape, "name">) {
  // A Buffer is a part of a larger memory, so its bytes are copied.
  const content = method === "GET" ? {} : { body: new Uint8Array(makeBody?.() ?? body) };
  const response = await fetch(url + path, { method, headers, ...content }).catch(() => null);
  await response?.arrayBuffer().catch(() => null);
  // No response means that the isolate ended.
  return response?.status ?? null;
}

const script = await bundle("bench/workers/worst.ts");

interface Figure {
  readonly shape: Shape;
  readonly status: number | null;
  readonly floorSeconds: number;
  readonly cpuSeconds: number;
  readonly bytes: number;
}

async function measureIn(v8Flags: string, d1Url: string, shape: Shape, hasFloor = true): Promise<Figure> {
  const served = await serve([script], { v8Flags, bindings: { D1_URL: d1Url } });
  const [url = ""] = served.urls;
  try {
    // The first request of an isolate creates the schemas and statements.
    const first = `{"api_key":"${PUBLISHABLE_KEY}","batch":[{"event":"e","distinct_id":"w"}]}`;
    await send(url, { path: "/batch/", body: utf8(first) });
    for (const body of shape.before ?? []) await send(url, { ...shape, body });
    const floorBefore = served.cpuSeconds();
    const floor = hasFloor ? await send(url, { ...shape, path: "/bench/floor", method: "POST", headers: {} }) : 200;
    // `JSON.parse` alone ends the isolate by some bodies, such as millions of levels, which Purser does not parse.
    if (floor === null) return await measureIn(v8Flags, d1Url, shape, false);
    const cpuBefore = served.cpuSeconds();
    const floorSeconds = cpuBefore - floorBefore;
    const bytesBefore = served.memoryBytes("VmRSS");
    served.resetPeak();
    const status = await send(url, shape);
    if (status === null) return { shape, status, floorSeconds, cpuSeconds: Infinity, bytes: Infinity };
    const bytes = Math.max(0, served.memoryBytes("VmHWM") - bytesBefore - (shape.unpackedBytes ?? shape.body.length));
    return { shape, status, floorSeconds, cpuSeconds: served.cpuSeconds() - cpuBefore, bytes };
  } finally {
    await served.close();
  }
}

async function measure(d1Url: string, shape: Shape): Promise<Figure> {
  const figure = await measureIn(PLATFORM, d1Url, shape);
  // The heap is large, so that it holds garbage.
  if (isCpuOnly) return { ...figure, bytes: 0 };
  let bytes = Infinity;
  for (const megabytes of SMALL_HEAPS) {
    const flags = `--max-old-space-size=${megabytes} --max-semi-space-size=1`;
    if (bytes === Infinity) ({ bytes } = await measureIn(flags, d1Url, shape));
  }
  return { ...figure, bytes };
}

/** SQL: users and people with large data, a setting of Stripe, and a session of the dashboard. */
async function largeStates(): Promise<string[]> {
  const of = (userId: string) => ({ environmentId: 1, userId });
  const rules = JSON.stringify(times(20, (n) => ({ event: `chat.${n}*${"a*".repeat(20)}#*` })));
  const prices = [{ price: "price_1", packId: PACK_ID, expires: "pack" as const }];
  const stripe = await sealStripeSetting(
    { settings: readSettings({ SETTINGS_SECRET }) },
    { appId: APP_ID, mode: "live" },
    { signingSecrets: [SIGNING_SECRET], currency: "usd", prices },
  );
  return [
    ...liveBalancesSql(of("heavy"), 1_000, rules),
    ...liveBalancesSql(of("many balances"), 10_000),
    ...liveBalancesSql(of("whale"), 36_000),
    ...liveBalancesSql(of("refunded"), 1),
    ...liveBalancesSql(of("long"), 200),
    ...entriesSql(of("long"), 200, 50),
    ...times(500, (n) => liveBalancesSql(of(`user ${n}`), 20)).flat(),
    `INSERT INTO stripe_settings (environment_id, setting) VALUES (1, '${stripe}')`,
    `INSERT INTO dashboard_sessions (id, actor, ends_at_ms) VALUES ('${SESSION_ID}', 'bench', 9000000000000)`,
    // All shapes together send more than one id may send in a day (L3).
    `UPDATE environments SET analytics_limits = '{"eventsADay":1e9,"bytesADay":1e12,"eventsADayOfOneId":1e9,"bytesADayOfOneId":1e12}'`,
    `INSERT INTO distinct_ids (environment_id, distinct_id, is_device_form, is_sender, first_seen_at_ms, last_seen_at_ms)
     VALUES (1, 'many', 0, 1, 1, 1)`,
    `INSERT INTO distinct_ids (environment_id, distinct_id, is_device_form, first_seen_at_ms, last_seen_at_ms, claimed_by,
       claimed_via, claimed_at_ms, claim_is_verified)
     WITH RECURSIVE n (i) AS (SELECT 1 UNION ALL SELECT i + 1 FROM n WHERE i < 9999)
     SELECT 1, 'id ' || i, 0, 1, 1, 'many', 'alias', 1, 1 FROM n`,
    `INSERT INTO distinct_ids (environment_id, distinct_id, is_device_form, is_sender, first_seen_at_ms, last_seen_at_ms,
       event_count, event_bytes) VALUES (1, 'large', 0, 1, 1, 1, 30, 7650330)`,
    `INSERT INTO analytics_events (environment_id, distinct_id, seq, uuid, event, timestamp_ms, received_at_ms, properties)
     WITH RECURSIVE n (i) AS (SELECT 1 UNION ALL SELECT i + 1 FROM n WHERE i < 30)
     SELECT 1, 'large', i, 'large ' || i, 'seen', 1, 1, '{"a":"' || replace(hex(zeroblob(127500)), '0', 'x') || '"}' FROM n`,
  ];
}

/** The CPU that a request may take. A shape's own bound, such as that of an unknown key, does not depend on the floor. */
const cpuSecondsMax = ({ shape, floorSeconds }: Figure) =>
  shape.cpuSecondsMax ?? Math.min(Math.max(CPU_SECONDS_MAX, FLOORS_MAX * floorSeconds), ANY_CPU_SECONDS_MAX);

const isWithin = (figure: Figure) =>
  figure.status !== 500 &&
  figure.cpuSeconds <= cpuSecondsMax(figure) &&
  figure.bytes <= (figure.shape.bytesMax ?? BYTES_MAX);

const d1 = await serve([await bundle("bench/workers/d1-server.ts")]);
const figures: Figure[] = [];
try {
  await prepare(d1.db);
  await runAll(d1.db, await largeStates());
  const asked = new RegExp(pattern);
  const all = [captureShapes, unknownShapes, heavyReads, heavyBodies, everyRoute, formShapes].flatMap((make) => make());
  for (const shape of all.filter(({ name }) => asked.test(name))) {
    const figure = await measure(d1.urls[0] ?? "", shape);
    const cpu = `${figure.cpuSeconds.toFixed(2)} of ${cpuSecondsMax(figure).toFixed(2)} s`;
    console.error(`${cpu}, ${(figure.bytes / MIB).toFixed(0)} MiB: ${shape.name}`);
    figures.push(figure);
  }
} finally {
  await d1.close();
}

const worst = figures.toSorted((a, b) => b.cpuSeconds - a.cpuSeconds);
const shown = [...worst.slice(0, 10), ...worst.slice(10).filter((figure) => !isWithin(figure))];
const rows = shown.map((figure) => [
  ...[figure.shape.name, `${figure.status ?? "the isolate ended"}`, `${figure.cpuSeconds.toFixed(2)} s`],
  `${cpuSecondsMax(figure).toFixed(2)} s`,
  ...[`${(figure.bytes / MIB).toFixed(0)} MiB`, isWithin(figure) ? "yes" : "**no**"],
]);
console.log(table(["Request", "Response", "CPU", "Bound", "Memory besides the body", "Within the bounds"], rows));
const broken = figures.filter((figure) => !isWithin(figure)).length;
console.log(`${figures.length} shapes, ${broken} beyond their bounds. ${machine()}`);
if (broken > 0) process.exitCode = 1;
