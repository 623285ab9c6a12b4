/**
 * Requests of the worst shapes, each in a workerd of its own. CPU is measured in the 128 MB of heap that the platform gives,
 * memory in so small a heap that it holds little garbage. Prints the ten that take most CPU, and all that are beyond the bounds.
 * Fails when one takes more than a second of CPU (a tenth where nobody vouches for it), or 40 MB beside its body (a list of very many balances: 80), is answered 500, or when its isolate dies. With an argument: only
 * the shapes whose names match it.
 */
import { createHash, createHmac } from "node:crypto";
import { readFileSync, writeFileSync } from "node:fs";
import { loadavg } from "node:os";
import { convertV4MiniflareOptions, Miniflare } from "miniflare";
import { writeKey } from "../src/auth/key.ts";
import { sealStripeSetting } from "../src/payments/offers.ts";
import { readSettings } from "../src/settings.ts";
import { entriesSql, liveBalancesSql } from "../test/support/seed.ts";
import { APP_ID } from "./app-id.ts";
import { bundle } from "./bundle.ts";
import { machine } from "./report.ts";
import { writeSection } from "./results.ts";
import { ADMIN_TOKEN, prepare, runAll, SECRET_KEY, workerds } from "./serve.ts";
import { table, verdict } from "./table.ts";
import { arrivalShapes } from "./worst-arrivals.ts";
import { formShapes } from "./worst-forms.ts";
import { everyRoute, heavyBodies, heavyReads, ofWhale } from "./worst-routes.ts";
import { captureShapes, captureV1Shapes, manyIdShapes, type Shape, times } from "./worst-shapes.ts";

const CPU_SECONDS_MAX = 1;
const BYTES_MAX = 40 * 1024 * 1024;
const PLATFORM = "--max-old-space-size=128";
/** The first in which a request survives: what is beyond it is garbage, of which a larger heap would hold more. */
const SMALL = [16, 20, 24, 32, 48, 64, 96, 128].map(
  (megabytes) => `--max-old-space-size=${megabytes} --max-semi-space-size=1`,
);
const PUBLISHABLE_KEY = writeKey("publishable", { id: 1, appId: APP_ID, mode: "live" }, "p".repeat(22));

const SETTINGS_SECRET = "settings-secret-of-the-benchmark-0001";
const EXPORT_SECRET = "export-secret-of-the-benchmark";
const SIGNING_SECRET = "whsec_0123456789abcdef0123456789abcdef";

const SESSION_ID = "ses_worst";
/** A cookie of the dashboard, or what its forms carry (src/auth/admin-session.ts). */
const signed = (what: "session" | "form", sessionId: string, before = ""): string =>
  `${before}${createHmac("sha256", ADMIN_TOKEN).update(`purser dashboard ${what}\n${sessionId}`).digest("base64url")}`;

interface Figure {
  readonly shape: Shape;
  /** Null when the isolate died. */
  readonly status: number | null;
  readonly cpuSeconds: number;
  readonly bytes: number;
}

const cpuSecondsOf = (pid: number): number => {
  const fields = readFileSync(`/proc/${pid}/stat`, "utf8")
    .replace(/^.*\) /, "")
    .split(" ");
  return (Number(fields[11]) + Number(fields[12])) / 100;
};
const bytesOf = (pid: number, field: string): number => {
  const line = readFileSync(`/proc/${pid}/status`, "utf8")
    .split("\n")
    .find((one) => one.startsWith(field));
  return Number(line?.replace(/\D/g, "")) * 1024;
};

/** A workerd for one Worker, and its process. */
async function start(script: string, options: object, flags?: string) {
  const before = new Set(workerds());
  // Miniflare reads it when it starts.
  if (flags === undefined) delete process.env.MINIFLARE_WORKERD_V8_FLAGS;
  else process.env.MINIFLARE_WORKERD_V8_FLAGS = flags;
  const workers = [
    {
      name: "worst",
      modules: [{ type: "ESModule" as const, path: "index.mjs", contents: script }],
      compatibilityDate: "2026-10-01",
      unsafeDirectSockets: [{ host: "127.0.0.1", port: 0 }],
      ...options,
    },
  ];
  const miniflare = new Miniflare(convertV4MiniflareOptions({ workers }));
  const url = (await miniflare.unsafeGetDirectURL("worst")).origin;
  const pid = workerds().find((one) => !before.has(one));
  if (pid === undefined) throw new Error("workerd did not start");
  return { miniflare, url, pid };
}

async function send(
  url: string,
  { path, method = "POST", headers, body, bodyAnew }: Pick<Shape, "path" | "method" | "headers" | "body" | "bodyAnew">,
): Promise<number | null> {
  // A Buffer is a part of a larger memory.
  const response = await fetch(url + path, {
    method,
    ...(method === "GET" ? {} : { body: new Uint8Array(bodyAnew?.() ?? body) }),
    headers: headers ?? {},
  }).catch(() => null);
  await response?.arrayBuffer().catch(() => null);
  return response?.status ?? null;
}

async function measure(script: string, d1Url: string, shape: Shape): Promise<Figure> {
  const { status, cpuSeconds } = await measureIn(PLATFORM, script, d1Url, shape);
  for (const heap of SMALL) {
    const { bytes } = await measureIn(heap, script, d1Url, shape);
    if (bytes !== Number.POSITIVE_INFINITY) return { shape, status, cpuSeconds, bytes };
  }
  return { shape, status, cpuSeconds, bytes: Number.POSITIVE_INFINITY };
}

async function measureIn(heap: string, script: string, d1Url: string, shape: Shape): Promise<Figure> {
  const bindings = {
    D1_URL: d1Url,
    ADMIN_TOKEN,
    ANALYTICS_EXPORT_SECRET: EXPORT_SECRET,
    SETTINGS_SECRET,
    ERASURE_SECRET: "erasure-secret-of-the-benchmark-00001",
    TEST_BALANCE_QUOTA: "1000",
  };
  const { miniflare, url, pid } = await start(script, { bindings }, heap);
  try {
    await send(url, {
      path: "/batch/",
      body: new TextEncoder().encode(`{"api_key":"${PUBLISHABLE_KEY}","batch":[{"event":"e","distinct_id":"w"}]}`),
    });
    for (const body of shape.before ?? []) await send(url, { ...shape, body });
    const cpuBefore = cpuSecondsOf(pid);
    const bytesBefore = bytesOf(pid, "VmRSS");
    // The highest from now on.
    writeFileSync(`/proc/${pid}/clear_refs`, "5");
    const status = await send(url, shape);
    if (status === null)
      return { shape, status, cpuSeconds: Number.POSITIVE_INFINITY, bytes: Number.POSITIVE_INFINITY };
    const bytes = Math.max(0, bytesOf(pid, "VmHWM") - bytesBefore - shape.bytes);
    return { shape, status, cpuSeconds: cpuSecondsOf(pid) - cpuBefore, bytes };
  } finally {
    await miniflare.dispose();
  }
}

/** SQL: users and a person who hold much, and a setting of Stripe's. */
async function largeStates(): Promise<string[]> {
  const of = (userId: string) => ({ environmentId: 1, userId });
  const setting = await sealStripeSetting(
    { settings: readSettings({ SETTINGS_SECRET }) },
    { appId: APP_ID, mode: "live" },
    {
      signingSecrets: [SIGNING_SECRET],
      currency: "usd",
      prices: [{ price: "price_1", packId: "cpk_bench", expires: "pack" }],
    },
    null,
  );
  return [
    ...liveBalancesSql(
      of("heavy"),
      1_000,
      JSON.stringify(times(20, (n) => ({ event: `chat.${n}*${"a*".repeat(20)}#*` }))),
    ),
    ...liveBalancesSql(of("many balances"), 10_000),
    ...liveBalancesSql(of("whale"), 36_000),
    ...liveBalancesSql(of("refunded"), 1),
    ...liveBalancesSql(of("long"), 200),
    ...entriesSql(of("long"), 200, 50),
    ...times(500, (n) => liveBalancesSql(of(`user ${n}`), 20)).flat(),
    `INSERT INTO stripe_settings (environment_id, setting) VALUES (1, '${setting}')`,
    `INSERT INTO distinct_ids (environment_id, distinct_id, is_device_form, is_sender, first_seen_at_ms, last_seen_at_ms) VALUES (1, 'many', 0, 1, 1, 1)`,
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

/** Exports of who has many linked ids, or large events. */
function exportShapes(): Shape[] {
  const expiresAt = new Date(Date.now() + 3_600_000).toISOString();
  const tokenOf = (distinctId: string) => {
    const claims = JSON.stringify({ appId: APP_ID, mode: "live", distinctId, expiresAt });
    const payload = Buffer.from(claims).toString("base64url");
    return `${payload}.${createHmac("sha256", EXPORT_SECRET).update(payload).digest("base64url")}`;
  };
  return ["many", "large"].map((distinctId) => ({
    ...{ name: `GET export-download: ${distinctId}`, method: "GET", body: new Uint8Array(), bytes: 0 },
    path: `/api/v1/export-download?token=${tokenOf(distinctId)}`,
    // Rows of 4 MB at a time, several times: as rows, as text, and as bytes.
    bytesMax: 48 * 1024 * 1024,
  }));
}

const [worker = "", server = ""] = await Promise.all(
  ["bench/workers/worst.ts", "bench/workers/d1-server.ts"].map(bundle),
);
const d1 = await start(server, { d1Databases: { DB: "bench" } });
const figures: Figure[] = [];
try {
  const db = await d1.miniflare.getD1Database("DB", "worst");
  await prepare(db);
  const hash = createHash("sha256").update(PUBLISHABLE_KEY).digest("base64url");
  await runAll(db, [
    `INSERT INTO api_keys (hash, id, environment_id, kind, hint, created_at_ms) VALUES ('${hash}', 'key_public', 1, 'publishable', 'pk_live_p', 0)`,
    `INSERT INTO dashboard_sessions (id, actor, ends_at_ms) VALUES ('${SESSION_ID}', 'bench', 9000000000000)`,
    // The shapes together are more than one id may send in a day (L3).
    `UPDATE environments SET analytics_limits = '{"eventsADay":1e9,"bytesADay":1e12,"eventsADayOfOneId":1e9,"bytesADayOfOneId":1e12}'`,
  ]);
  await runAll(db, await largeStates());
  const asked = process.argv[2] ?? "";
  const sender = { appId: APP_ID, adminToken: ADMIN_TOKEN, secretKey: SECRET_KEY, signingSecret: SIGNING_SECRET };
  const shapes = [
    ...captureShapes(PUBLISHABLE_KEY),
    ...captureV1Shapes(PUBLISHABLE_KEY),
    ...manyIdShapes(SECRET_KEY),
    ...arrivalShapes(APP_ID),
    ...heavyReads(sender),
    ...exportShapes(),
    ...ofWhale(sender),
    ...heavyBodies(sender),
    ...everyRoute(sender),
    ...formShapes(APP_ID, signed("session", SESSION_ID, `${SESSION_ID}.`), signed("form", SESSION_ID)),
  ].filter(({ name }) => new RegExp(asked).test(name));
  for (const shape of shapes) figures.push(await measure(worker, d1.url, shape));
} finally {
  await d1.miniflare.dispose();
}

const isWithin = ({ shape, status, cpuSeconds, bytes }: Figure) =>
  status !== 500 && cpuSeconds <= (shape.cpuSecondsMax ?? CPU_SECONDS_MAX) && bytes <= (shape.bytesMax ?? BYTES_MAX);
const worst = figures.toSorted((a, b) => b.cpuSeconds - a.cpuSeconds);
const shown = [...worst.slice(0, 10), ...worst.slice(10).filter((figure) => !isWithin(figure))];
const found = table(
  ["Request", "Answer", "CPU", "Memory beside the body", "Within the bounds"],
  shown.map((figure) => [
    figure.shape.name,
    figure.status === null ? "the isolate died" : `${figure.status}`,
    `${figure.cpuSeconds.toFixed(2)} s`,
    `${(figure.bytes / 1024 / 1024).toFixed(0)} MiB`,
    verdict(isWithin(figure)),
  ]),
);
console.log(found);
const broken = figures.filter((figure) => !isWithin(figure)).length;
const sum = `${figures.length} shapes, ${broken} of them beyond ${CPU_SECONDS_MAX} s of CPU (0.1 s with an unknown key), or what they may take beside the body: 40 MiB for most.`;
console.log(sum);
if (process.argv[2] === undefined) {
  writeSection("Worst requests", [
    "Made by `npm run bench:worst`: the ten requests that take most CPU, and all beyond the bounds.",
    "",
    `- Date: ${new Date().toISOString().slice(0, 10)}`,
    `- Machine: ${machine()}; load average at the end ${loadavg()[0]?.toFixed(1)}`,
    `- ${sum}`,
    "",
    found,
  ]);
}
if (broken > 0) process.exitCode = 1;
