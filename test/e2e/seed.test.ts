import { mkdtempSync, readdirSync, readFileSync, rmSync, writeFileSync } from "node:fs";
import { tmpdir } from "node:os";
import { join } from "node:path";
import { build } from "esbuild";
import { afterAll, afterEach, beforeAll, beforeEach, expect, it, vi } from "vitest";
import { ensureDemo } from "../../scripts/seed.mjs";
import { ADMIN_TOKEN, type Server, startServer } from "./support/server.ts";

const NAME = "Lighthouse";

/** The moment of the seeding. The windows of limits depend on the calendar, and so what they reject. */
const NOW_MS = Date.parse("2026-10-20T15:30:00Z");
let minutes = 0;

let server: Server;
let directory: string;
// The demonstration's files are in the working directory.
const root = process.cwd();
beforeAll(async () => {
  const { outputFiles } = await build({
    absWorkingDir: root,
    entryPoints: ["scripts/month-worker.mjs"],
    bundle: true,
    format: "esm",
    conditions: ["workerd"],
    external: ["cloudflare:*", "node:*"],
    define: { WITH_REFERENCE: "false" },
    write: false,
  });
  const contents = outputFiles[0]?.text ?? "";
  server = await startServer({ module: { type: "ESModule", path: "index.js", contents } });
});
afterAll(() => server.close());
beforeEach(() => {
  vi.useFakeTimers({ toFake: ["Date"], now: NOW_MS + minutes++ * 60_000 });
  directory = mkdtempSync(join(tmpdir(), "purser-seed-"));
  process.chdir(directory);
});
afterEach(() => {
  vi.useRealTimers();
  process.chdir(root);
  rmSync(directory, { recursive: true });
});

const INTERRUPTION = new Error("The process ends here.");

/** Seeds as `npm start` does, and is interrupted after `writesMax` writes. Returns whether it was. */
async function isInterrupted(writesMax = Infinity): Promise<boolean> {
  const send = fetch;
  let writes = 0;
  vi.spyOn(globalThis, "fetch").mockImplementation(async (url, init) => {
    const answer = await send(url, init);
    if (init?.method !== "GET" && ++writes >= writesMax) throw INTERRUPTION;
    return answer;
  });
  try {
    await ensureDemo(server.url, ADMIN_TOKEN);
    return false;
  } catch (error) {
    expect(error).toBe(INTERRUPTION);
    return true;
  } finally {
    vi.restoreAllMocks();
  }
}

const kept = () => JSON.parse(readFileSync(join(directory, ".purser/demo.json"), "utf8"));

async function get(path: string, key: string) {
  const answer = await fetch(`${server.url}${path}`, { headers: { authorization: `Bearer ${key}` } });
  expect(answer.status, path).toBe(200);
  return answer.json() as Promise<Record<string, Record<string, unknown>[]>>;
}

async function demonstrations(): Promise<number> {
  const { apps = [] } = await get("/api/v1/admin/apps", ADMIN_TOKEN);
  return apps.filter(({ name }) => name === NAME).length;
}

/** Checks that the demonstration of this directory is complete and exists once. */
async function expectWhole(): Promise<void> {
  const { appId, keys, packs } = kept();
  for (const key of Object.values<string>(keys).filter((each) => each.startsWith("sk_"))) {
    await get("/api/v1/usage?userId=user_ada", key);
  }
  const { keys: made = [] } = await get(`/api/v1/admin/apps/${appId}/keys`, ADMIN_TOKEN);
  expect(made.filter(({ revokedAt }) => revokedAt === null)).toHaveLength(4);
  const { packs: sold = [] } = await get(`/api/v1/admin/apps/${appId}/packs`, ADMIN_TOKEN);
  expect(sold.map(({ packId }) => packId).sort()).toEqual(Object.values(packs).sort());
  const own = "environment_id IN (SELECT id FROM environments WHERE app_id = ?)";
  const count = async (table: string, where = own): Promise<number> => {
    const row = await server.db
      .prepare(`SELECT count(*) AS n FROM ${table} WHERE ${where}`)
      .bind(appId)
      .first<{ n: number }>();
    return row?.n ?? 0;
  };
  const balances = await count("credit_balances", `account_id IN (SELECT id FROM accounts WHERE ${own})`);
  expect([await count("usage_events"), await count("analytics_events"), balances]).toEqual([927, 301, 33]);
  expect(await count("user_notes")).toBe(3);
  expect(readdirSync(join(directory, ".purser"))).toEqual(["demo.json"]);
}

/** Makes the database look like another one: it has no application with the demonstration's name or with an id in this directory. */
async function forget(): Promise<void> {
  await server.db.prepare("UPDATE apps SET name = 'Elsewhere' WHERE name = ?").bind(NAME).run();
  const purser = join(directory, ".purser");
  for (const file of readdirSync(purser).filter((name) => name.endsWith(".json"))) {
    const text = readFileSync(join(purser, file), "utf8");
    writeFileSync(join(purser, file), text.replaceAll(/"app_\w+"/g, '"app_elsewhere0"'));
  }
}

it("the demonstration is seeded once when it is started twice", async () => {
  const before = await demonstrations();
  expect(await isInterrupted()).toBe(false);
  const first = kept();
  expect(await isInterrupted()).toBe(false);
  expect(kept()).toEqual(first);
  expect(await demonstrations()).toBe(before + 1);
  await expectWhole();
});

it("the demonstration is complete, and exists once, even if seeding was interrupted repeatedly", async () => {
  const before = await demonstrations();
  expect(await isInterrupted(1)).toBe(true);
  let ended = 0;
  while (await isInterrupted(ended < 12 ? 4 : 40)) expect(++ended).toBeLessThan(40);
  expect(ended).toBeGreaterThan(12);
  expect(await demonstrations()).toBe(before + 1);
  await expectWhole();
});

it("the demonstration is seeded again for another database", async () => {
  expect(await isInterrupted(5)).toBe(true);
  await forget();
  expect(await isInterrupted()).toBe(false);
  await expectWhole();
  await forget();
  expect(await isInterrupted()).toBe(false);
  await expectWhole();
  expect(await demonstrations()).toBe(1);
});
