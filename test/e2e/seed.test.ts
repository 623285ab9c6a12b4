import { spawn } from "node:child_process";
import { mkdtempSync, readdirSync, readFileSync, rmSync, writeFileSync } from "node:fs";
import { tmpdir } from "node:os";
import { join } from "node:path";
import { afterEach, beforeAll, beforeEach, describe, expect, it } from "vitest";
import { ADMIN_TOKEN, type Server, sharedServer } from "./support/server.ts";

const SEED = join(import.meta.dirname, "../../scripts/seed.mjs");
const NAME = "Lighthouse (demonstration)";

let server: Server;
let directory: string;
beforeAll(async () => {
  server = await sharedServer();
});
beforeEach(() => {
  directory = mkdtempSync(join(tmpdir(), "purser-seed-"));
});
afterEach(() => rmSync(directory, { recursive: true }));

/** Seeds as `npm start` does, in a process that exits after `writesMax` writes. Returns its exit code. */
function seed(writesMax = Infinity): Promise<number | null> {
  const program = `
    const real = fetch;
    let writes = 0;
    globalThis.fetch = async (url, init) => {
      const answer = await real(url, init);
      if (init?.method !== "GET" && ++writes >= ${writesMax}) process.exit(7);
      return answer;
    };
    const { ensureDemo } = await import(${JSON.stringify(SEED)});
    await ensureDemo(${JSON.stringify(server.url)}, ${JSON.stringify(ADMIN_TOKEN)});`;
  const child = spawn(process.execPath, ["--input-type=module", "-e", program], { cwd: directory, stdio: "inherit" });
  return new Promise((resolve) => child.once("exit", resolve));
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
  expect([await count("usage_events"), await count("analytics_events"), balances]).toEqual([300, 301, 4]);
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

describe("the demonstration", () => {
  it("is seeded once when it is started twice", async () => {
    const before = await demonstrations();
    expect(await seed()).toBe(0);
    const first = kept();
    expect(await seed()).toBe(0);
    expect(kept()).toEqual(first);
    expect(await demonstrations()).toBe(before + 1);
    await expectWhole();
  });

  it("is complete, and exists once, even if seeding was interrupted repeatedly", async () => {
    const before = await demonstrations();
    expect(await seed(1)).toBe(7);
    let ended = 0;
    while ((await seed(4)) === 7) expect(++ended).toBeLessThan(20);
    expect(ended).toBeGreaterThan(3);
    expect(await demonstrations()).toBe(before + 1);
    await expectWhole();
  });

  it("is seeded again for another database", async () => {
    expect(await seed(5)).toBe(7);
    await forget();
    expect(await seed()).toBe(0);
    await expectWhole();
    await forget();
    expect(await seed()).toBe(0);
    await expectWhole();
    expect(await demonstrations()).toBe(1);
  });
});
