import { execFile } from "node:child_process";
import { cpSync, readdirSync, rmSync, writeFileSync } from "node:fs";
import { join } from "node:path";
import { DatabaseSync } from "node:sqlite";
import { promisify } from "node:util";
import { afterAll, beforeAll, expect, it } from "vitest";
import { makeCheckout, type Started, startCheckout } from "./support/checkout.ts";
import { ADMIN_TOKEN } from "./support/server.ts";

// This release writes a data file. The next release migrates it, as `npm start` and `npm run deploy` do.

const run = promisify(execFile);
const root = join(import.meta.dirname, "../..");
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
let running: Started | null = null;
beforeAll(() => {
  directory = makeCheckout(["drizzle"]);
  cpSync(join(root, "drizzle"), join(directory, "drizzle"), { recursive: true });
});
afterAll(async () => {
  await running?.stop();
  rmSync(directory, { recursive: true });
});

/** Opens the data file while no server has it open. */
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

async function stop(): Promise<void> {
  await running?.stop();
  running = null;
}

async function call(key: string, method: string, path: string, body?: object): Promise<Response> {
  return fetch(`${running?.url}/api/v1${path}`, {
    method,
    headers: { authorization: `Bearer ${key}`, "content-type": "application/json" },
    ...(body === undefined ? {} : { body: JSON.stringify(body) }),
  });
}

it("the next migration keeps every row, which the server then serves, and a failing migration changes nothing", async () => {
  running = await startCheckout(directory);
  const { PORT: _port, ...env } = process.env;
  await run(process.execPath, ["scripts/demo.mjs"], { cwd: directory, env });
  const { apps } = (await (await call(ADMIN_TOKEN, "GET", "/admin/apps")).json()) as { apps: { appId: string }[] };
  const appId = apps[0]?.appId ?? "";
  const made = await call(ADMIN_TOKEN, "POST", `/admin/apps/${appId}/keys`, { kind: "secret", mode: "live" });
  const { key } = (await made.json()) as { key: string };
  const pack = { packName: "Upgrade", items: [{ unit: "count", amount: 9 }] };
  expect((await call(ADMIN_TOKEN, "POST", `/admin/apps/${appId}/packs`, pack)).status).toBe(200);
  const grant = { userId: "kept", packId: "Upgrade", externalRef: "an earlier order" };
  const granted = await (await call(key, "POST", "/credits/grant", grant)).text();
  const listed = await (await call(key, "GET", "/credits?userId=kept")).text();
  await stop();

  const before = rowsByTable();
  expect(before.credit_ledger?.length).toBeGreaterThan(10);
  writeFileSync(join(directory, "drizzle/0003_made_up.sql"), NEXT);
  writeFileSync(join(directory, "drizzle/0004_failing.sql"), FAILING);
  await expect(startCheckout(directory)).rejects.toThrow("could not be migrated");
  const { made_up_counts: counts = [], ...after } = rowsByTable();
  expect(counts.length).toBe(new Set(before.credit_ledger?.map((row) => row.account_id)).size);
  const packs = before.credit_packs?.map((row) => ({ ...row, made_up_note: null }));
  expect(after).toEqual({ ...before, credit_packs: packs });

  rmSync(join(directory, "drizzle/0004_failing.sql"));
  running = await startCheckout(directory);
  const replayed = await call(key, "POST", "/credits/grant", grant);
  expect(replayed.headers.get("idempotent-replayed")).toBe("true");
  expect(await replayed.text()).toBe(granted);
  expect(await (await call(key, "GET", "/credits?userId=kept")).text()).toBe(listed);
  const event = { userId: "kept", event: "call", quantities: { count: 2 }, eventId: "after" };
  expect((await call(key, "POST", "/usage/events", event)).status).toBe(200);
  const verified = await call(ADMIN_TOKEN, "POST", `/admin/apps/${appId}/verify`, { mode: "live" });
  const { users } = (await verified.json()) as { users: { userId: string; isSound: boolean }[] };
  expect(users.map(({ userId }) => userId)).toContain("kept");
  expect(users.filter(({ isSound }) => !isSound)).toEqual([]);
  await stop();
  const remove = () => onFile((database) => database.exec("DELETE FROM credit_ledger"));
  expect(remove).toThrow("made_up_no_delete");
}, 180_000);
