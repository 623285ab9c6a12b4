import { writeFileSync } from "node:fs";
import { Session } from "node:inspector";
import { gunzipSync } from "node:zlib";
import { buildSync } from "esbuild";
import {
  ADMIN_TOKEN,
  bundle,
  EXPORT_SECRET,
  PUBLISHABLE_KEY,
  prepare,
  runAll,
  SECRET_KEY,
  SETTINGS_SECRET,
  serve,
} from "./serve.ts";
import { captureShapes, utf8 } from "./worst-captures.ts";

buildSync({
  entryPoints: ["bench/workers/worst.ts"],
  bundle: true,
  format: "esm",
  outfile: "/tmp/scratch/worker.mjs",
  external: ["cloudflare:*", "node:*"],
  loader: { ".svg": "text", ".md": "text" },
  logLevel: "error",
  keepNames: true,
  sourcemap: false,
});
(globalThis as any).DecompressionStream = class {
  readable: any;
  writable: any;
  constructor() {
    const chunks: Uint8Array[] = [];
    let ctl: any;
    this.readable = new ReadableStream({
      type: "bytes",
      start(c) {
        ctl = c;
      },
    });
    this.writable = new WritableStream({
      write(c) {
        chunks.push(Uint8Array.from(c));
      },
      close() {
        const d = gunzipSync(Buffer.concat(chunks));
        for (let i = 0; i < d.length; i += 200000) ctl.enqueue(Uint8Array.from(d.subarray(i, i + 200000)));
        ctl.close();
        ctl.byobRequest?.respond(0);
      },
    });
  }
};
(globalThis as any).scheduler = { wait: () => new Promise(() => {}) };
const d1 = await serve([await bundle("bench/workers/d1-server.ts")]);
await prepare(d1.db);
await runAll(d1.db, [
  `UPDATE environments SET analytics_limits = '{"eventsADay":1e9,"bytesADay":1e12,"eventsADayOfOneId":1e9,"bytesADayOfOneId":1e12}'`,
]);
const worker = (await import("/tmp/scratch/worker.mjs")).default;
const env = {
  D1_URL: d1.urls[0],
  ADMIN_TOKEN,
  SETTINGS_SECRET,
  ANALYTICS_EXPORT_SECRET: EXPORT_SECRET,
  ERASURE_SECRET: "erasure-secret-of-the-benchmark-00001",
};
const ctx = { waitUntil: () => {}, passThroughOnException: () => {} };
(crypto.subtle as any).timingSafeEqual ??= () => true;
const send = async (path: string, body: Uint8Array, headers: any = {}) => {
  const r = await worker.fetch(
    new Request("http://x" + path, { method: "POST", body, headers, duplex: "half" } as any),
    env,
    ctx,
  );
  return [r.status, (await r.text()).slice(0, 200)];
};
console.log(await send("/batch/", utf8(`{"api_key":"${PUBLISHABLE_KEY}","batch":[{"event":"e","distinct_id":"w"}]}`)));
const s = captureShapes().find(({ name }) => new RegExp(process.argv[2] ?? "").test(name))!;
const realFetch = globalThis.fetch;
let trips = 0;
const sizes = new Map<string, number>();
let total = 0;
if (process.argv[3])
  globalThis.fetch = (async (u: any, init: any) => {
    trips++;
    total += init.body.length;
    for (const st of JSON.parse(init.body).statements) {
      const k = st.text.replace(/\s+/g, " ").slice(0, 90);
      sizes.set(k, (sizes.get(k) ?? 0) + JSON.stringify(st.values).length);
    }
    return realFetch(u, init);
  }) as any;
const session = new Session();
session.connect();
await new Promise((r) => session.post("Profiler.enable", r));
await new Promise((r) => session.post("Profiler.setSamplingInterval", { interval: 200 }, r));
await new Promise((r) => session.post("Profiler.start", r));
const c = process.cpuUsage();
const out = await send(s.path, s.body, s.headers);
const u = process.cpuUsage(c);
session.post("Profiler.stop", (_e: any, { profile }: any) => {
  const self = new Map<string, number>();
  const total = new Map<string, number>();
  const dt = profile.timeDeltas;
  const byId = new Map(profile.nodes.map((n: any) => [n.id, n]));
  const parent = new Map<number, number>();
  for (const n of profile.nodes) for (const ch of n.children ?? []) parent.set(ch, n.id);
  const nm = (n: any) => `${n.callFrame.functionName || "(anon)"}:${n.callFrame.lineNumber + 1}`;
  profile.samples.forEach((id: number, i: number) => {
    const t = dt[i] / 1000;
    const n = byId.get(id) as any;
    self.set(nm(n), (self.get(nm(n)) ?? 0) + t);
    const seen = new Set<string>();
    for (let at: number | undefined = id; at !== undefined; at = parent.get(at)) {
      const k = nm(byId.get(at));
      if (!seen.has(k)) {
        seen.add(k);
        total.set(k, (total.get(k) ?? 0) + t);
      }
    }
  });
  const top = (m: Map<string, number>, k: number) =>
    [...m]
      .sort((a, b) => b[1] - a[1])
      .slice(0, k)
      .map(([n, t]) => `${t.toFixed(0).padStart(5)} ${n}`)
      .join("\n");
  console.log(s.name, String(out), "cpu", (u.user + u.system) / 1000);
  if (process.argv[3]) {
    console.log("trips", trips, "total", total);
    for (const [k, v] of [...sizes].sort((a, b) => b[1] - a[1])) console.log(v, k);
    return void d1.close();
  }
  console.log("SELF\n" + top(self, 28));
  console.log("TOTAL\n" + top(total, 45));
  void d1.close();
});
