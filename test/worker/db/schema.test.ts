import { env } from "cloudflare:workers";
import { getTableColumns, is, Table } from "drizzle-orm";
import { getTableConfig, type SQLiteTable } from "drizzle-orm/sqlite-core";
import { afterAll, afterEach, beforeAll, describe, expect, it } from "vitest";
import { NEVER_MS } from "../../../src/books/ledger/balance.ts";
import { findConstraint } from "../../../src/db/attempt.ts";
import * as schema from "../../../src/db/schema.ts";
import { BALANCE_SOURCES, ENTRY_KINDS } from "../../../src/db/schema.ts";
import { expectLedgerInvariants } from "../../support/invariants.ts";

afterAll(expectLedgerInvariants);

const db = env.DB;
/** The rows of `everything` before the attacks since the last write, or null if there was none. */
let beforeAttacks: unknown = null;

/** Expects that the attacks since the last write changed nothing. */
async function expectUntouched(): Promise<void> {
  if (beforeAttacks !== null) expect(await everything()).toEqual(beforeAttacks);
  beforeAttacks = null;
}
afterEach(expectUntouched);

async function run(sql: string) {
  await expectUntouched();
  return db.prepare(sql).run();
}

const OWN_ACCOUNTS = "account_id BETWEEN 9000001 AND 9000099";
const OWN_ENVIRONMENTS = "environment_id BETWEEN -901 AND -900";

/** All of this file's rows, which an attack must not change. Other files have too many rows to read. */
async function everything(): Promise<unknown> {
  const tables = {
    accounts: `id BETWEEN 9000001 AND 9000099 OR ${OWN_ENVIRONMENTS}`,
    credit_balances: OWN_ACCOUNTS,
    credit_ledger: OWN_ACCOUNTS,
    credit_refunds: OWN_ACCOUNTS,
    consent_log: OWN_ENVIRONMENTS,
    export_audit: OWN_ENVIRONMENTS,
    environments: "app_id = 'app_schema'",
    admin_audit: "app_id IN ('app_audited', 'app_nobody_yet', 'app_other')",
  };
  const answers = await db.batch([
    ...Object.entries(tables).map(([table, where]) => db.prepare(`SELECT * FROM ${table} WHERE ${where}`)),
    // Attacks without a condition would also change these rows of other files.
    db.prepare("SELECT count(*), count(DISTINCT app_id), sum(seq), sum(actor = 'nobody') FROM admin_audit"),
    db.prepare("SELECT count(*) FROM environments"),
  ]);
  return answers.map((answer) => answer.results);
}

/** Runs a statement that must change nothing, which `expectUntouched` checks. Returns D1's error, or null. */
async function attack(sql: string): Promise<unknown> {
  beforeAttacks ??= await everything();
  return db
    .prepare(sql)
    .run()
    .then(
      () => null,
      (thrown: unknown) => thrown,
    );
}

/** Runs an attack that must be rejected. Returns D1's error. */
async function expectRejected(sql: string): Promise<Error> {
  const error = await attack(sql);
  if (!(error instanceof Error)) throw new Error(`The database took: ${sql}`);
  expect(error.message).toContain("SQLITE_CONSTRAINT");
  return error;
}

/** Accounts by the names of their users. No other test file uses these ids. */
const ACCOUNTS: Readonly<Record<string, number>> = Object.fromEntries(
  [
    "u",
    "other",
    "elsewhere",
    "moved",
    "revoked",
    "held",
    "spared",
    ...Array.from({ length: 6 }, (_, index) => `way ${index}`),
  ].map((user, index) => [user, 9_000_001 + index]),
);
const idOf = (user: string): number => ACCOUNTS[user] ?? Number.NaN;

const balanceColumns = `account_id, id, pack_id, pack_name, pack_number, item_number, unit, matches, priority,
  initial_minor, remaining_minor, has_remaining, source_number, external_ref, notes, granted_at_ms, expires_at_ms, revoked_at_ms,
  grant_seq, last_seq`;

interface NewBalance {
  readonly user?: string;
  readonly id: string;
  readonly seq: number;
  readonly minor?: number;
  readonly remaining?: number;
  readonly lastSeq?: number;
  readonly revoked?: string;
  readonly ref?: string;
  readonly unit?: string;
  readonly source?: number;
  readonly hasRemaining?: number;
}

function balance(verb: string, b: NewBalance): string {
  const { user = "u", minor = 1_000, unit = "count" } = b;
  return `${verb} INTO credit_balances (${balanceColumns}) VALUES (${idOf(user)}, '${b.id}', 'cpk_1', 'Pack', 1, 0, '${unit}', '[]',
    100, ${minor}, ${b.remaining ?? minor}, ${b.hasRemaining ?? 1}, ${b.source ?? BALANCE_SOURCES.manual},
    ${b.ref === undefined ? "NULL" : `'${b.ref}'`}, NULL, 1, ${NEVER_MS}, ${b.revoked ?? "NULL"}, ${b.seq},
    ${b.lastSeq ?? b.seq})`;
}

interface NewEntry {
  readonly user?: string;
  readonly id: string;
  readonly seq: number;
  readonly delta: number;
  readonly after: number;
  readonly previous: number | "NULL";
  readonly kind?: keyof typeof ENTRY_KINDS;
  readonly revoked?: 0 | 1;
  readonly reservation?: string;
}

function entry(verb: string, m: NewEntry): string {
  const { user = "u", kind = m.delta > 0 ? "adjustment" : "refund" } = m;
  return `${verb} INTO credit_ledger (account_id, seq, grant_seq, delta_minor,
    balance_after_minor, previous_seq, kind, written_by, occurred_at_ms, is_revoked, reservation_number) VALUES (${idOf(user)}, ${m.seq},
    coalesce((SELECT grant_seq FROM credit_balances WHERE id = '${m.id}'), 99), ${m.delta}, ${m.after}, ${m.previous},
    ${ENTRY_KINDS[kind]}, 0, 5, ${m.revoked ?? 0}, ${m.reservation === undefined ? "NULL" : `(SELECT reservation_number FROM reservations WHERE id = '${m.reservation}')`})`;
}

const WAYS = ["INSERT", "INSERT OR REPLACE", "INSERT OR IGNORE", "INSERT OR FAIL", "INSERT OR ABORT", "REPLACE"];

beforeAll(async () => {
  await run("INSERT INTO apps (id, name, created_at_ms) VALUES ('app_schema', 'S', 1)");
  for (const [id, mode] of [
    [-900, "live"],
    [-901, "test"],
  ]) {
    await run(`INSERT INTO environments (id, app_id, mode) VALUES (${id}, 'app_schema', '${mode}')`);
  }
  for (const [user, id] of Object.entries(ACCOUNTS)) {
    // The user of the other environment has the same name as the first user.
    const [environmentId, userId] = user === "elsewhere" ? [-901, "u"] : [-900, user];
    await run(`INSERT INTO accounts (id, environment_id, user_id) VALUES (${id}, ${environmentId}, '${userId}')`);
  }
  // Three balances of one user: whole, partly spent and empty.
  await run(balance("INSERT", { id: "crb_whole", seq: 1, ref: "order-1" }));
  await run(balance("INSERT", { id: "crb_part", seq: 2 }));
  await run(balance("INSERT", { id: "crb_empty", seq: 3 }));
  await run(entry("INSERT", { id: "crb_part", seq: 4, delta: -400, after: 600, previous: 2 }));
  await run(entry("INSERT", { id: "crb_empty", seq: 5, delta: -1_000, after: 0, previous: 3 }));
  for (const seq of [1, 2]) {
    await run(`INSERT INTO consent_log (environment_id, distinct_id, seq, id, purpose, decision, occurred_at_ms, received_at_ms)
      VALUES (-900, 'd', ${seq}, 'con_${seq}', 'analytics', 'granted', 1, 1)`);
    await run(`INSERT INTO export_audit (environment_id, distinct_id, seq, id, action, token_hash, occurred_at_ms)
      VALUES (-900, 'd', ${seq}, 'exp_${seq}', 'minted', 'hash', 1)`);
  }
});

it("a balance is changed by its ledger rows, and has credits again after it was emptied and refilled", async () => {
  await run(balance("INSERT", { user: "moved", id: "crb_moved", seq: 1 }));
  const stands = () =>
    db
      .prepare(
        "SELECT remaining_minor AS remaining, has_remaining AS hasRemaining, last_seq AS lastSeq FROM credit_balances WHERE id = 'crb_moved'",
      )
      .first();
  expect(await stands()).toEqual({ remaining: 1_000, hasRemaining: 1, lastSeq: 1 });
  const of = { user: "moved", id: "crb_moved" };
  await run(entry("INSERT", { ...of, seq: 2, delta: -1, after: 999, previous: 1 }));
  expect(await stands()).toEqual({ remaining: 999, hasRemaining: 1, lastSeq: 2 });
  await run(entry("INSERT", { ...of, seq: 3, delta: -999, after: 0, previous: 2 }));
  expect(await stands()).toEqual({ remaining: 0, hasRemaining: 0, lastSeq: 3 });
  await run(entry("INSERT", { ...of, seq: 4, delta: 0, after: 0, previous: 3 }));
  expect(await stands()).toEqual({ remaining: 0, hasRemaining: 0, lastSeq: 4 });
  await run(entry("INSERT", { ...of, seq: 5, delta: 7, after: 7, previous: 4 }));
  expect(await stands()).toEqual({ remaining: 7, hasRemaining: 1, lastSeq: 5 });
});

it.each([
  "remaining_minor = 5",
  "remaining_minor = remaining_minor - 1",
  "remaining_minor = remaining_minor",
  "remaining_minor = 0, has_remaining = 0",
  "has_remaining = 0",
  "last_seq = 1",
  "last_seq = 4",
  "last_seq = 6",
  "remaining_minor = 600, last_seq = 4",
  "remaining_minor = 1000, last_seq = 2",
])("a balance is changed by nothing but the ledger: UPDATE … SET %s", async (set) => {
  for (const verb of ["UPDATE", "UPDATE OR REPLACE", "UPDATE OR IGNORE", "UPDATE OR FAIL"]) {
    for (const id of ["crb_whole", "crb_part", "crb_empty"]) {
      await expectRejected(`${verb} credit_balances SET ${set} WHERE id = '${id}'`);
    }
  }
});

it("a balance keeps all values of its issue", async () => {
  const movable = ["remaining_minor", "has_remaining", "last_seq", "revoked_at_ms"];
  const frozen = getTableConfig(schema.creditBalances)
    .columns.filter(({ name, generated }) => generated === undefined && !movable.includes(name))
    .map((column) => column.name);
  expect(frozen).toHaveLength(19);
  for (const column of frozen) {
    for (const verb of ["UPDATE", "UPDATE OR REPLACE", "UPDATE OR IGNORE"]) {
      const error = await expectRejected(`${verb} credit_balances SET ${column} = ${column} WHERE id = 'crb_whole'`);
      expect(error.message).toContain("credit_balances_frozen");
    }
  }
});

it("a balance is never deleted", async () => {
  for (const where of ["", " WHERE id = 'crb_empty'", " WHERE remaining_minor = 0"]) {
    expect((await expectRejected(`DELETE FROM credit_balances${where}`)).message).toContain("credit_balances_kept");
  }
});

it("a balance is never replaced, by its id, its key or its externalRef", async () => {
  for (const verb of WAYS) {
    for (const user of ["u", "other"]) {
      const error = await expectRejected(balance(verb, { user, id: "crb_whole", seq: user === "u" ? 6 : 1 }));
      expect(error.message).toContain("credit_balances_id");
    }
    const error = await expectRejected(balance(verb, { id: "crb_new", seq: 6, ref: "order-1" }));
    expect(findConstraint(error)).toBe("credit_balances_external_ref");
  }
  await expectRejected(
    `${balance("INSERT", { id: "crb_whole", seq: 6 })} ON CONFLICT (id) DO UPDATE SET remaining_minor = 5`,
  );
});

it("a balance begins with all of its credits, a positive amount, and the next seq of its user", async () => {
  const wrong: Omit<NewBalance, "id">[] = [
    { seq: 6, remaining: 999 },
    { seq: 6, remaining: 1_001 },
    { seq: 6, remaining: 0, hasRemaining: 0 },
    { seq: 6, lastSeq: 5 },
    { seq: 6, revoked: "1" },
    { seq: 6, hasRemaining: 0 },
    { seq: 6, minor: 0, hasRemaining: 0 },
    { seq: 6, minor: -1, hasRemaining: 0 },
    { seq: 6, minor: 8_796_093_022_208_001 },
    { seq: 6, minor: 8_589_934_592_000_001, unit: "cents" },
    { seq: 6, unit: "minutes" },
    { seq: 6, source: 4 },
    { seq: 7 },
    { seq: 5 },
    { seq: 0 },
  ];
  for (const columns of wrong) {
    for (const verb of WAYS.filter((way) => way !== "INSERT OR IGNORE")) {
      await expectRejected(balance(verb, { id: "crb_new", ...columns }));
    }
    // OR IGNORE may skip the row silently, but must not store it.
    await attack(balance("INSERT OR IGNORE", { id: "crb_new", ...columns }));
  }
});

it("a balance is revoked once, by an entry that leaves nothing, and by nothing else", async () => {
  const of = { user: "revoked", id: "crb_revoked" };
  await run(balance("INSERT", { ...of, seq: 1 }));
  await expectRejected("UPDATE credit_balances SET revoked_at_ms = 5 WHERE id = 'crb_revoked'");
  await expectRejected(entry("INSERT", { ...of, seq: 2, delta: -1, after: 999, previous: 1, revoked: 1 }));
  await run(entry("INSERT", { ...of, seq: 2, delta: -1_000, after: 0, previous: 1 }));
  await expectRejected("UPDATE credit_balances SET revoked_at_ms = 5 WHERE id = 'crb_revoked'");
  await run(entry("INSERT", { ...of, seq: 3, delta: 0, after: 0, previous: 2, revoked: 1 }));
  const stored = db.prepare("SELECT revoked_at_ms AS atMs FROM credit_balances WHERE id = 'crb_revoked'");
  expect(await stored.first()).toEqual({ atMs: 5 });
  // A ledger row does not undo it.
  await expectRejected(entry("INSERT", { ...of, seq: 4, delta: 0, after: 0, previous: 3 }));
  for (const value of ["6", "NULL", "5"]) {
    const error = await expectRejected(`UPDATE credit_balances SET revoked_at_ms = ${value} WHERE id = 'crb_revoked'`);
    expect(findConstraint(error)).toBe("credit_balances_revoked_once");
  }
});

it("the ledger is never updated", async () => {
  for (const verb of ["UPDATE", "UPDATE OR REPLACE", "UPDATE OR IGNORE", "UPDATE OR FAIL"]) {
    for (const set of ["note = 'x'", "delta_minor = delta_minor", "seq = seq + 10", "account_id = account_id + 1"]) {
      expect((await expectRejected(`${verb} credit_ledger SET ${set}`)).message).toContain("credit_ledger_append_only");
    }
  }
});

it("the ledger is never deleted from, in part or completely", async () => {
  for (const where of ["", " WHERE seq = 5", ` WHERE account_id = ${idOf("u")}`]) {
    expect((await expectRejected(`DELETE FROM credit_ledger${where}`)).message).toContain("credit_ledger_append_only");
  }
});

it.each(WAYS)("the ledger accepts no row that is out of order or wrong: %s", async (verb) => {
  const good: NewEntry = { id: "crb_part", seq: 6, delta: -100, after: 500, previous: 4 };
  const wrong: Partial<NewEntry>[] = [
    { seq: 1 },
    { seq: 4 },
    { seq: 5 },
    { seq: 7 },
    { seq: 0 },
    { seq: -1 },
    { after: 501 },
    { after: 600 },
    { delta: 100 },
    { delta: 0 },
    { previous: 2 },
    { previous: 5 },
    { previous: "NULL" },
    { id: "crb_whole" },
    { id: "crb_nobody" },
    { user: "other", seq: 1 },
    { user: "elsewhere", seq: 1 },
    // Entries of a grant, for a balance that exists and for one that does not.
    { kind: "grant" },
    { kind: "grant", delta: 600, after: 600, previous: "NULL" },
    { kind: "grant", id: "crb_whole", delta: 1_000, after: 1_000, previous: "NULL" },
    { kind: "grant", id: "crb_whole", seq: 1, delta: 1_000, after: 1_000, previous: "NULL" },
    { kind: "grant", id: "crb_nobody", delta: 1_000, after: 1_000, previous: "NULL" },
  ];
  for (const change of wrong) await expectRejected(entry(verb, { ...good, ...change }));
});

it.each(WAYS)(
  "the ledger accepts no row that would bring a balance below zero or beyond its bounds: %s",
  async (verb) => {
    const below = entry(verb, { id: "crb_part", seq: 6, delta: -601, after: -1, previous: 4 });
    expect(findConstraint(await expectRejected(below))).toBe("credit_balances_remaining_not_negative");
    const far = entry(verb, { id: "crb_empty", seq: 6, delta: -1, after: -1, previous: 5 });
    expect(findConstraint(await expectRejected(far))).toBe("credit_balances_remaining_not_negative");
    const top = 8_796_093_022_208_000;
    const above = entry(verb, { id: "crb_part", seq: 6, delta: top - 599, after: top + 1, previous: 4 });
    expect(findConstraint(await expectRejected(above))).toBe("credit_balances_remaining_within_bounds");
  },
);

it("the ledger changes the balance even if the row is inserted with a conflict clause", async () => {
  for (const [index, verb] of WAYS.entries()) {
    const of = { user: `way ${index}`, id: `crb_way_${index}` };
    await run(balance("INSERT", { ...of, seq: 1 }));
    await run(entry(verb, { ...of, seq: 2, delta: -1_000, after: 0, previous: 1 }));
  }
  await expectLedgerInvariants();
});

const TOP = 8_796_093_022_208_000;
// The cron of other tests must not settle these reservations.
const NEVER_DUE_MS = 9_000_000_000_000;
const hold = (account: string, id: string, state: string, legs: readonly [grantSeq: number, minor: number][]) =>
  run(`INSERT INTO reservations (environment_id, id, account_id, reservation_number, event, quantities, legs, state, created_at_ms,
      expires_at_ms, request_hash) VALUES (-900, '${id}', ${idOf(account)},
      (SELECT 1 + count(*) FROM reservations WHERE account_id = ${idOf(account)}), 'e', '{}',
      '${JSON.stringify(legs.map(([grantSeq, steps]) => [grantSeq, 0, steps, 0]))}', '${state}', 1, ${NEVER_DUE_MS}, '')`);

const expire = (id: string) => `UPDATE reservations SET state = 'expired', settled_at_ms = 9,
    settled_seq = (SELECT 1 + max(seq) FROM credit_ledger AS l WHERE l.account_id = reservations.account_id)
    WHERE environment_id = -900 AND id = '${id}'`;

it("the held amount of a balance keeps its room to return: no adjustment uses it, with any conflict clause", async () => {
  const of = { user: "held", id: "crb_held" };
  await run(balance("INSERT", { ...of, seq: 1, minor: TOP }));
  await run(balance("INSERT", { ...of, id: "crb_beside", seq: 2 }));
  await run(entry("INSERT", { ...of, seq: 3, delta: -50, after: TOP - 50, previous: 1, kind: "hold" }));
  await hold("held", "res_a", "open", [
    [2, 900],
    [1, 10],
  ]);
  await hold("held", "res_b", "open", [[1, 20]]);
  // The first is released, and the second is another user's. Neither holds credits of this balance.
  await hold("held", "res_c", "released", [[1, 7]]);
  await hold("other", "res_d", "open", [[1, 7]]);
  for (const verb of WAYS) {
    for (const delta of [21, 22, 50]) {
      const error = await expectRejected(entry(verb, { ...of, seq: 4, delta, after: TOP - 50 + delta, previous: 3 }));
      expect(findConstraint(error)).toBe("credit_balances_remaining_within_bounds");
    }
  }
  await run(entry("INSERT", { ...of, seq: 4, delta: 20, after: TOP - 30, previous: 3 }));
  await expectRejected(entry("INSERT", { ...of, seq: 5, delta: 1, after: TOP - 29, previous: 4 }));
  // All held credits return, and a balance may be lowered at any time.
  await run(entry("INSERT", { ...of, id: "crb_beside", seq: 5, delta: -900, after: 100, previous: 2 }));
  const back = (reservation: string) => ({ ...of, reservation, kind: "expired" as const });
  await run(expire("res_a"));
  await run(entry("INSERT", { ...back("res_a"), id: "crb_beside", seq: 6, delta: 900, after: 1_000, previous: 5 }));
  await run(entry("INSERT", { ...back("res_a"), seq: 7, delta: 10, after: TOP - 20, previous: 4 }));
  await run(expire("res_b"));
  await run(entry("INSERT", { ...back("res_b"), seq: 8, delta: 20, after: TOP, previous: 7 }));
  await run(entry("INSERT", { ...of, seq: 9, delta: -1, after: TOP - 1, previous: 8 }));
});

it("the held amount of a balance is the only amount that returns to a revoked balance: no adjustment raises it, with any conflict clause", async () => {
  const of = { user: "spared", id: "crb_spared" };
  await run(balance("INSERT", { ...of, seq: 1 }));
  await run(entry("INSERT", { ...of, seq: 2, delta: -300, after: 700, previous: 1, kind: "hold" }));
  await run(entry("INSERT", { ...of, seq: 3, delta: -700, after: 0, previous: 2, revoked: 1 }));
  for (const verb of WAYS) {
    for (const delta of [1, 300]) {
      const error = await expectRejected(entry(verb, { ...of, seq: 4, delta, after: delta, previous: 3, revoked: 1 }));
      expect(findConstraint(error)).toBe("credit_balances_revoked");
    }
  }
  // A hold returns, and is taken away at once.
  await hold("spared", "res_spared", "open", [[1, 300]]);
  await run(expire("res_spared"));
  const back = { ...of, reservation: "res_spared", kind: "expired" as const, revoked: 1 as const };
  await run(entry("INSERT", { ...back, seq: 4, delta: 300, after: 300, previous: 3 }));
  await run(entry("INSERT", { ...of, seq: 5, delta: -300, after: 0, previous: 4, revoked: 1 }));
  for (const verb of WAYS) {
    const error = await expectRejected(entry(verb, { ...of, seq: 6, delta: 1, after: 1, previous: 5, revoked: 1 }));
    expect(findConstraint(error)).toBe("credit_balances_revoked");
  }
});

const refund = (verb: string, ordinal: number, refundRef: string, share = "1, 3") => `${verb} INTO credit_refunds (
      account_id, external_ref, ordinal, refund_ref, pack_ids, part, of_parts, first_seq, last_seq, request_hash
    ) VALUES (${idOf("other")}, 'order-1', ${ordinal}, '${refundRef}', '[]', ${share}, 1, 1, 'hash')`;

it("a refund is the next of its reference, with a unique name, and at most the hundredth", async () => {
  await run(refund("INSERT", 1, "a"));
  for (const verb of WAYS) {
    for (const [ordinal, name] of [
      [1, "b"],
      [3, "b"],
      [2, "a"],
    ] as const) {
      expect(findConstraint(await expectRejected(refund(verb, ordinal, name)))).toBe("credit_refunds_gapless");
    }
  }
  for (const share of ["4, 3", "0, 3", "1, NULL", "NULL, 3"]) await expectRejected(refund("INSERT", 2, "b", share));
  for (let ordinal = 2; ordinal <= 100; ordinal++) await run(refund("INSERT", ordinal, `n${ordinal}`));
  expect((await expectRejected(refund("INSERT", 101, "b"))).message).toContain("credit_refunds_ordinal_max");
});

it("a refund is never changed and never deleted", async () => {
  for (const sql of ["UPDATE credit_refunds SET part = part", "DELETE FROM credit_refunds"]) {
    expect((await expectRejected(sql)).message).toContain("credit_refunds_append_only");
  }
});

describe("an account", () => {
  const insert = (verb: string, id: number | null, environmentId: number, user: string) =>
    `${verb} INTO accounts (id, environment_id, user_id) VALUES (${id ?? "NULL"}, ${environmentId}, '${user}')`;

  it("is one for each user of an environment, and is never replaced: its integer never changes", async () => {
    for (const verb of WAYS) {
      // A second integer for the same user, and another user for a used integer.
      for (const id of [null, 9_100_000, idOf("other")]) await expectRejected(insert(verb, id, -900, "u"));
      await expectRejected(insert(verb, idOf("u"), -900, "newcomer"));
      await expectRejected(insert(verb, idOf("u"), -902, "u"));
    }
    await expectRejected(`${insert("INSERT", null, -900, "u")} ON CONFLICT DO UPDATE SET id = 9100000`);
  });

  it("keeps its integer and its environment, and cannot take another user's name", async () => {
    for (const verb of ["UPDATE", "UPDATE OR REPLACE", "UPDATE OR IGNORE", "UPDATE OR FAIL"]) {
      for (const set of [
        "id = 9100000",
        "rowid = 9100000",
        `id = ${idOf("other")}`,
        "environment_id = -901",
        "user_id = 'other'",
      ]) {
        await expectRejected(`${verb} accounts SET ${set} WHERE id = ${idOf("u")}`);
      }
      await expectRejected(`${verb} accounts SET environment_id = -902`);
    }
  });

  it("is never deleted, because the next user would get its integer and its books", async () => {
    for (const where of ["", ` WHERE id = ${idOf("u")}`, ` WHERE id = ${idOf("elsewhere")}`]) {
      await expectRejected(`DELETE FROM accounts${where}`);
    }
  });

  it("is required: balances and entries without an account are rejected", async () => {
    const nobody = { user: "nobody", id: "crb_nobody", seq: 1 };
    await expectRejected(balance("INSERT", nobody).replace("NaN", "NULL"));
    await expectRejected(entry("INSERT", { ...nobody, delta: 1, after: 1, previous: "NULL" }).replace("NaN", "NULL"));
  });
});

describe.each([
  { table: "consent_log", columns: "id, purpose, decision, received_at_ms", values: "'con_3', 'ads', 'denied', 1" },
  { table: "export_audit", columns: "id, action, token_hash", values: "'exp_3', 'opened', 'hash'" },
])("$table", ({ table, columns, values }) => {
  const insert = (verb: string, seq: number, id = "d") =>
    `${verb} INTO ${table} (environment_id, distinct_id, seq, occurred_at_ms, ${columns}) VALUES (-900, '${id}', ${seq}, 1, ${values})`;

  it("is never updated or deleted from", async () => {
    for (const sql of [
      `UPDATE ${table} SET occurred_at_ms = 2`,
      `UPDATE OR REPLACE ${table} SET seq = 1 WHERE seq = 2`,
      `UPDATE OR IGNORE ${table} SET distinct_id = 'other'`,
      `DELETE FROM ${table}`,
      `DELETE FROM ${table} WHERE seq = 2`,
    ]) {
      expect((await expectRejected(sql)).message).toContain(`${table}_append_only`);
    }
  });

  it("accepts only the next row of its person, with any conflict clause", async () => {
    for (const verb of WAYS) {
      for (const seq of [0, 1, 2, 4, -1]) {
        expect(findConstraint(await expectRejected(insert(verb, seq)))).toBe(`${table}_seq_gapless`);
      }
      await expectRejected(insert(verb, 2, "nobody yet"));
    }
    await expectRejected(`${insert("INSERT", 2)} ON CONFLICT DO UPDATE SET occurred_at_ms = 9`);
  });
});

describe("admin_audit", () => {
  const insert = (verb: string, seq: number, id: string, app = "app_audited") =>
    `${verb} INTO admin_audit (app_id, seq, id, at_ms, actor, action, target, details)
     VALUES ('${app}', ${seq}, '${id}', 1, 'api', 'key.created', 'key_1', '{}')`;

  beforeAll(async () => {
    for (const seq of [1, 2]) await run(insert("INSERT", seq, `aud_${seq}`));
  });

  it("is never updated or deleted from", async () => {
    for (const sql of [
      "UPDATE admin_audit SET actor = 'nobody'",
      "UPDATE OR REPLACE admin_audit SET seq = 1 WHERE seq = 2",
      "UPDATE OR IGNORE admin_audit SET app_id = 'app_other'",
      "DELETE FROM admin_audit",
      "DELETE FROM admin_audit WHERE seq = 2",
    ]) {
      expect((await expectRejected(sql)).message).toContain("admin_audit_append_only");
    }
  });

  it("accepts only the next row of its application, with any conflict clause", async () => {
    for (const verb of WAYS) {
      for (const seq of [0, 1, 2, 4, -1]) {
        expect((await expectRejected(insert(verb, seq, "aud_3"))).message).toContain("admin_audit_seq_gapless");
      }
      await expectRejected(insert(verb, 2, "aud_3", "app_nobody_yet"));
    }
    await expectRejected(`${insert("INSERT", 2, "aud_3")} ON CONFLICT DO UPDATE SET at_ms = 9`);
  });

  it("accepts no second row of one action", async () => {
    for (const verb of WAYS) {
      expect((await expectRejected(insert(verb, 3, "aud_1"))).message).toContain("admin_audit_id");
    }
    await expectRejected(`${insert("INSERT", 3, "aud_1")} ON CONFLICT (app_id, id) DO UPDATE SET at_ms = 9`);
  });
});

const set = (by: string | null, isVerified: 0 | 1, version: number, verb = "UPDATE") => `${verb} distinct_ids
    SET claimed_by = ${by === null ? "NULL" : `'${by}'`}, claimed_via = ${by === null ? "NULL" : "'alias'"},
      claimed_at_ms = ${by === null ? "NULL" : 1}, claim_is_verified = ${isVerified}, claim_version = ${version}
    WHERE environment_id = -900 AND distinct_id = 'claimed'`;
const stand = () =>
  db
    .prepare("SELECT claimed_by AS by, claim_is_verified AS isVerified FROM distinct_ids WHERE distinct_id = 'claimed'")
    .first();

it("a claim can end or be replaced by a verified one, which stays, and each change must give the next version", async () => {
  for (const id of ["claimed", "one", "other"]) {
    await run(`INSERT INTO distinct_ids (environment_id, distinct_id, is_device_form, first_seen_at_ms, last_seen_at_ms)
        VALUES (-900, '${id}', 1, 1, 1)`);
  }
  await run(set("one", 0, 1));
  for (const verb of ["UPDATE", "UPDATE OR REPLACE", "UPDATE OR IGNORE"]) {
    for (const [by, isVerified, version] of [
      ["other", 0, 2],
      ["other", 1, 1],
      ["other", 1, 3],
      [null, 0, 1],
    ] as const) {
      await expectRejected(set(by, isVerified, version, verb));
    }
  }
  await run(set(null, 0, 2));
  await run(set("one", 0, 3));
  await run(set("other", 1, 4));
  for (const [by, isVerified] of [
    ["one", 1],
    ["other", 0],
    [null, 0],
  ] as const) {
    await expectRejected(set(by, isVerified, 5));
  }
  expect(await stand()).toEqual({ by: "other", isVerified: 1 });
});

it("the first migration rejects a database of an earlier release with the reason, on every attempt", async () => {
  const words = "This database was made by an earlier release of Purser, which nobody runs";
  const [first] = env.TEST_MIGRATIONS;
  const statements = first?.queries ?? [];
  // The statements that come before Purser's first table.
  const check = statements.findIndex((query) => query.includes("DROP TABLE `release_check`"));
  expect(check).toBeGreaterThan(0);
  const migrate = async () => {
    for (const query of statements.slice(0, check + 1)) await run(query);
  };
  for (const table of ["persons", "payment_debts"]) {
    await run(`CREATE TABLE ${table} (id TEXT) STRICT`);
    for (let time = 0; time < 2; time++) await expect(migrate()).rejects.toThrow(words);
    await run(`DROP TABLE ${table}`);
  }
  await migrate();
  await expect(run("SELECT * FROM release_check")).rejects.toThrow("no such table");
});

const tables = Object.values<unknown>(schema).filter((value): value is SQLiteTable => is(value, Table));

it("the tables are STRICT, and WITHOUT ROWID except those with integers made by SQLite and those with large rows", async () => {
  const { results } = await db
    .prepare("SELECT name, wr AS withoutRowid, strict FROM pragma_table_list WHERE schema = 'main' AND type = 'table'")
    .all<{ name: string; withoutRowid: number; strict: number }>();
  const ownTables = results.filter((row) => !/^(sqlite_|_cf_|d1_)/.test(row.name));
  expect(ownTables.map((row) => row.name).sort()).toEqual(tables.map((table) => getTableConfig(table).name).sort());
  // A tree without rowids holds whole rows in its inner pages.
  const withRowids = [
    ...["accounts", "environments", "analytics_events", "id_properties", "large_properties"],
    ...["payment_facts", "price_lists", "stripe_settings"],
  ];
  for (const row of ownTables) {
    expect(row, row.name).toMatchObject({ strict: 1, withoutRowid: withRowids.includes(row.name) ? 0 : 1 });
  }
});

it("the tables name each column like its field, in snake case", () => {
  const nameOf = (field: string): string => field.replace(/[A-Z]/g, (letter) => `_${letter.toLowerCase()}`);
  for (const table of tables) {
    for (const [field, column] of Object.entries(getTableColumns(table))) {
      expect(column.name, getTableConfig(table).name).toBe(nameOf(field));
    }
  }
});

it("the tables have the columns, keys and indexes of src/db/schema.ts", async () => {
  for (const table of tables) {
    const config = getTableConfig(table);
    const { results: columns } = await db
      .prepare(`SELECT name, lower(type) AS type, "notnull" AS isNotNull, pk FROM pragma_table_xinfo('${config.name}')`)
      .all<{ name: string; type: string; isNotNull: number; pk: number }>();
    expect(
      columns.map(({ name, type, isNotNull }) => ({ name, type, isNotNull: isNotNull === 1 })),
      config.name,
    ).toEqual(
      config.columns.map((column) => ({ name: column.name, type: column.getSQLType(), isNotNull: column.notNull })),
    );
    const key = columns.filter((column) => column.pk > 0).sort((a, b) => a.pk - b.pk);
    const expected = config.primaryKeys[0]?.columns ?? config.columns.filter((column) => column.primary);
    expect(key.map((column) => column.name)).toEqual(expected.map((column) => column.name));

    const { results: indexes } = await db
      .prepare(
        `SELECT name, "unique" AS isUnique, partial FROM pragma_index_list('${config.name}') WHERE origin = 'c' ORDER BY name`,
      )
      .all<{ name: string; isUnique: number; partial: number }>();
    expect(indexes).toEqual(
      config.indexes
        .map(({ config: index }) => ({
          name: index.name,
          isUnique: index.unique ? 1 : 0,
          partial: index.where === undefined ? 0 : 1,
        }))
        .sort((a, b) => (a.name < b.name ? -1 : 1)),
    );
  }
});
