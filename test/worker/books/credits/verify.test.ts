import { applyD1Migrations } from "cloudflare:test";
import { env } from "cloudflare:workers";
import { beforeAll, describe, expect, it } from "vitest";
import { VERIFIED_ENTRIES_MAX, verifyUser } from "../../../../src/books/credits/verify.ts";
import { ENTRY_KINDS } from "../../../../src/db/schema.ts";
import type { Environment } from "../../../../src/runtime.ts";
import { countingD1 } from "../../../support/counting-d1.ts";
import { describeRejections, expectError } from "../../../support/rejections.ts";
import { entriesSql, liveBalancesSql, seededId } from "../../../support/seed.ts";
import { Clock, home, makeClient, makeCtx } from "../../../support/world.ts";

const clock = new Clock();
// A separate database, because the errors of this test would break the checks of all other files.
const DB = env.FLAWED;
const call = makeClient(clock, { DB });
const admin = (method: string, path: string, body: object) =>
  call(method, `/api/v1/admin/apps${path}`, { key: env.ADMIN_TOKEN, body });

interface App {
  readonly appId: string;
  readonly key: string;
  readonly environment: Environment;
}

async function makeOwnApp(): Promise<App> {
  const { appId } = (await admin("POST", "", { name: "Test" })).body;
  const { key } = (await admin("POST", `/${appId}/keys`, { kind: "secret", mode: "live" })).body;
  const row = await DB.prepare("SELECT id FROM environments WHERE app_id = ? AND mode = 'live'")
    .bind(appId)
    .first<{ id: number }>();
  return { appId, key, environment: { id: row?.id ?? 0, appId, mode: "live", database: home() } };
}

interface Flaw {
  readonly balanceId: string | null;
  readonly kind: string;
}

/** The pages of a user's verification. */
async function pagesOf(app: App, userId: string) {
  const pages = [];
  let cursor = "";
  do {
    const path = `/api/v1/credits/verify?userId=${userId}${cursor === "" ? "" : `&cursor=${cursor}`}`;
    const answer = await call("GET", path, { key: app.key });
    expect(answer.status, JSON.stringify(answer.body)).toBe(200);
    pages.push(answer.body);
    cursor = answer.body.nextCursor ?? "";
  } while (cursor !== "");
  return pages;
}

const flawNames = (flaws: readonly Flaw[]) =>
  [...new Set(flaws.map(({ balanceId, kind }) => `${kind} of ${balanceId}`))].sort();

/** The errors that a verification finds after a write that the triggers would reject. */
async function flawsAfter(app: App, userId: string, ...planted: readonly string[]): Promise<string[]> {
  const account = `(SELECT id FROM accounts WHERE environment_id = ${app.environment.id} AND user_id = '${userId}')`;
  for (const sql of planted) {
    const { meta } = await DB.prepare(sql.replaceAll(":account", account)).run();
    expect(meta.changes, sql).toBeGreaterThan(0);
  }
  const pages = await pagesOf(app, userId);
  const flaws = pages.flatMap((page) => page.flaws);
  for (const page of pages) expect(page.isSound).toBe(page.flaws.length === 0);
  return flawNames(flaws);
}

/** An application with a pack of tokens and cents. */
async function makeShop(): Promise<App> {
  const app = await makeOwnApp();
  const items = [
    { amount: 100, unit: "tokens", priority: 1 },
    { amount: 0.2, unit: "cents", priority: 2 },
  ];
  expect((await admin("POST", `/${app.appId}/packs`, { packName: "Two", items })).status).toBe(200);
  return app;
}

/** A user with two balances. Entries 1 and 2 are their grants, and 3 to 6 are debits of both in turn. */
async function makeUser(app: App, userId = "u") {
  const post = (path: string, body: object) =>
    call("POST", `/api/v1/${path}`, { key: app.key, body: { userId, ...body } });
  const granted = await post("credits/grant", { packId: "Two" });
  const [a, b]: string[] = granted.body.balances.map(({ balanceId }: { balanceId: string }) => balanceId);
  for (const [index, quantities] of [{ tokens: 10 }, { cents: 0.02 }, { tokens: 30 }, { cents: 0.04 }].entries()) {
    const eventId = `${userId} ${index}`;
    expect((await post("usage/events", { event: "e", eventId, quantities: { count: 0, ...quantities } })).status).toBe(
      200,
    );
  }
  return { app, userId, a: a ?? "", b: b ?? "" };
}

/** Users of more than one page. The balances of the first fit into a cursor, and those of the second do not. */
const LONG = [
  { balances: 20, rounds: 501 },
  { balances: 450, rounds: 22 },
] as const;
/** A user whose entries fill exactly one page. */
const EXACT = { balances: 20, rounds: 499 } as const;
type Long = { readonly balances: number; readonly rounds: number };
const longApps = new Map<Long, App>();

/** A user of several pages. The balances change in turn, so `nameOf` finds an entry's balance by its seq. */
function longUser(long: Long) {
  const app = longApps.get(long);
  if (app === undefined) throw new Error("it was made before all tests");
  const account = { environmentId: app.environment.id, userId: "long" };
  return { app, nameOf: (seq: number) => seededId(account, "live", (seq - 1) % long.balances) };
}

/** More balances than a page has entries. */
const MANY = 10_500;
let many: { readonly app: App; readonly account: { readonly environmentId: number; readonly userId: string } };

/** Reads all pages of the verification of `many`, and expects each to have a bounded cost. */
async function pagesOfMany({ environment }: App) {
  const { d1, spent } = countingD1(DB);
  const ctx = makeCtx(environment, clock, d1);
  const pages: Awaited<ReturnType<typeof verifyUser>>[] = [];
  for (let cursor: string | undefined; ; ) {
    spent();
    const page = await verifyUser(ctx, { userId: "many", cursor });
    expect(spent()).toEqual({
      roundTrips: 1,
      rowsWritten: 0,
      rowsRead: expect.toSatisfy((read) => read < 6.5 * VERIFIED_ENTRIES_MAX),
    });
    expect((page.nextCursor ?? "").length).toBeLessThan(4_500);
    pages.push(page);
    if (page.nextCursor === null) break;
    cursor = page.nextCursor;
  }
  return { pages, sum: (of: "balances" | "entries") => pages.reduce((total, page) => total + page[of], 0) };
}

beforeAll(async () => {
  await applyD1Migrations(DB, env.TEST_MIGRATIONS);
  const app = await makeOwnApp();
  many = { app, account: { environmentId: app.environment.id, userId: "many" } };
  for (const long of [...LONG, EXACT]) {
    const app = await makeOwnApp();
    const account = { environmentId: app.environment.id, userId: "long" };
    const statements = [...liveBalancesSql(account, long.balances), ...entriesSql(account, long.balances, long.rounds)];
    await DB.batch(statements.map((sql) => DB.prepare(sql)));
    longApps.set(long, app);
  }
}, 60_000);

it("the verification of a user counts the balances and entries, and finds nothing in correct books", async () => {
  const { app } = await makeUser(await makeShop());
  const [page, ...others] = await pagesOf(app, "u");
  expect(page).toEqual({ userId: "u", balances: 2, entries: 6, isSound: true, flaws: [], nextCursor: null });
  expect(others).toEqual([]);
});

it("the verification of a user finds nothing for an unknown user", async () => {
  const { app } = await makeUser(await makeShop());
  const empty = { userId: "nobody", balances: 0, entries: 0, isSound: true, flaws: [], nextCursor: null };
  expect(await pagesOf(app, "nobody")).toEqual([empty]);
});

it("the verification of a user finds nothing after refunds, revokes, holds that return to a revoked balance, and adjustments", async () => {
  const { app, a, b } = await makeUser(await makeShop());
  const post = (path: string, body: object, key: string = app.key) => call("POST", `/api/v1/${path}`, { key, body });
  const hold = { userId: "u", event: "e", reservationId: `res_${app.appId}`, quantities: { count: 0, tokens: 5 } };
  expect((await post("usage/reservations", hold)).status).toBe(200);
  await post("credits/revoke", { balanceId: a });
  await post(`usage/reservations/res_${app.appId}/release`, {});
  await post(`admin/balances/${b}/adjust`, { delta: 7, note: "n" }, env.ADMIN_TOKEN);
  await post("credits/grant", { userId: "u", packId: "Two", externalRef: "order" });
  await post("credits/refund", { userId: "u", externalRef: "order", refundRef: "r", share: { part: 1, of: 3 } });
  await post("credits/refund", { userId: "u", externalRef: "order", refundRef: "s" });
  const [page] = await pagesOf(app, "u");
  expect(page).toMatchObject({ balances: 4, entries: 17, isSound: true, flaws: [] });
});

it("the verification of a user reads a bounded number of rows a page, even if a user has more balances than a cursor can carry", async () => {
  const { app, account } = many;
  for (const sql of [...liveBalancesSql(account, MANY), ...entriesSql(account, MANY, 1)]) await DB.prepare(sql).run();
  const { pages, sum } = await pagesOfMany(app);
  expect([sum("balances"), sum("entries")]).toEqual([MANY, 2 * MANY]);
  expect(pages.every(({ isSound }) => isSound)).toBe(true);
});

it("the verification of a user finds nothing wrong with a balance that ended on one page and changed before the next was read", async () => {
  const app = await makeOwnApp();
  const account = { environmentId: app.environment.id, userId: "busy" };
  const run = async (statements: readonly string[]) => {
    for (const sql of statements) await DB.prepare(sql).run();
  };
  await run([...liveBalancesSql(account, 101), ...entriesSql(account, 100, 100)]);
  const ctx = makeCtx(app.environment, clock, DB);
  const first = await verifyUser(ctx, { userId: "busy" });
  expect(first).toMatchObject({ entries: 10_000, isSound: true, nextCursor: expect.any(String) });
  // Until now the last balance had an entry on the first page alone.
  await run(entriesSql(account, 101, 1));
  const second = await verifyUser(ctx, { userId: "busy", cursor: first.nextCursor ?? "" });
  expect(second).toMatchObject({ entries: 202, isSound: true, flaws: [], nextCursor: null });
});

it("the verification of a user rejects an empty, made-up or foreign cursor, and a missing userId", async () => {
  const app = await makeOwnApp();
  const verify = (query: string) => call("GET", `/api/v1/credits/verify?${query}`, { key: app.key });
  for (const cursor of ["", "x", "MTIzNDU2NzhbMF0"]) {
    expectError(await verify(`userId=u&cursor=${cursor}`), "invalid_request", "cursor");
  }
  const long = longUser(LONG[0]);
  const path = "/api/v1/credits/verify?userId=";
  const { nextCursor } = (await call("GET", `${path}long`, { key: long.app.key })).body;
  const foreign = await call("GET", `${path}other&cursor=${nextCursor}`, { key: long.app.key });
  expectError(foreign, "invalid_request", "cursor");
  expectError(await verify(""), "invalid_request", "userId");
});

describe("errors written without the triggers", () => {
  // Made while the triggers keep the books.
  const users: Awaited<ReturnType<typeof makeUser>>[] = [];
  let ofOwnShop: Awaited<ReturnType<typeof makeUser>>;
  const takeUser = () => {
    const user = users.pop();
    if (user === undefined) throw new Error("too few users were made");
    return user;
  };

  beforeAll(async () => {
    const shop = await makeShop();
    for (let count = 0; count < 16; count++) users.push(await makeUser(shop, `u${count}`));
    ofOwnShop = await makeUser(await makeShop());
    for (const userId of ["a", "z"]) {
      const body = { userId, packId: "Two" };
      const { key } = ofOwnShop.app;
      expect((await call("POST", "/api/v1/credits/grant", { key, body })).status).toBe(200);
    }
    const { results } = await DB.prepare(
      "SELECT name FROM sqlite_schema WHERE type = 'trigger' AND tbl_name IN ('credit_ledger', 'credit_balances')",
    ).all<{ name: string }>();
    expect(results.length).toBeGreaterThan(15);
    for (const { name } of results) await DB.prepare(`DROP TRIGGER ${name}`).run();
  });

  const set = (table: string, what: string, where: string) =>
    `UPDATE ${table} SET ${what} WHERE account_id = :account AND ${where}`;
  const insert = (seq: number, id: string, delta: number, after: number, previous: number) =>
    `INSERT INTO credit_ledger (account_id, seq, grant_seq, delta_minor, balance_after_minor, previous_seq, kind, written_by,
       occurred_at_ms)
     SELECT account_id, ${seq}, coalesce((SELECT grant_seq FROM credit_balances WHERE id = '${id}'), 99), ${delta}, ${after},
       ${previous}, ${ENTRY_KINDS.adjustment}, 1, occurred_at_ms
     FROM credit_ledger WHERE account_id = :account AND seq = 1`;

  it.each([
    [
      "a changed remainder",
      [set("credit_balances", "remaining_minor = remaining_minor + 1", "grant_seq = 1")],
      ["sum of A"],
    ],
    ["a changed delta", [set("credit_ledger", "delta_minor = delta_minor - 1", "seq = 3")], ["chain of A", "sum of A"]],
    [
      "a changed amount at issue",
      [set("credit_balances", "initial_minor = initial_minor + 1", "grant_seq = 2")],
      ["chain of B"],
    ],
    [
      "a changed balance after an entry",
      [set("credit_ledger", "balance_after_minor = balance_after_minor + 1", "seq = 6")],
      ["chain of B"],
    ],
    ["a changed link", [set("credit_ledger", "previous_seq = 1", "seq = 5")], ["chain of A"]],
    [
      "a missing entry",
      ["DELETE FROM credit_ledger WHERE account_id = :account AND seq = 3"],
      ["chain of A", "gap of null", "sum of A"],
    ],
    [
      "a missing last entry",
      ["DELETE FROM credit_ledger WHERE account_id = :account AND seq = 6"],
      ["gap of null", "sum of B"],
    ],
    [
      "a missing ledger",
      ["DELETE FROM credit_ledger WHERE account_id = :account"],
      ["gap of null", "sum of A", "sum of B"],
    ],
    ["an entry that did not change its balance", [insert(7, "A", -5_000, 55_000, 5)], ["sum of A"]],
    [
      "an entry of a balance that does not exist",
      [insert(7, "crb_nobody", -5_000, -5_000, 6)],
      ["below_zero of seq 99", "chain of seq 99", "sum of seq 99"],
    ],
    [
      "a grant of a balance that does not exist",
      [insert(7, "crb_nobody", 5, 5, 6), set("credit_ledger", "kind = 4, previous_seq = NULL", "seq = 7")],
      ["sum of seq 99"],
    ],
    [
      "an entry of another balance",
      [set("credit_ledger", "grant_seq = 2", "seq = 5")],
      ["chain of B", "sum of A", "sum of B"],
    ],
    [
      "an overdraft that a later entry covers",
      [
        set("credit_ledger", "delta_minor = -110000, balance_after_minor = -10000", "seq = 3"),
        set("credit_ledger", "delta_minor = 70000", "seq = 5"),
      ],
      ["below_zero of A"],
    ],
    [
      "a balance that names another last entry",
      [set("credit_balances", "last_seq = 3", "grant_seq = 1")],
      ["chain of A"],
    ],
    [
      "a balance that nobody granted",
      [
        `INSERT INTO credit_balances (account_id, id, pack_id, pack_name, pack_number, item_number, unit, matches, priority, initial_minor,
         remaining_minor, has_remaining, source_number, granted_at_ms, expires_at_ms, grant_seq, last_seq)
       SELECT account_id, 'crb_more' || account_id, pack_id, pack_name, pack_number, item_number, unit, matches, priority, 5, 5, 1, source_number,
         granted_at_ms, expires_at_ms, 7, 7 FROM credit_balances WHERE account_id = :account AND grant_seq = 1`,
      ],
      ["gap of null", "sum of MORE"],
    ],
  ] as const)("are found by kind and balance: %s", async (_name, planted, expected) => {
    const { app, userId, a, b } = takeUser();
    const statements = planted.map((sql) => sql.replaceAll("'A'", `'${a}'`).replaceAll("'B'", `'${b}'`));
    const found = await flawsAfter(app, userId, ...statements);
    const flaws = found.map((flaw) =>
      flaw
        .replace(a, "A")
        .replace(b, "B")
        .replace(/crb_more\d+/, "MORE"),
    );
    expect(flaws.sort()).toEqual([...expected].sort());
  });

  it.each(LONG)("are found on either side of a page's end, and nothing else: $balances balances", async (long) => {
    const { app, nameOf } = longUser(long);
    const pages = await pagesOf(app, "long");
    expect(pages.map(({ entries, isSound, balances }) => [entries, isSound, balances])).toEqual([
      [10_000, true, long.balances],
      [long.balances * (long.rounds + 1) - 10_000, true, 0],
    ]);
    // Each error is repaired before the next one is planted.
    const repairs: string[] = [];
    const flawsOf = (flaw: string) => flawsAfter(app, "long", ...repairs.splice(0), flaw);
    for (const seq of [10_000, 10_001, 10_002]) {
      const change = (by: string) => set("credit_ledger", by, `seq = ${seq}`);
      expect(await flawsOf(change("delta_minor = delta_minor - 1"))).toEqual([
        `chain of ${nameOf(seq)}`,
        `sum of ${nameOf(seq)}`,
      ]);
      repairs.push(change("delta_minor = delta_minor + 1"));
      expect(await flawsOf(change("previous_seq = previous_seq - 1"))).toEqual([`chain of ${nameOf(seq)}`]);
      repairs.push(change("previous_seq = previous_seq + 1"));
    }
    const after = set("credit_ledger", "balance_after_minor = balance_after_minor - 1", "seq = 9999");
    expect(await flawsOf(after)).toEqual([`chain of ${nameOf(9_999)}`]);
  });

  it("are found in the first entry of a page even if every balance had its last entry on the page before", async () => {
    const { app, nameOf } = longUser(EXACT);
    expect(await flawsAfter(app, "long", insert(10_001, nameOf(10_000), -7, 999_501 - 7, 10_000))).toEqual([
      `sum of ${nameOf(10_000)}`,
    ]);
  });

  it("are found in the first, a middle and the last of 10,500 balances", async () => {
    const flawed = [0, 6_000, MANY - 1].map((i) => seededId(many.account, "live", i));
    const sql =
      "UPDATE credit_balances SET remaining_minor = remaining_minor + 1 WHERE id IN (SELECT value FROM json_each(?))";
    await DB.prepare(sql).bind(JSON.stringify(flawed)).run();
    const { pages } = await pagesOfMany(many.app);
    expect(flawNames(pages.flatMap(({ flaws }) => flaws))).toEqual(flawed.map((id) => `sum of ${id}`).sort());
  });

  it("are found by the verification of an application, which lists all its users", async () => {
    const { app, a } = ofOwnShop;
    const post = (body: object) => admin("POST", `/${app.appId}/verify`, body);
    await flawsAfter(app, "u", set("credit_balances", "remaining_minor = remaining_minor + 1", "grant_seq = 1"));
    const { body } = await post({ mode: "live" });
    const soundUser = { balances: 2, isSound: true, flaws: [], nextCursor: null };
    expect(body).toEqual({
      users: [
        { userId: "a", ...soundUser, entries: 2 },
        { userId: "u", ...soundUser, entries: 6, isSound: false, flaws: [{ balanceId: a, kind: "sum" }] },
        { userId: "z", ...soundUser, entries: 2 },
      ],
      nextCursor: null,
    });
    expect((await post({ mode: "test" })).body).toEqual({ users: [], nextCursor: null });
  });
});

const verify = (appId: string, body: object) => admin("POST", `/${appId}/verify`, body);

it("the verification of an application continues within a user of more than a page, has at most fifty users a page, and adds nothing to the audit", async () => {
  const { app } = longUser(LONG[0]);
  const acts = () =>
    DB.prepare("SELECT count(*) AS count FROM admin_audit WHERE app_id = ?").bind(app.appId).first("count");
  const before = await acts();
  const newUsers = JSON.stringify(Array.from({ length: 120 }, (_, index) => `m${String(index).padStart(3, "0")}`));
  await DB.prepare("INSERT INTO accounts (environment_id, user_id) SELECT CAST(? AS INTEGER), value FROM json_each(?)")
    .bind(app.environment.id, newUsers)
    .run();
  const users: { userId: string; entries: number }[] = [];
  const sizes: number[] = [];
  let cursor: string | null = null;
  do {
    const answer = await verify(app.appId, { mode: "live", ...(cursor === null ? {} : { cursor }) });
    expect(answer.status, JSON.stringify(answer.body)).toBe(200);
    const body: { users: typeof users; nextCursor: string | null } = answer.body;
    users.push(...body.users);
    sizes.push(body.users.length);
    cursor = body.nextCursor;
  } while (cursor !== null);
  expect(new Set(users.map(({ userId }) => userId)).size).toBe(121);
  expect(users.slice(0, 2).map(({ userId, entries }) => [userId, entries])).toEqual([
    ["long", 10_000],
    ["long", 40],
  ]);
  expect(Math.max(...sizes)).toBe(50);
  expect(await acts()).toBe(before);
});

it("the verification of an application rejects an unknown application, an invalid mode, and an altered or foreign cursor", async () => {
  const { app } = longUser(LONG[0]);
  expectError(await verify("app_0000000000000000000000", { mode: "live" }), "not_found");
  expectError(await verify(app.appId, {}), "invalid_request", "mode");
  expectError(await verify(app.appId, { mode: "prod" }), "invalid_request", "mode");
  const { nextCursor } = (await verify(app.appId, { mode: "live" })).body;
  expectError(await verify(app.appId, { mode: "test", cursor: nextCursor }), "invalid_request", "cursor");
  expectError(await verify(app.appId, { mode: "live", cursor: `${nextCursor}A` }), "invalid_request", "cursor");
  expectError(await call("POST", `/api/v1/admin/apps/${app.appId}/verify`, { key: app.key, body: {} }), "invalid_key");
});

it("the cost of a verification is one trip a page, with rows for its entries and their balances", async () => {
  const { d1, spent } = countingD1(DB);
  for (const long of LONG) {
    const ctx = makeCtx(longUser(long).app.environment, clock, d1);
    let cursor: string | undefined;
    for (const entries of [10_000, long.balances * (long.rounds + 1) - 10_000]) {
      spent();
      const { nextCursor } = await verifyUser(ctx, { userId: "long", cursor });
      expect(spent()).toEqual({
        roundTrips: 1,
        rowsRead: expect.toSatisfy((read) => read <= 2 * entries + 12 * long.balances + 20),
        rowsWritten: 0,
      });
      cursor = nextCursor ?? undefined;
    }
  }
});

describeRejections("GET /api/v1/credits/verify", {
  prepare: () => ({ method: "GET", path: "/api/v1/credits/verify?userId=u" }),
  publishable: "requires_secret_key",
  stranger: (answer) => expect(answer.body).toMatchObject({ balances: 0, entries: 0 }),
});
