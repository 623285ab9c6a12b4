import { execFile } from "node:child_process";
import {
  appendFileSync,
  cpSync,
  existsSync,
  mkdirSync,
  readdirSync,
  readFileSync,
  readlinkSync,
  realpathSync,
  rmSync,
  writeFileSync,
} from "node:fs";
import { join } from "node:path";
import { DatabaseSync } from "node:sqlite";
import { promisify } from "node:util";
import { afterAll, beforeAll, expect, it } from "vitest";
import { withDatabases } from "../../scripts/databases.mjs";
import { makeCheckout, type Started, startCheckout } from "./support/checkout.ts";
import { python, withoutPython } from "./support/runtimes.ts";
import { ADMIN_TOKEN } from "./support/server.ts";

// One checkout: its server starts, stops for the next release's migrations, starts again and dies.

const run = promisify(execFile);
const root = join(import.meta.dirname, "../..");
const config = readFileSync(join(root, "wrangler.toml"), "utf8");
const LOG = ".purser/server.log";
const TRACES = ".wrangler/state/v3/observability";
const STATE = ".wrangler/state/v3/d1/miniflare-D1DatabaseObject";

/** A made-up next migration: a column, a filled table, an index and a changed trigger. */
const NEXT = `ALTER TABLE credit_packs ADD COLUMN made_up_note TEXT;
--> statement-breakpoint
CREATE TABLE made_up_counts (account_id INTEGER PRIMARY KEY, entries INTEGER NOT NULL) STRICT;
--> statement-breakpoint
INSERT INTO made_up_counts SELECT account_id, count(*) FROM credit_ledger GROUP BY account_id;
--> statement-breakpoint
CREATE INDEX made_up_entries ON made_up_counts (entries);
--> statement-breakpoint
DROP TRIGGER credit_ledger_no_delete;
--> statement-breakpoint
CREATE TRIGGER credit_ledger_no_delete BEFORE DELETE ON credit_ledger
BEGIN SELECT RAISE(ABORT, 'made_up_no_delete'); END;
`;
/** A migration whose second statement fails because of existing rows. */
const FAILING = `ALTER TABLE credit_packs ADD COLUMN never_there TEXT;
--> statement-breakpoint
INSERT INTO made_up_counts SELECT account_id, entries FROM made_up_counts;
`;

let directory: string;
let started: Started;

/** Binds this number of databases, which all have the same name. */
function bindDatabases(count: number): void {
  const text = withDatabases(config, count).replaceAll(/^database_name = ".*"$/gm, 'database_name = "renamed"');
  writeFileSync(join(directory, "wrangler.toml"), text);
}

beforeAll(async () => {
  directory = makeCheckout(["drizzle", "wrangler.toml"]);
  cpSync(join(root, "drizzle"), join(directory, "drizzle"), { recursive: true });
  bindDatabases(1);
  appendFileSync(join(directory, LOG), "earlier log\n");
  mkdirSync(join(directory, TRACES), { recursive: true });
  writeFileSync(join(directory, TRACES, "old.sqlite"), "a download token");
  started = await startCheckout(directory);
}, 240_000);
afterAll(async () => {
  await started.stop();
  rmSync(directory, { recursive: true });
});

/** Opens the only data file while no server has it open. */
function onFile<Answer>(work: (database: DatabaseSync) => Answer): Answer {
  const folder = join(directory, STATE);
  const file = readdirSync(folder).find((name) => /^[0-9a-f]{64}\.sqlite$/.test(name)) ?? "";
  const database = new DatabaseSync(join(folder, file));
  try {
    return work(database);
  } finally {
    database.close();
  }
}

type Row = Record<string, unknown>;

/** All rows of Purser's own tables. */
const rowsByTable = (): Record<string, Row[]> =>
  onFile((database) => {
    const tables = database.prepare("SELECT name FROM sqlite_schema WHERE type = 'table'").all() as { name: string }[];
    const own = tables.filter(({ name }) => !/^(d1_|_cf_|sqlite_)/.test(name));
    const rowsOf = (name: string): Row[] => database.prepare(`SELECT * FROM "${name}"`).all();
    return Object.fromEntries(own.map(({ name }) => [name, rowsOf(name)]));
  });

async function call(key: string, method: string, path: string, body?: object): Promise<Response> {
  return fetch(`${started.url}/api/v1${path}`, {
    method,
    headers: { authorization: `Bearer ${key}`, "content-type": "application/json" },
    ...(body === undefined ? {} : { body: JSON.stringify(body) }),
  });
}

async function answerOf<Answer>(key: string, method: string, path: string, body?: object): Promise<Answer> {
  const response = await call(key, method, path, body);
  expect(response.status, `${method} ${path}`).toBe(200);
  // The assertions check its shape.
  return (await response.json()) as Answer;
}

/** Returns the ids of this checkout's processes, which it finds in /proc. */
function processes(): number[] {
  return readdirSync("/proc")
    .filter((name) => /^\d+$/.test(name))
    .filter((pid) => {
      try {
        return (
          readFileSync(`/proc/${pid}/cmdline`, "utf8").includes("workerd") &&
          readlinkSync(`/proc/${pid}/cwd`) === realpathSync(directory)
        );
      } catch {
        return false;
      }
    })
    .map(Number);
}

it("npm start serves npm run demo, which finds it on any port", async () => {
  const { PORT: _port, ...env } = process.env;
  const { stdout } = await run(process.execPath, ["scripts/demo.mjs"], { cwd: directory, env });
  expect(stdout).toContain("delivered twice, granted once");
  expect(stdout).toContain("8. A person's data");
  const messages = stdout.slice(stdout.indexOf("10. Messages to your backend"));
  for (const type of ["credits.granted", "usage.recorded", "payment.taken", "person.exported"])
    expect(messages).toContain(type);
});

it.skipIf(python === undefined)(
  `npm start serves the examples of the Python client's README${withoutPython}`,
  async () => {
    const { keys } = JSON.parse(readFileSync(join(directory, ".purser/demo.json"), "utf8"));
    const own = { PURSER_URL: started.url, PURSER_KEY: keys.sk_live, PYTHONDONTWRITEBYTECODE: "1" };
    const args = ["-m", "pytest", "-q", "-p", "no:cacheprovider", "tests/test_readme.py"];
    const env = { ...process.env, ...own } as NodeJS.ProcessEnv;
    const { stdout } = await run(python ?? "", args, { cwd: join(root, "clients/python"), env });
    expect(stdout).toContain("2 passed");
  },
);

it("npm start stores no traces of requests, and appends to its log, which has no query strings", async () => {
  await fetch(`${started.url}/api/v1/export-download?token=a-download-token`);
  expect(existsSync(join(directory, TRACES))).toBe(false);
  const log = readFileSync(join(directory, LOG), "utf8");
  expect(log.startsWith("earlier log\n")).toBe(true);
  expect(log.length).toBeGreaterThan("earlier log\n".length);
  expect(log).not.toMatch(/a-download-token|token=|GET \//);
});

it("npm start keeps every row in the next migration, serves it, and changes nothing by a migration that fails", async () => {
  const { apps } = await answerOf<{ apps: { appId: string }[] }>(ADMIN_TOKEN, "GET", "/admin/apps");
  const at = `/admin/apps/${apps[0]?.appId}`;
  const made = { kind: "secret", mode: "live" };
  const { key } = await answerOf<{ key: string }>(ADMIN_TOKEN, "POST", `${at}/keys`, made);
  const pack = { packName: "Upgrade", items: [{ unit: "count", amount: 9 }] };
  await answerOf(ADMIN_TOKEN, "POST", `${at}/packs`, pack);
  const grant = { userId: "kept", packId: "Upgrade", externalRef: "an earlier order" };
  const granted = await (await call(key, "POST", "/credits/grant", grant)).text();
  const listed = await (await call(key, "GET", "/credits?userId=kept")).text();
  await started.stop();

  const before = rowsByTable();
  expect(before.credit_ledger?.length).toBeGreaterThan(10);
  writeFileSync(join(directory, "drizzle/0003_made_up.sql"), NEXT);
  writeFileSync(join(directory, "drizzle/0004_failing.sql"), FAILING);
  await expect(startCheckout(directory)).rejects.toThrow("could not be migrated");
  const { made_up_counts: counts = [], ...after } = rowsByTable();
  expect(counts.length).toBe(new Set(before.credit_ledger?.map((row) => row.account_id)).size);
  const packs = before.credit_packs?.map((row) => ({ ...row, made_up_note: null }));
  expect(after).toEqual({ ...before, credit_packs: packs });
  expect(() => onFile((database) => database.exec("DELETE FROM credit_ledger"))).toThrow("made_up_no_delete");

  rmSync(join(directory, "drizzle/0004_failing.sql"));
  bindDatabases(2);
  started = await startCheckout(directory);
  const replayed = await call(key, "POST", "/credits/grant", grant);
  expect(replayed.headers.get("idempotent-replayed")).toBe("true");
  expect(await replayed.text()).toBe(granted);
  expect(await (await call(key, "GET", "/credits?userId=kept")).text()).toBe(listed);
  const event = { userId: "kept", event: "call", quantities: { count: 2 }, eventId: "after" };
  await answerOf(key, "POST", "/usage/events", event);
  type Verified = { users: { userId: string; isSound: boolean }[] };
  const { users } = await answerOf<Verified>(ADMIN_TOKEN, "POST", `${at}/verify`, { mode: "live" });
  expect(users.map(({ userId }) => userId)).toContain("kept");
  expect(users.filter(({ isSound }) => !isSound)).toEqual([]);
}, 180_000);

it("npm start migrates and serves each database by its binding, also one that is added later and one whose name another has", async () => {
  for (const [database, digit] of [
    ["DB", "0"],
    ["DB_1", "1"],
  ] as const) {
    const { appId } = await answerOf<{ appId: string }>(ADMIN_TOKEN, "POST", "/admin/apps", { name: "A", database });
    expect(appId.at(-1)).toBe(digit);
    const at = `/admin/apps/${appId}`;
    const made = { kind: "secret", mode: "live" };
    const { key, keyId } = await answerOf<{ key: string; keyId: string }>(ADMIN_TOKEN, "POST", `${at}/keys`, made);
    await answerOf(ADMIN_TOKEN, "POST", `${at}/packs`, { packName: "P", items: [], unit: "tokens" });
    await answerOf(key, "POST", "/credits/grant", { userId: "u", packId: "P", quantity: 5 });
    expect(await answerOf(key, "GET", "/credits?userId=u")).toMatchObject({ credits: [{ remaining: 5 }] });
    await answerOf(ADMIN_TOKEN, "DELETE", `${at}/keys/${keyId}`);
    expect((await call(key, "GET", "/credits?userId=u")).status).toBe(401);
  }
});

it("npm start limits guesses of the admin token, whatever address the headers claim", async () => {
  const guess = async (n: number) => {
    const headers = { authorization: "Bearer wrong", "cf-connecting-ip": `192.0.2.${n}` };
    return (await fetch(`${started.url}/api/v1/admin/apps`, { headers })).status;
  };
  const statuses: number[] = [];
  for (let n = 0; n < 12; n++) statuses.push(await guess(n));
  expect(statuses).toEqual([...Array(10).fill(401), 429, 429]);
});

it.runIf(existsSync("/proc/self"))(
  "npm start ends, with all processes that it started, when the server has died",
  async () => {
    const before = processes();
    expect(before.length).toBeGreaterThan(0);
    const parentOf = (pid: number) => Number(/^PPid:\s+(\d+)$/m.exec(readFileSync(`/proc/${pid}/status`, "utf8"))?.[1]);
    process.kill(parentOf(before[0] ?? 0), "SIGKILL");
    expect(await started.ended).toBe(1);
    expect(existsSync(join(directory, ".purser/running.json"))).toBe(false);
    await expect.poll(() => processes().filter((pid) => before.includes(pid))).toEqual([]);
  },
);
