/**
 * `npm run bench:receivers`: when endpoints that answer get their messages while others of the same application never answer (H4).
 * Writes its section of RESULTS.md. Fails when the last message comes more than two seconds later than without the silent ones.
 */
import { mkdtempSync, rmSync } from "node:fs";
import { createServer } from "node:http";
import type { AddressInfo } from "node:net";
import { tmpdir } from "node:os";
import { join } from "node:path";
import { setTimeout as sleep } from "node:timers/promises";
import { bundle } from "./bundle.ts";
import { machine } from "./report.ts";
import { writeSection } from "./results.ts";
import { ADMIN_TOKEN, migrate, type Served, serve } from "./serve.ts";
import { table, verdict } from "./table.ts";

const ENDPOINTS = 10;
const SILENT = [1, 5, 9];
const LATER_MS_MAX = 2_000;
/** An attempt at a silent endpoint ends after ten seconds. */
const ATTEMPT_MS = 10_000;
const WITHIN_MS = 60_000;

/** How the messages are written: one after another by a call each, or all by one call, so that the cron sends most of them. */
const WAYS = { "40 calls": 40, "one call of 20 events": 20 } as const;
type Way = keyof typeof WAYS;

/** A receiver that counts what comes, and answers or never does. */
async function receive(isSilent: boolean) {
  let [count, lastMs] = [0, 0];
  const server = createServer((request, response) => {
    request.resume();
    [count, lastMs] = [count + 1, performance.now()];
    if (!isSilent) response.writeHead(204).end();
  });
  await new Promise<void>((resolve) => server.listen(0, "127.0.0.1", resolve));
  // A server that listens on a TCP port has an address of this form.
  const { port } = server.address() as AddressInfo;
  return {
    ...{ url: `http://127.0.0.1:${port}/hook`, isSilent, count: () => count, lastMs: () => lastMs },
    close: () => {
      server.close();
      server.closeAllConnections();
    },
  };
}

async function post(served: Served, path: string, key: string, body: object) {
  const headers = { authorization: `Bearer ${key}`, "content-type": "application/json" };
  const answer = await fetch(`${served.url}/api/v1/${path}`, { method: "POST", headers, body: JSON.stringify(body) });
  if (!answer.ok) throw new Error(`${path}: ${answer.status} ${await answer.text()}`);
  return answer.json() as Promise<Readonly<Record<string, string>>>;
}

async function until(isSo: () => boolean): Promise<void> {
  const endMs = performance.now() + WITHIN_MS;
  while (!isSo()) {
    if (performance.now() > endMs) throw new Error("The messages did not come within a minute.");
    await sleep(5);
  }
}

const event = (eventId: string) => ({ eventId, userId: "u", event: "chat", onShortage: "partial" });

/** How long it takes until the last message has come to the last endpoint that answers, from the second message on. */
async function measure(served: Served, way: Way, fine: number, silent: number): Promise<number> {
  const receivers = await Promise.all(Array.from({ length: fine + silent }, (_, n) => receive(n < silent)));
  try {
    const { appId = "" } = await post(served, "admin/apps", ADMIN_TOKEN, { name: "Receivers" });
    const admin = `admin/apps/${appId}`;
    const { key = "" } = await post(served, `${admin}/keys`, ADMIN_TOKEN, { kind: "secret", mode: "live" });
    for (const { url } of receivers) {
      await post(served, `${admin}/webhooks`, ADMIN_TOKEN, { mode: "live", url, types: ["usage.recorded"] });
    }
    const well = receivers.filter(({ isSilent }) => !isSilent);
    await post(served, "usage/events", key, event("first"));
    await until(() => receivers.every(({ count }) => count() > 0));
    if (silent > 0) await sleep(ATTEMPT_MS + 1_000);

    const startMs = performance.now();
    const ids = Array.from({ length: WAYS[way] }, (_, n) => `event ${n}`);
    if (way === "40 calls") for (const id of ids) await post(served, "usage/events", key, event(id));
    else await post(served, "usage/events", key, ids.map(event));
    // The cron is busy with the silent ones for longer than the others wait.
    const cron = served.cron();
    await until(() => well.every(({ count }) => count() > ids.length));
    const lastMs = Math.max(...well.map((one) => one.lastMs()));
    await cron;
    // An attempt's invocation ends before the next world begins.
    if (silent > 0) await sleep(ATTEMPT_MS);
    return lastMs - startMs;
  } finally {
    for (const receiver of receivers) receiver.close();
  }
}

const directory = mkdtempSync(join(tmpdir(), "purser-receivers-"));
const served = await serve(await bundle("src/index.ts"), directory);
const rows: { readonly cells: readonly string[]; readonly isKept: boolean }[] = [];
try {
  await migrate(served.db);
  for (const way of Object.keys(WAYS) as Way[]) {
    for (const silent of SILENT) {
      const fine = ENDPOINTS - silent;
      const without = await measure(served, way, fine, 0);
      const beside = await measure(served, way, fine, silent);
      const isKept = beside - without <= LATER_MS_MAX;
      const cells = [
        way,
        `${silent} of ${ENDPOINTS}`,
        ...[without, beside].map((ms) => `${(ms / 1_000).toFixed(2)} s`),
      ];
      rows.push({ cells: [...cells, verdict(isKept)], isKept });
      console.log(cells.join(", "));
    }
  }
} finally {
  await served.close();
  rmSync(directory, { recursive: true, force: true });
}
const head = ["Messages written by", "Silent endpoints", "Last message without them", "Beside them", "Within 2 s"];
writeSection("Silent receivers", [
  "Made by `npm run bench:receivers`. Ten endpoints of one application, some of which never answer, from their second message on.",
  "The time is from the first call to the last message at the last endpoint that answers.",
  "",
  `- Date: ${new Date().toISOString().slice(0, 10)}`,
  `- Machine: ${machine()}`,
  "",
  table(
    head,
    rows.map(({ cells }) => cells),
  ),
]);
if (rows.some(({ isKept }) => !isKept)) process.exitCode = 1;
