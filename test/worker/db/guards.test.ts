import { applyD1Migrations } from "cloudflare:test";
import { env } from "cloudflare:workers";
import { beforeAll, expect, it } from "vitest";
import { BALANCE_SOURCES, ENTRY_KINDS } from "../../../src/db/schema.ts";
import {
  account,
  adjustment,
  adminAudit,
  adminKey,
  analyticsEvent,
  balance,
  claim,
  consent,
  counted,
  distinctId,
  entry,
  environment,
  erasing,
  erasure,
  erasureId,
  erasureName,
  exportAudit,
  GRANT_SEQS,
  idProperties,
  item,
  key,
  LAST_SEQ,
  LIVE,
  largeProperties,
  logged,
  member,
  OTHER,
  owed,
  PART,
  pack,
  payer,
  payment,
  paymentGrant,
  paymentName,
  priceList,
  REVOKED,
  recurring,
  refund,
  reservation,
  TEST,
  tombstone,
  USER,
  usageEvent,
  usageLimit,
  WHOLE,
  webhookDelivery,
  webhookEndpoint,
  world,
} from "../../support/attacked-world.ts";

/**
 * Attacks every trigger, CHECK, unique index and foreign key of the database (docs/reliability.md). Each attack is a batch that is
 * rejected, so the world of all attacks stays as it is. It is not in `env.DB`, because other files would find its rows there.
 */
const db = env.CROWDED;

beforeAll(async () => {
  await applyD1Migrations(db, env.TEST_MIGRATIONS);
  // SQLite gives the next rows of other files the next integers, which should be positive.
  const positive = 9_000_000;
  const texts = [
    ...world,
    environment({ id: positive, app_id: "app_other" }),
    account({ id: positive, environment_id: positive, user_id: "other" }),
  ];
  await db.batch(texts.map((text) => db.prepare(text)));
});

/** The result of a batch whose statements all passed. */
const PASSED = "no such table: passed";
const holds = (condition: string) => `INSERT INTO guards (name, holds) SELECT 'account', ${condition}`;

const countedEvent = (given: object) => usageEvent({ seq: 3, event_id: "e_new", counted: counted(given) });
const counterHas = (condition: string) =>
  holds(`(SELECT ${condition} FROM usage_counters WHERE account_id = ${USER} AND limit_id = 'lim_w')`);
/** Sums the user's events up to `seq`. The mark is at 1 before. */
const summed = (seq: number) => `INSERT INTO usage_summed VALUES (${LIVE}, ${USER}, ${seq}, 1)`;
const markIs = (condition: string) =>
  holds(`EXISTS (SELECT 1 FROM usage_to_sum WHERE account_id = ${USER} AND ${condition})`);

/** Expects that a user `new` has an account after this statement, which only the trigger makes. */
const makesAccount = (sql: string) => ({
  says: PASSED,
  sql: [[sql, holds(`EXISTS (SELECT 1 FROM accounts WHERE environment_id = ${LIVE} AND user_id = 'new')`)]],
  behind: "guard_account",
});

/** The database's error for the attack, or `PASSED`. */
async function outcome(...statements: readonly string[]): Promise<string> {
  const texts = [...statements, "SELECT 1 FROM passed"];
  const error: unknown = await db.batch(texts.map((text) => db.prepare(text))).then(
    () => null,
    (thrown: unknown) => thrown,
  );
  if (!(error instanceof Error)) throw new Error("The batch was let through.");
  return error.message;
}

interface Attack {
  /** Each element is an attack of its own: a statement, or several. */
  readonly sql: readonly (string | readonly string[])[];
  readonly says: string;
  /** The error that the attack gets without this trigger, if another guard still rejects it. */
  readonly behind?: string;
}

const REPLACE = "INSERT OR REPLACE";
const WAYS = ["INSERT", REPLACE, "INSERT OR FAIL", "REPLACE"];
const nextEntry = { seq: LAST_SEQ + 1, delta_minor: -90, balance_after_minor: 500, previous_seq: 6 };
const ofRevoked = { seq: LAST_SEQ + 1, grant_seq: GRANT_SEQS[REVOKED], previous_seq: LAST_SEQ, is_revoked: 1 };
const third = { seq: 3, event_id: "e3" };
const settleSql = (state: string) => `UPDATE reservations
  SET state = '${state}', settled_at_ms = 5, settled_seq = ${LAST_SEQ + 1} WHERE id = 'res_w'`;
const released = { kind: ENTRY_KINDS.released, reservation_number: 1 };
/** Inserts an entry that returns what the reservation holds of one balance. */
const returned = (given: Parameters<typeof entry>[0], verb?: string) =>
  entry(
    {
      seq: LAST_SEQ + 1,
      previous_seq: 6,
      delta_minor: 10,
      balance_after_minor: 600,
      ...released,
      ...given,
    },
    verb,
  );
const TOP = 8_796_093_022_208_000;

/** Each statement, sent while an erasure of the user is running. */
const whileErasing = (...sql: readonly string[]): string[][] => sql.map((statement) => [...erasing, statement]);
/** Attacks on columns that name a person: without an erasure, and during one, in ways that it must not. */
function namesErased(
  table: string,
  says: string,
  sets: readonly string[],
  amid: readonly string[],
  ofMember: readonly (readonly string[])[] = [],
): Record<string, Attack> {
  const update = (set: string): string => `UPDATE ${table} SET ${set}`;
  const sql = [...sets.map(update), ...whileErasing(...amid.map(update)), ...ofMember];
  return { [`${table}_names_erased`]: { says, sql } };
}

/** Hashes of an event's and of a reservation's id, as an erasure of a member has them (ME6). */
const HASH = "h".repeat(43);
const RES_HASH = `res_${HASH}`;
/** The member, whose id is being erased, has an event, a charge and a reservation. */
const erasingMember = [
  usageEvent({ ...third, member_number: 1, reservation_id: "res_m" }),
  usageEvent({ seq: 4, event_id: "res_c", reservation_id: "res_c", member_number: 1 }),
  reservation({ id: "res_m", reservation_number: 2, member_number: 1 }),
  "UPDATE members SET member_id = 'erased_m', is_erased = 1",
];
const whileErasingMember = (...sql: readonly string[]) => sql.map((statement) => [...erasingMember, statement]);
const hashEvent = (ids: string, rest = "request_hash = ''", verb = "UPDATE") =>
  `${verb} usage_events SET ${ids}, ${rest} WHERE event_id = 'e3'`;
const eventIds = `event_id = '${HASH}', reservation_id = '${RES_HASH}'`;
const hashReservation = (id: string, rest = "request_hash = ''", verb = "UPDATE") =>
  `${verb} reservations SET id = '${id}', ${rest} WHERE reservation_number = 2`;
const memberIsErased = "UPDATE members SET is_erased = 2";

const OF_LIVE = `WHERE environment_id = ${LIVE}`;
// Other files leave recurring grants in the database, in other states.
const OF_USER = `WHERE account_id = ${USER}`;

/** Attacks on a log whose rows an erasure puts under the hash of the erased id. */
/** The event of the id `a` is counted, and a verified event with its UUID arrives. */
const eventIsCounted = `UPDATE distinct_ids SET event_count = 1 ${OF_LIVE} AND distinct_id = 'a'`;
const verifiedEvent = analyticsEvent({ seq: 2, is_verified: 1 });

function nameErased(table: string): Record<string, Attack> {
  const update = (set: string): string => `UPDATE ${table} SET ${set} ${OF_LIVE}`;
  const other = `INSERT INTO ${table} SELECT environment_id, 'hash_a', `;
  return {
    [`${table}_name_erased`]: {
      says: `${table}_append_only`,
      sql: [
        update("distinct_id = 'hash_a'"),
        update("seq = 2"),
        ...whileErasing(update("distinct_id = 'hash_u'"), update("seq = 2")),
        [
          ...erasing,
          `${other}${columnsOf[table]} FROM ${table} ${OF_LIVE}`,
          `UPDATE OR REPLACE ${table} SET distinct_id = 'hash_a' ${OF_LIVE} AND distinct_id = 'a'`,
        ],
      ],
    },
  };
}
const columnsOf: Readonly<Record<string, string>> = {
  consent_log:
    "seq, id, purpose, decision, method, notice_version, source, gpc, is_device, day_place, occurred_at_ms, received_at_ms",
  export_audit: "seq, id, action, token_hash, key_id, occurred_at_ms, expires_at_ms",
};

function frozen(table: string, columns: readonly string[], says = `${table}_append_only`): Record<string, Attack> {
  return {
    [`${table}_frozen`]: { says, sql: columns.map((column) => `UPDATE ${table} SET ${column} = ${column}`) },
    [`${table}_no_delete`]: { says, sql: [`DELETE FROM ${table}`] },
  };
}

function appendOnly(table: string, columns: readonly string[]): Record<string, Attack> {
  const says = `${table}_append_only`;
  return {
    [`${table}_no_update`]: { says, sql: columns.map((column) => `UPDATE ${table} SET ${column} = ${column}`) },
    [`${table}_no_delete`]: { says, sql: [`DELETE FROM ${table}`] },
  };
}

/** Sets the clock of the test environment. */
const setClock = (clock: object): string =>
  `UPDATE environments SET settings_snapshot = json_set(coalesce(settings_snapshot, '{}'), '$.clock', json('${JSON.stringify(clock)}')) WHERE id = ${TEST}`;
const CLOCK = { aheadMs: 100, setMs: 1_000 };
const removeClock = `UPDATE environments SET settings_snapshot = NULL WHERE id = ${TEST}`;

/** Attacks, by the name of the trigger that rejects them. */
const attacks: Readonly<Record<string, Attack>> = {
  environments_no_replace: {
    says: "environments_kept",
    sql: [environment({ id: LIVE, app_id: "app_w", mode: "live" }, REPLACE), environment({ id: -3 }, REPLACE)],
  },
  environments_frozen: {
    says: "environments_kept",
    sql: [
      `UPDATE environments SET id = -3 WHERE id = ${TEST}`,
      `UPDATE OR REPLACE environments SET mode = 'live' WHERE id = ${TEST}`,
      `UPDATE environments SET app_id = app_id WHERE id = ${TEST}`,
    ],
  },
  environments_clock_forward: {
    says: "clock_forward",
    sql: [
      [setClock(CLOCK), setClock({ ...CLOCK, setMs: 999 })],
      [setClock(CLOCK), setClock({ ...CLOCK, aheadMs: 99 })],
      [setClock(CLOCK), setClock({ ...CLOCK, setMs: 2_000, atMs: 999 })],
      [setClock({ ...CLOCK, atMs: 500 }), setClock({ ...CLOCK, atMs: 499 })],
    ],
  },
  environments_clock_kept: {
    says: "clock_kept",
    sql: [
      [setClock(CLOCK), account({ id: -99, environment_id: TEST, user_id: "u" }), removeClock],
      [
        setClock(CLOCK),
        `INSERT INTO distinct_ids (environment_id, distinct_id, first_seen_at_ms, last_seen_at_ms, is_device_form)
         VALUES (${TEST}, 'a', 1, 1, 0)`,
        removeClock,
      ],
      [
        setClock(CLOCK),
        `INSERT INTO consent_log (environment_id, distinct_id, seq, id, purpose, decision, occurred_at_ms, received_at_ms)
         VALUES (${TEST}, 'a', 1, 'con_new', 'ads', 'denied', 1, 1)`,
        removeClock,
      ],
      [
        setClock(CLOCK),
        `INSERT INTO payments (environment_id, id, status, created_at_ms, written_by) VALUES (${TEST}, 'pay_1', 'waiting', 1, 'w')`,
        removeClock,
      ],
    ],
  },
  environments_no_delete: { says: "environments_kept", sql: [`DELETE FROM environments WHERE id = ${TEST}`] },
  api_keys_no_replace: {
    says: "api_keys_kept",
    sql: [
      key({ hash: "hash_r", id: "key_r" }, REPLACE),
      key({ hash: "hash_r", id: "key_new" }, "REPLACE"),
      key({ hash: "hash_new", id: "key_r" }, REPLACE),
    ],
  },
  api_keys_frozen: {
    says: "api_keys_kept",
    sql: [
      "hash = 'hash_new'",
      "id = 'key_new'",
      `environment_id = ${TEST}`,
      "kind = 'publishable'",
      "hint = ''",
      "created_at_ms = 2",
    ].map((set) => `UPDATE api_keys SET ${set} WHERE hash = 'hash_w'`),
  },
  api_keys_revoked_once: {
    says: "api_keys_revoked_once",
    sql: ["NULL", "6", "9000000000000"].map(
      (value) => `UPDATE api_keys SET revoked_at_ms = ${value} WHERE hash = 'hash_r'`,
    ),
  },
  api_keys_no_delete: { says: "api_keys_kept", sql: ["DELETE FROM api_keys WHERE hash = 'hash_r'"] },
  admin_keys_no_replace: {
    says: "admin_keys_kept",
    sql: [
      adminKey({ hash: "hash_e" }, REPLACE),
      adminKey({ hash: "hash_e", id: "adk_new" }, "REPLACE"),
      adminKey({ hash: "hash_new", id: "adk_e" }, REPLACE),
    ],
  },
  admin_keys_frozen: {
    says: "admin_keys_kept",
    sql: [
      "hash = 'hash_new'",
      "id = 'adk_new'",
      "hint = ''",
      "name = 'x'",
      `scopes = '["read","access"]'`,
      "apps = '[]'",
      "modes = '[]'",
      "created_at_ms = 2",
    ].map((set) => `UPDATE admin_keys SET ${set} WHERE hash = 'hash_a'`),
  },
  admin_keys_revoked_once: {
    says: "admin_keys_revoked_once",
    sql: ["NULL", "6"].map((value) => `UPDATE admin_keys SET revoked_at_ms = ${value} WHERE hash = 'hash_e'`),
  },
  admin_keys_no_delete: { says: "admin_keys_kept", sql: ["DELETE FROM admin_keys WHERE hash = 'hash_e'"] },

  accounts_no_replace: {
    says: "accounts_kept",
    sql: [account({ id: -12, user_id: "other" }, REPLACE), account({ id: OTHER, user_id: "new" }, REPLACE)],
  },
  accounts_keep_id: {
    says: "accounts_kept",
    sql: [
      `UPDATE accounts SET id = -12 WHERE id = ${OTHER}`,
      `UPDATE accounts SET environment_id = ${TEST} WHERE id = ${OTHER}`,
    ],
  },
  accounts_name_erased: {
    says: "accounts_kept",
    sql: [
      `UPDATE accounts SET user_id = 'erased_u' WHERE id = ${USER}`,
      `UPDATE accounts SET user_id = 'erased_u', is_erased = 1 WHERE id = ${USER}`,
      ...whileErasing(
        `UPDATE accounts SET user_id = 'erased_a', is_erased = 1 WHERE id = ${USER}`,
        `UPDATE accounts SET user_id = 'erased_u' WHERE id = ${USER}`,
        `UPDATE accounts SET is_erased = 1 WHERE id = ${USER}`,
      ),
    ],
  },
  accounts_no_delete: { says: "accounts_kept", sql: [`DELETE FROM accounts WHERE id = ${OTHER}`] },

  members_of_account: {
    says: "members_kept",
    sql: [
      member({ member_number: 2, member_id: "m", environment_id: TEST }),
      member({ member_number: 2, member_id: "m", account_id: -99 }),
      member({ member_id: "m" }, REPLACE),
      member({ member_number: 2 }, REPLACE),
    ],
  },
  members_name_erased: {
    says: "members_kept",
    sql: [
      "UPDATE members SET member_number = 2",
      "UPDATE members SET member_id = 'm'",
      "UPDATE members SET member_id = 'm', is_erased = 1",
      "UPDATE members SET is_erased = 1",
    ],
  },
  members_no_delete: { says: "members_kept", sql: ["DELETE FROM members"] },
  usage_events_keep_member: {
    says: "usage_events_append_only",
    sql: [
      [
        usageEvent({ ...third, member_number: 1 }),
        "UPDATE usage_events SET member_number = NULL WHERE event_id = 'e3'",
      ],
      ...whileErasing("UPDATE usage_events SET member_number = 1 WHERE event_id = 'e1'"),
    ],
  },
  reservations_keep_member: {
    says: "reservations_frozen",
    sql: [
      [
        reservation({ id: "res_m", reservation_number: 2, member_number: 1 }),
        "UPDATE reservations SET member_number = NULL WHERE id = 'res_m'",
      ],
      ...whileErasing("UPDATE reservations SET member_number = 1 WHERE id = 'res_w'"),
    ],
  },

  api_keys_add_author: {
    says: PASSED,
    sql: [
      [
        key({ hash: "hash_new", id: "key_new" }),
        holds(`EXISTS (SELECT 1 FROM environments WHERE id = ${LIVE} AND authors = ' key_w key_r key_new ')`),
      ],
    ],
    behind: "guard_account",
  },
  environments_authors_grow: {
    says: "environments_authors_grow",
    sql: ["' '", "' key_r' || authors"].map(
      (authors) => `UPDATE environments SET authors = ${authors} WHERE id = ${LIVE}`,
    ),
  },

  credit_ledger_seq_gapless: {
    says: "credit_ledger_seq_gapless",
    sql: WAYS.map((verb) => entry({ ...nextEntry, seq: LAST_SEQ + 2 }, verb)),
  },
  credit_ledger_follows_balance: {
    says: "credit_ledger_follows_balance",
    sql: WAYS.map((verb) => entry({ ...nextEntry, delta_minor: 0 }, verb)),
  },
  credit_ledger_grant_with_balance: {
    says: "credit_ledger_grant_with_balance",
    sql: [...WAYS.map((verb) => entry({ ...nextEntry, kind: ENTRY_KINDS.grant }, verb))],
  },
  credit_ledger_cause_fits: {
    says: "credit_ledger_cause_fits",
    sql: [
      ...(["revoke", "erasure", "payment_restored"] as const).flatMap((kind) =>
        WAYS.map((verb) => entry({ ...nextEntry, kind: ENTRY_KINDS[kind] }, verb)),
      ),
      entry({ ...nextEntry, kind: ENTRY_KINDS.adjustment, reservation_number: 1 }),
      ...(["refund", "payment_taken"] as const).map((kind) =>
        entry({ ...nextEntry, delta_minor: 10, balance_after_minor: 600, kind: ENTRY_KINDS[kind] }),
      ),
    ],
  },
  credit_ledger_not_below_zero: {
    says: "credit_balances_remaining_not_negative",
    sql: [entry({ ...nextEntry, delta_minor: -591, balance_after_minor: -1 }, "INSERT OR IGNORE")],
  },
  credit_ledger_within_bounds: {
    says: "credit_balances_remaining_within_bounds",
    sql: [entry({ ...nextEntry, delta_minor: TOP - 589, balance_after_minor: TOP + 1 }, "INSERT OR IGNORE")],
  },
  credit_ledger_leaves_room: {
    says: "credit_balances_remaining_within_bounds",
    sql: WAYS.map((verb) =>
      entry({ ...nextEntry, delta_minor: TOP - 590, balance_after_minor: TOP, kind: ENTRY_KINDS.adjustment }, verb),
    ),
  },
  credit_ledger_spares_revoked: {
    says: "credit_balances_revoked",
    sql: WAYS.flatMap((verb) => [
      entry({ ...ofRevoked, delta_minor: 5, balance_after_minor: 5, kind: ENTRY_KINDS.adjustment }, verb),
      entry({ ...ofRevoked, delta_minor: 5, balance_after_minor: 5 }, verb),
      entry({ ...ofRevoked, delta_minor: 0, balance_after_minor: 0 }, verb),
      entry({ ...ofRevoked, delta_minor: 0, balance_after_minor: 0, kind: ENTRY_KINDS.hold }, verb),
      // A return that was planned before the balance was revoked.
      [
        settleSql("released"),
        entry({ ...ofRevoked, ...released, delta_minor: 300, balance_after_minor: 300, is_revoked: 0 }, verb),
      ],
    ]),
  },
  credit_ledger_moves_balance: {
    says: PASSED,
    sql: [[entry(nextEntry), holds(`(SELECT remaining_minor = 500 FROM credit_balances WHERE id = '${PART}')`)]],
    behind: "guard_account",
  },
  credit_ledger_empties_or_fills_balance: {
    says: PASSED,
    sql: [
      [
        entry({ ...nextEntry, delta_minor: -590, balance_after_minor: 0 }),
        holds(`(SELECT has_remaining = 0 FROM credit_balances WHERE id = '${PART}')`),
      ],
    ],
    behind: "guard_account",
  },
  credit_ledger_revokes_balance: {
    says: PASSED,
    sql: [
      [
        entry({
          ...nextEntry,
          delta_minor: -590,
          balance_after_minor: 0,
          kind: ENTRY_KINDS.refund,
          is_revoked: 1,
        }),
        holds(`(SELECT revoked_at_ms IS NOT NULL FROM credit_balances WHERE id = '${PART}')`),
      ],
    ],
    behind: "guard_account",
  },
  credit_ledger_restores_balance: {
    says: PASSED,
    sql: [
      [
        "UPDATE payment_grants SET is_revoked = 1",
        entry({ ...ofRevoked, is_revoked: 0, delta_minor: 50, balance_after_minor: 50, kind: ENTRY_KINDS.adjustment }),
        holds(`(SELECT revoked_at_ms IS NULL FROM credit_balances WHERE id = '${REVOKED}')`),
      ],
    ],
    behind: "guard_account",
  },
  credit_ledger_counts_taken: {
    says: PASSED,
    sql: [
      [
        paymentGrant({ balance_id: PART, is_revoked: 1 }),
        entry({ ...nextEntry, delta_minor: -590, balance_after_minor: 0, kind: ENTRY_KINDS.refund, is_revoked: 1 }),
        holds(`(SELECT clawed_back_minor = 590 FROM payment_grants WHERE balance_id = '${PART}')`),
      ],
    ],
    behind: "guard_account",
  },
  credit_ledger_counts_owed: {
    says: PASSED,
    sql: [
      [
        paymentGrant({ balance_id: PART }),
        entry({ ...nextEntry, kind: ENTRY_KINDS.refund, reservation_number: 1 }),
        holds(`(SELECT clawed_back_minor = 90 FROM payment_grants WHERE balance_id = '${PART}')`),
      ],
    ],
    behind: "guard_account",
  },
  ...frozen("credit_ledger", [
    "delta_minor",
    "seq",
    "grant_seq",
    "kind",
    "written_by",
    "event_seq",
    "reservation_number",
    "balance_after_minor",
    "occurred_at_ms",
  ]),
  credit_ledger_note_erased: {
    says: "credit_ledger_append_only",
    sql: [
      "UPDATE credit_ledger SET note = 'x'",
      "UPDATE credit_ledger SET note = NULL",
      ...whileErasing("UPDATE credit_ledger SET note = 'x'"),
    ],
  },

  credit_balances_begin_whole: {
    says: "credit_balances_begin_whole",
    sql: WAYS.map((verb) => balance("crb_new", LAST_SEQ + 1, { remaining_minor: 999 }, verb)),
  },
  credit_balances_no_replace: {
    says: "credit_balances_id",
    sql: [REPLACE, "REPLACE"].map((verb) => balance(WHOLE, LAST_SEQ + 1, {}, verb)),
  },
  credit_balances_no_replace_by_external_ref: {
    says: "credit_balances_external_ref",
    sql: [REPLACE, "REPLACE"].map((verb) => balance("crb_new", LAST_SEQ + 1, { external_ref: "order" }, verb)),
  },
  credit_balances_bounded: {
    says: "credit_balances_bounded",
    // Rules of more than 8 MB. test/worker/books/credits/bounds.test.ts tests the number of balances.
    sql: WAYS.map(
      (
        verb,
      ) => `${verb} INTO credit_balances (account_id, id, pack_id, pack_name, pack_number, item_number, unit, matches, priority,
          initial_minor, remaining_minor, has_remaining, source_number, granted_at_ms, expires_at_ms, grant_seq, last_seq)
        SELECT account_id, 'crb_long_' || value, pack_id, pack_name, 1, 0, unit, hex(zeroblob(850000)), 100, 1000, 1000, 1,
          ${BALANCE_SOURCES.manual}, 1, expires_at_ms, ${LAST_SEQ} + value, ${LAST_SEQ} + value
        FROM credit_balances AS b CROSS JOIN json_each('[1,2,3,4,5]') WHERE b.id = '${WHOLE}'`,
    ),
  },
  credit_balances_of_reference_bounded: {
    says: "credit_balances_of_reference_bounded",
    sql: WAYS.map(
      (verb) => `WITH RECURSIVE n (i) AS (SELECT 1 UNION ALL SELECT i + 1 FROM n WHERE i < 5001)
        ${verb} INTO credit_balances (account_id, id, pack_id, pack_name, pack_number, item_number, unit, matches, priority,
          initial_minor, remaining_minor, has_remaining, source_number, external_ref, granted_at_ms, expires_at_ms, grant_seq, last_seq)
        SELECT account_id, 'crb_ref_' || i, 'p' || i, pack_name, i, 0, unit, '[]', 100, 1000, 1000, 1,
          ${BALANCE_SOURCES.manual}, 'many', 1, expires_at_ms, ${LAST_SEQ} + i, ${LAST_SEQ} + i
        FROM credit_balances AS b CROSS JOIN n WHERE b.id = '${WHOLE}'`,
    ),
  },
  webhook_endpoints_begin_notices: {
    says: PASSED,
    sql: [
      [
        `DELETE FROM webhook_endpoints WHERE environment_id = ${LIVE}`,
        webhookEndpoint({ id: "whk_first", created_at_ms: 7 }),
        holds(`EXISTS (SELECT 1 FROM expiry_notices WHERE environment_id = ${LIVE} AND days = 0 AND since_ms = 7)`),
      ],
    ],
    behind: "guard_account",
  },
  webhook_endpoints_end_notices: {
    says: PASSED,
    sql: [
      [
        `DELETE FROM webhook_endpoints WHERE environment_id = ${LIVE}`,
        holds(`NOT EXISTS (SELECT 1 FROM expiry_notices WHERE environment_id = ${LIVE} AND days = 0)`),
      ],
    ],
    behind: "guard_account",
  },
  environments_forget_alerts: {
    says: PASSED,
    sql: [
      [
        `UPDATE environments SET settings_snapshot = '{"webhooks":[{}]}' WHERE id = ${LIVE}`,
        `UPDATE environments SET settings_snapshot = NULL WHERE id = ${LIVE}`,
        holds(`NOT EXISTS (SELECT 1 FROM alert_states WHERE environment_id = ${LIVE})`),
      ],
    ],
    behind: "guard_account",
  },
  credit_balances_write_expiry: {
    says: PASSED,
    sql: [
      [
        balance("crb_ends", LAST_SEQ + 1, { expires_at_ms: 77 }),
        holds(`EXISTS (SELECT 1 FROM balance_expiries
          WHERE environment_id = ${LIVE} AND expires_at_ms = 77 AND account_id = ${USER} AND grant_seq = ${LAST_SEQ + 1})`),
      ],
    ],
    behind: "guard_account",
  },
  credit_balances_write_grant: {
    says: PASSED,
    sql: [
      [
        balance("crb_new", LAST_SEQ + 1),
        holds(`EXISTS (SELECT 1 FROM credit_ledger WHERE account_id = ${USER} AND grant_seq = ${LAST_SEQ + 1})`),
      ],
    ],
    behind: "guard_account",
  },
  credit_balances_moved_by_ledger: {
    says: "credit_balances_moved_by_ledger",
    sql: ["remaining_minor = 5", "last_seq = 4"].map((set) => `UPDATE credit_balances SET ${set} WHERE id = '${PART}'`),
  },
  credit_balances_frozen: {
    says: "credit_balances_frozen",
    sql: ["unit = 'cents'", "priority = 1", "expires_at_ms = 5", "initial_minor = 5", "matches = ''"].map(
      (set) => `UPDATE credit_balances SET ${set} WHERE id = '${PART}'`,
    ),
  },
  ...namesErased(
    "credit_balances",
    "credit_balances_frozen",
    [`notes = 'x' WHERE id = '${WHOLE}'`, `external_ref = NULL WHERE id = '${WHOLE}'`],
    [`external_ref = 'x' WHERE id = '${WHOLE}'`, `external_ref = 'hash_order' WHERE id = '${PART}'`, "notes = 'x'"],
  ),
  credit_balances_revoked_once: {
    says: "credit_balances_revoked_once",
    sql: [
      `UPDATE credit_balances SET revoked_at_ms = NULL WHERE id = '${REVOKED}'`,
      `UPDATE credit_balances SET revoked_at_ms = 5 WHERE id = '${PART}'`,
    ],
  },
  credit_balances_no_delete: {
    says: "credit_balances_kept",
    sql: [`DELETE FROM credit_balances WHERE id = '${PART}'`],
  },

  usage_events_seq_gapless: {
    says: "usage_events_seq_gapless",
    sql: WAYS.flatMap((verb) =>
      [{ seq: 4 }, { seq: 2, event_id: "e9" }, { seq: 0, event_id: "e9" }].map((given) =>
        usageEvent({ event_id: "e3", ...given }, verb),
      ),
    ),
  },
  usage_events_no_replace: {
    says: "usage_events_event_id",
    sql: [REPLACE, "REPLACE"].map((verb) => usageEvent({ seq: 3 }, verb)),
  },
  usage_events_of_account: {
    says: "usage_events_of_account",
    sql: [
      usageEvent({ seq: 3, event_id: "e3", environment_id: TEST }),
      usageEvent({ account_id: -99, event_id: "e3" }, REPLACE),
    ],
  },
  usage_events_frozen: {
    says: "usage_events_append_only",
    sql: ["debits = '[]'", "count_minor = 1", "occurred_at_ms = 1", "uncovered = NULL"].map(
      (set) => `UPDATE usage_events SET ${set} WHERE event_id = 'e1' AND environment_id = ${LIVE}`,
    ),
  },
  ...namesErased(
    "usage_events",
    "usage_events_append_only",
    [
      "properties = NULL",
      "large_properties_bytes = NULL",
      "event_id = 'e9' WHERE event_id = 'e1'",
      "reservation_id = NULL",
      "request_hash = ''",
    ],
    [
      "event_id = 'r1' WHERE event_id = 'e1'",
      "event_id = 'r1', properties = '{}', request_hash = '' WHERE event_id = 'e1'",
      "event_id = 'r9', request_hash = '' WHERE event_id = 'e1'",
      "event_id = 'r2', request_hash = '' WHERE event_id = 'e2'",
    ],
    [
      ...whileErasingMember(
        "UPDATE usage_events SET request_hash = '' WHERE event_id = 'e3'",
        hashEvent(eventIds, "request_hash = 'x'"),
        hashEvent(eventIds, "request_hash = '', properties = '{}'"),
        hashEvent(eventIds.replace(HASH, "short")),
        hashEvent(`event_id = '${HASH}'`),
        hashEvent(`event_id = '${HASH}', reservation_id = NULL`),
        hashEvent(`event_id = '${HASH}', reservation_id = 'res_short'`),
        `UPDATE usage_events SET event_id = '${RES_HASH}', reservation_id = 'res_${"i".repeat(43)}', request_hash = '' WHERE event_id = 'res_c'`,
        `UPDATE usage_events SET event_id = '${HASH}', request_hash = '' WHERE event_id = 'e1'`,
      ),
      [...erasingMember, memberIsErased, hashEvent(eventIds)],
      [
        ...erasingMember,
        hashEvent(eventIds),
        `UPDATE usage_events SET event_id = '${"i".repeat(43)}', reservation_id = 'res_${"i".repeat(43)}', request_hash = '' WHERE event_id = '${HASH}'`,
      ],
      [...erasingMember, usageEvent({ seq: 5, event_id: HASH }), hashEvent(eventIds, undefined, "UPDATE OR REPLACE")],
    ],
  ),
  usage_events_no_delete: { says: "usage_events_append_only", sql: ["DELETE FROM usage_events WHERE event_id = 'e2'"] },

  usage_events_large_properties: {
    says: "usage_events_large_properties",
    sql: [
      [usageEvent({ ...third, large_properties_bytes: 11 })],
      [largeProperties({ seq: 3 }), usageEvent({ ...third, large_properties_bytes: 10 })],
      [largeProperties({ seq: 4 }), usageEvent({ ...third, large_properties_bytes: 11 })],
    ],
  },
  large_properties_of_event: {
    says: "large_properties_of_event",
    sql: [{ seq: 1 }, { account_id: -99, seq: 3 }].map((given) => largeProperties(given)),
  },
  large_properties_no_replace: {
    says: "large_properties_primary_key",
    sql: [REPLACE, "REPLACE"].map((verb) => [
      largeProperties({ seq: 3 }),
      largeProperties({ seq: 3, properties: '{"other":2}' }, verb),
    ]),
  },
  ...appendOnly("large_properties", ["account_id", "seq", "properties"]),
  large_properties_no_delete: {
    says: "large_properties_append_only",
    sql: ["DELETE FROM large_properties", ...whileErasing(`DELETE FROM large_properties WHERE account_id = ${USER}`)],
  },

  credit_adjustments_no_replace: {
    says: "credit_adjustments_primary_key",
    sql: [REPLACE, "REPLACE"].map((verb) => adjustment({ request_hash: "another" }, verb)),
  },
  credit_adjustments_of_balance: {
    says: "credit_adjustments_of_balance",
    sql: [{ environment_id: TEST }, { account_id: OTHER }, { balance_id: "crb_nobody" }].map((given) =>
      adjustment({ id: "adj_new", ...given }),
    ),
  },
  ...frozen("credit_adjustments", ["seq", "balance_id"]),
  ...namesErased(
    "credit_adjustments",
    "credit_adjustments_append_only",
    ["id = 'x' WHERE id = 'adj_w'", "request_hash = ''"],
    ["id = 'x', request_hash = ''", "id = 'r3'"],
  ),

  credit_refunds_gapless: {
    says: "credit_refunds_gapless",
    sql: [
      refund({ refund_ref: "another" }, REPLACE),
      refund({ ordinal: 2 }, REPLACE),
      refund({ ordinal: 3, refund_ref: "another" }),
    ],
  },
  ...frozen("credit_refunds", ["part", "ordinal"]),
  ...namesErased(
    "credit_refunds",
    "credit_refunds_append_only",
    [`refund_ref = 'x' WHERE account_id = ${USER}`, "request_hash = ''"],
    ["external_ref = 'hash_order', request_hash = ''", "refund_ref = 'x', request_hash = ''"],
  ),

  reservations_settled_once: {
    says: "reservations_settled_once",
    sql: [
      ...["open", "committed", "expired", "released"].map((state) => [
        settleSql("released"),
        `UPDATE reservations SET state = '${state}' WHERE id = 'res_w'`,
      ]),
      [settleSql("expired"), "UPDATE reservations SET settled_event_seq = 9, settled_seq = 1 WHERE id = 'res_w'"],
    ],
  },
  credit_ledger_returns_by_settlement: {
    says: "credit_ledger_returns_by_settlement",
    sql: [
      // Returns while it is open, again after it is settled, or with another balance, amount, reason or reservation.
      ...WAYS.map((verb) => returned({}, verb)),
      ...[{}, { kind: ENTRY_KINDS.expired }, { delta_minor: 9, balance_after_minor: 609 }].map((given) => [
        settleSql("released"),
        entry({ ...ofRevoked, ...released, delta_minor: 300, balance_after_minor: 300 }),
        returned({ seq: LAST_SEQ + 2 }),
        returned({ seq: LAST_SEQ + 3, previous_seq: LAST_SEQ + 2, balance_after_minor: 610, ...given }),
      ]),
      returned({ reservation_number: null }),
      returned({ reservation_number: 2 }),
      returned({ grant_seq: GRANT_SEQS[WHOLE], balance_after_minor: 1_010, previous_seq: 1 }),
    ],
  },

  recurring_grants_begin: {
    says: "recurring_grants_id",
    sql: [
      recurring({}, REPLACE),
      recurring({ ordinal: 2 }),
      recurring({ ordinal: 3, id: "rec_x" }),
      recurring({ account_id: OTHER, environment_id: TEST, id: "rec_x" }),
    ],
  },
  recurring_grants_bounded: {
    says: "recurring_grants_bounded",
    sql: [Array.from({ length: 100 }, (_, n) => recurring({ ordinal: n + 2, id: `rec_${n}` }))],
  },
  recurring_grants_bounded_again: {
    says: "recurring_grants_bounded",
    sql: [
      [
        `UPDATE recurring_grants SET state = 'ended', next_at_ms = NULL, final_n = 1 ${OF_USER}`,
        ...Array.from({ length: 100 }, (_, n) => recurring({ ordinal: n + 2, id: `rec_${n}` })),
        `UPDATE recurring_grants SET state = 'active', next_at_ms = 5, final_n = NULL ${OF_USER} AND ordinal = 1`,
      ],
    ],
  },
  recurring_grants_in_order: {
    says: "recurring_grants_in_order",
    sql: [
      `UPDATE recurring_grants SET last_n = 0 ${OF_USER}`,
      [
        `UPDATE recurring_grants SET state = 'ended', next_at_ms = NULL ${OF_USER}`,
        `UPDATE recurring_grants SET state = 'active', next_at_ms = 5 ${OF_USER}`,
      ],
    ],
  },
  recurring_grants_frozen: {
    says: "recurring_grants_frozen",
    sql: ["pack_id = 'cpk_x'", "anchor_ms = 2", "every = 'week'", "id_seed = 'x'", `account_id = ${OTHER}`].map(
      (set) => `UPDATE recurring_grants SET ${set} ${OF_USER}`,
    ),
  },
  ...namesErased(
    "recurring_grants",
    "recurring_grants_frozen",
    [`id = 'rec_x' ${OF_USER}`, `request_hash = '' ${OF_USER}`],
    [`id = 'rec_x', request_hash = '' ${OF_USER}`],
  ),
  recurring_grants_no_delete: { says: "recurring_grants_kept", sql: ["DELETE FROM recurring_grants"] },
  recurring_grants_begin_due: {
    says: PASSED,
    sql: [
      [
        recurring({ ordinal: 2, id: "rec_x", next_at_ms: 3_000_000_000_000 }),
        holds(`(SELECT recurring_due_at_ms = 3000000000000 FROM accounts WHERE id = ${USER})`),
      ],
    ],
    behind: "guard_account",
  },
  recurring_grants_move_due: {
    says: PASSED,
    sql: [
      [
        `UPDATE recurring_grants SET state = 'ended', next_at_ms = NULL ${OF_USER}`,
        holds(`(SELECT recurring_due_at_ms IS NULL FROM accounts WHERE id = ${USER})`),
      ],
    ],
    behind: "guard_account",
  },

  reservations_frozen: {
    says: "reservations_frozen",
    sql: ["legs = '[]'", `account_id = ${OTHER}`, "reservation_number = 9", "quantities = '{}'", "is_charged = 1"].map(
      (set) => `UPDATE reservations SET ${set} WHERE id = 'res_w'`,
    ),
  },
  ...namesErased(
    "reservations",
    "reservations_frozen",
    ["id = 'res_x' WHERE id = 'res_w'", "request_hash = '' WHERE id = 'res_w'"],
    [
      "id = 'res_r', request_hash = '' WHERE id = 'res_w'",
      "id = 'res_x', request_hash = '', state = 'released' WHERE id = 'res_w'",
    ],
    [
      ...whileErasingMember(
        "UPDATE reservations SET request_hash = '' WHERE id = 'res_m'",
        hashReservation(RES_HASH, "request_hash = 'x'"),
        hashReservation("res_short"),
        hashReservation(`rec_${HASH}`),
        `UPDATE reservations SET id = '${RES_HASH}', request_hash = '' WHERE id = 'res_w'`,
      ),
      [...erasingMember, memberIsErased, hashReservation(RES_HASH)],
      [...erasingMember, hashReservation(RES_HASH), hashReservation(`res_${"i".repeat(43)}`)],
      [
        ...erasingMember,
        reservation({ id: RES_HASH, reservation_number: 3 }),
        hashReservation(RES_HASH, undefined, "UPDATE OR REPLACE"),
      ],
    ],
  ),
  usage_counts_add: {
    says: PASSED,
    sql: [
      [countedEvent({ isEnforced: 0, minor: 8 }), counterHas("used_minor = 11 AND reached_count = 1")],
      [
        usageEvent({ seq: 3, event_id: "e_new", occurred_at_ms: 5, counted: counted({ endMs: 9 }) }),
        counterHas("used_minor = 1 AND end_ms = 9"),
      ],
      [countedEvent({ isKept: 1 }), counterHas("used_minor = 3")],
    ],
    behind: "cannot modify usage_counts",
  },
  usage_events_count: {
    says: PASSED,
    sql: [[countedEvent({}), counterHas("used_minor = 4")]],
    behind: "guard_account",
  },
  usage_events_to_sum: {
    says: PASSED,
    sql: [
      [
        "DELETE FROM usage_to_sum",
        usageEvent({ seq: 3, event_id: "e_new", occurred_at_ms: 7 }),
        usageEvent({ seq: 4, event_id: "e_newer", occurred_at_ms: 8 }),
        markIs("seq = 3 AND received_at_ms = 7"),
      ],
    ],
    behind: "guard_account",
  },
  usage_summed_once: {
    says: "usage_summed_once",
    sql: [summed(2), [summed(1), summed(1)], ["DELETE FROM usage_to_sum", summed(1)]],
    behind: "cannot modify usage_summed",
  },
  guards_settlement: { says: "guard_settlement", sql: ["INSERT INTO guards (name, holds) VALUES ('settlement', 0)"] },
  guards_owed: { says: "guard_owed", sql: ["INSERT INTO guards (name, holds) VALUES ('owed', 0)"] },
  guards_statement: { says: "guard_statement", sql: ["INSERT INTO guards (name, holds) VALUES ('statement', 0)"] },
  statements_kept: {
    says: "statements_kept",
    sql: [
      "UPDATE statements SET completed_at_ms = NULL WHERE id = 'stm_w'",
      "UPDATE statements SET after_account_id = 7 WHERE id = 'stm_w'",
      ...[`environment_id = ${TEST}`, "month = '2026-03'", "id = 'stm_new'"].map(
        (set) => `UPDATE statements SET ${set} WHERE id = 'stm_running'`,
      ),
    ],
  },
  statements_no_delete: { says: "statements_kept", sql: ["DELETE FROM statements WHERE id = 'stm_running'"] },
  statements_no_replace: {
    says: "statements_kept",
    sql: [
      `INSERT OR REPLACE INTO statements (environment_id, month, id, after_account_id, requested_at_ms) VALUES (${LIVE}, '2026-01', 'stm_new', 0, 1)`,
      `INSERT OR REPLACE INTO statements (environment_id, month, id, after_account_id, requested_at_ms) VALUES (${LIVE}, '2026-04', 'stm_w', 0, 1)`,
    ],
  },
  statement_lines_no_delete: { says: "statements_kept", sql: ["DELETE FROM statement_lines"] },
  statement_lines_kept: { says: "statements_kept", sql: ["UPDATE statement_lines SET amounts = '{}'"] },
  reservations_count: {
    says: PASSED,
    sql: [
      [
        reservation({ id: "res_new", reservation_number: 2, legs: "[]", counted: counted({}) }),
        counterHas("used_minor = 4"),
      ],
    ],
    behind: "guard_account",
  },
  reservations_uncount: {
    says: PASSED,
    sql: [
      [
        reservation({ id: "res_new", reservation_number: 2, legs: "[]", counted: counted({}) }),
        "UPDATE reservations SET state = 'released', settled_at_ms = 6, settled_seq = 1 WHERE id = 'res_new'",
        counterHas("used_minor = 3"),
      ],
    ],
    behind: "guard_account",
  },
  usage_counters_first: {
    says: "usage_limit_reached",
    sql: [[usageLimit({ id: "lim_new", name_key: "new" }), countedEvent({ limitId: "lim_new", minor: 11 })]],
  },
  usage_limits_frozen: {
    says: "usage_limits_frozen",
    sql: [
      "unit = 'tokens'",
      "matches = '[{}]'",
      "every = 'month'",
      "ordinal = 2",
      "created_at_ms = 2",
      "per = 'member'",
    ].map((set) => `UPDATE usage_limits SET ${set} WHERE id = 'lim_w'`),
  },
  usage_limits_deleted_once: {
    says: "usage_limits_frozen",
    sql: [["UPDATE usage_limits SET is_deleted = 1", "UPDATE usage_limits SET is_deleted = 0"]],
  },
  price_lists_frozen: {
    says: "price_lists_frozen",
    sql: [
      "version = 2",
      "effective_at_ms = 2",
      "created_at_ms = 2",
      "note = 'n'",
      "rules = '[1]'",
      "costs = '[1]'",
    ].map((set) => `UPDATE price_lists SET ${set}`),
  },
  price_lists_deleted_once: {
    says: "price_lists_frozen",
    sql: [["UPDATE price_lists SET is_deleted = 1", "UPDATE price_lists SET is_deleted = 0"]],
  },
  price_lists_no_delete: { says: "price_lists_frozen", sql: ["DELETE FROM price_lists"] },
  price_lists_no_replace: { says: "price_lists_frozen", sql: [priceList({ rules: "[1]" }, REPLACE)] },
  usage_counters_no_delete: { says: "usage_counters_kept", sql: ["DELETE FROM usage_counters"] },
  reservations_no_replace: {
    says: "reservations_id",
    sql: [REPLACE, "REPLACE"].map((verb) => reservation({ legs: "[]", reservation_number: 2 }, verb)),
  },
  reservations_number_gapless: {
    says: "reservations_number_gapless",
    sql: [
      ...WAYS.map((verb) => reservation({ id: "res_new", reservation_number: 3 }, verb)),
      reservation({ id: "res_new", legs: "[]" }, REPLACE),
    ],
  },
  reservations_of_account: {
    says: "reservations_of_account",
    sql: [
      reservation({ id: "res_new", reservation_number: 2, environment_id: TEST }),
      reservation({ id: "res_new", account_id: -99 }),
    ],
  },
  reservations_no_delete: { says: "reservations_kept", sql: ["DELETE FROM reservations WHERE id = 'res_w'"] },
  reservations_end_not_earlier: {
    says: "reservations_end_not_earlier",
    sql: ["UPDATE reservations SET expires_at_ms = 8000000000000 WHERE id = 'res_w'"],
  },

  guards_key: { says: "guard_key", sql: ["INSERT INTO guards (name, holds) VALUES ('key', 0)"] },
  guards_balance: { says: "guard_balance", sql: ["INSERT INTO guards (name, holds) VALUES ('balance', 0)"] },
  guards_environment: {
    says: "guard_environment",
    sql: ["INSERT INTO guards (name, holds) VALUES ('environment', 0)"],
  },
  guards_payment: { says: "guard_payment", sql: ["INSERT INTO guards (name, holds) VALUES ('payment', 0)"] },
  guards_person: { says: "guard_person", sql: ["INSERT INTO guards (name, holds) VALUES ('person', 0)"] },
  guards_tombstones: { says: "guard_tombstones", sql: ["INSERT INTO guards (name, holds) VALUES ('tombstones', 0)"] },
  guards_people: { says: "guard_people", sql: ["INSERT INTO guards (name, holds) VALUES ('people', 0)"] },
  guards_link: { says: "guard_link", sql: ["INSERT INTO guards (name, holds) VALUES ('link', 0)"] },
  guards_origin: { says: "guard_origin", sql: ["INSERT INTO guards (name, holds) VALUES ('origin', 0)"] },
  guards_events: { says: "limit_events", sql: ["INSERT INTO guards (name, holds) VALUES ('events', 0)"] },
  guards_share: { says: "limit_share", sql: ["INSERT INTO guards (name, holds) VALUES ('share', 0)"] },
  guards_space: { says: "limit_space", sql: ["INSERT INTO guards (name, holds) VALUES ('space', 0)"] },
  guards_bytes: { says: "limit_bytes", sql: ["INSERT INTO guards (name, holds) VALUES ('bytes', 0)"] },
  guards_account: { says: "guard_account", sql: [holds("0")] },

  analytics_counts_within_limits: {
    says: "limit_",
    sql: [
      "1000001, 1, 0, 0, 1, 1, 0, 1",
      "1, 1073741825, 0, 0, 1, 1, 0, 1",
      "750001, 1, 1, 1, 1, 1, 0, 0",
      "1, 805306369, 1, 1, 1, 1, 0, 0",
      "1, 1, 0, 0, 100001, 1, 0, 0",
      "1, 1, 0, 0, 1, 104857601, 0, 0",
      "0, 0, 0, 0, 0, 0, 1000001, 1",
    ].map(
      (counts) => `INSERT INTO analytics_counts (
          environment_id, day, events, bytes, unmarked_events, unmarked_bytes, id_events, id_bytes, consents, is_share_full)
        VALUES (${TEST}, 1, ${counts})`,
    ),
    behind: "cannot modify analytics_counts",
  },

  distinct_ids_claim_version: { says: "distinct_ids_claim_version", sql: [claim("c", "d", 2), claim("c", "d", 0)] },
  distinct_ids_claim_stays: { says: "distinct_ids_claim_stays", sql: [claim("a", "c", 2, 1), claim("b", "d", 2, 0)] },
  analytics_events_kept: {
    says: "analytics_events_kept",
    sql: [
      "DELETE FROM analytics_events",
      // During an erasure of another id, and of an event that comes after those counted as deleted.
      [...erasing, analyticsEvent({ distinct_id: "b", uuid: "uuid-2" }), "DELETE FROM analytics_events"],
      [
        ...["event_count", "deleted_count"].map((count) => `UPDATE distinct_ids SET ${count} = 1 ${OF_LIVE}`),
        analyticsEvent({ seq: 2, uuid: "uuid-2" }),
        `DELETE FROM analytics_events ${OF_LIVE} AND seq = 2`,
      ],
    ],
  },
  analytics_events_no_replace: {
    says: "analytics_events_kept",
    sql: [REPLACE, "REPLACE"].flatMap((verb) => [
      analyticsEvent({ uuid: "uuid-new" }, verb),
      analyticsEvent({ seq: 2 }, verb),
      analyticsEvent({ seq: 2, uuid: "uuid-new", replaced_by: 3, replaced_at_ms: 1 }, verb),
      analyticsEvent({}, verb),
    ]),
  },
  // The trigger has marked the event, which is marked once.
  analytics_events_replace: {
    says: "analytics_events_kept",
    sql: [
      [
        eventIsCounted,
        verifiedEvent,
        `UPDATE analytics_events SET replaced_by = 2, replaced_at_ms = 1 ${OF_LIVE} AND seq = 1`,
      ],
    ],
  },
  // The record counts the marked event, so that not all of its events can be counted as deleted.
  analytics_events_replaced: {
    says: "distinct_ids_replaced_count",
    sql: [
      [eventIsCounted, verifiedEvent, `UPDATE distinct_ids SET deleted_count = 1 ${OF_LIVE} AND distinct_id = 'a'`],
    ],
  },
  analytics_events_no_update: {
    says: "analytics_events_kept",
    sql: ["properties = '{\"x\":1}'", "distinct_id = 'b'", "seq = 9", "uuid = 'x'"].flatMap((set) =>
      ["UPDATE", "UPDATE OR REPLACE"].map((verb) => `${verb} analytics_events SET ${set} ${OF_LIVE}`),
    ),
  },
  distinct_ids_kept: {
    says: "distinct_ids_kept",
    sql: [
      `DELETE FROM distinct_ids ${OF_LIVE}`,
      [...erasing, `DELETE FROM distinct_ids ${OF_LIVE} AND distinct_id = 'b'`],
    ],
  },
  distinct_ids_no_replace: {
    says: "distinct_ids_kept",
    sql: [REPLACE, ...WAYS].map((verb) => distinctId({ distinct_id: "a" }, verb)),
  },
  // With the first_seen_at_ms that upserts send.
  distinct_ids_first_seen: {
    says: "distinct_ids_kept",
    sql: ["a", "new"].flatMap((id) =>
      [REPLACE, "REPLACE"].map((verb) => distinctId({ distinct_id: id, first_seen_at_ms: -1 }, verb)),
    ),
  },
  distinct_ids_counts_grow: {
    says: "distinct_ids_kept",
    sql: [
      `UPDATE distinct_ids SET distinct_id = 'x' ${OF_LIVE} AND distinct_id = 'c'`,
      `UPDATE OR REPLACE distinct_ids SET distinct_id = 'b' ${OF_LIVE} AND distinct_id = 'c'`,
      `UPDATE distinct_ids SET environment_id = ${TEST} ${OF_LIVE} AND distinct_id = 'c'`,
      ...["event_count = 1", "deleted_count = 0"].map((set) => [
        ...["event_count = 2", "deleted_count = 1"].map((before) => `UPDATE distinct_ids SET ${before} ${OF_LIVE}`),
        `UPDATE distinct_ids SET ${set} ${OF_LIVE}`,
      ]),
    ],
  },
  distinct_ids_no_circle: { says: "distinct_ids_no_circle", sql: [claim("b", "a", 2, 1)] },
  id_properties_version: {
    says: "id_properties_version",
    sql: [REPLACE, ...WAYS].map((verb) => idProperties({ version: 3 }, verb)),
  },

  consent_log_seq_gapless: {
    says: "consent_log_seq_gapless",
    sql: [consent({ decision: "granted" }, REPLACE), consent({ seq: 3 })],
  },
  ...frozen("consent_log", ["decision", "received_at_ms"]),
  ...nameErased("consent_log"),
  export_audit_seq_gapless: {
    says: "export_audit_seq_gapless",
    sql: [exportAudit({ action: "failed" }, REPLACE), exportAudit({ seq: 3 })],
  },
  ...frozen("export_audit", ["action", "occurred_at_ms", "expires_at_ms"]),
  ...nameErased("export_audit"),
  admin_audit_seq_gapless: {
    says: "admin_audit_seq_gapless",
    sql: [adminAudit({ id: "aud_new" }, REPLACE), adminAudit({ seq: 3, id: "aud_new" })],
  },
  admin_audit_no_replace: { says: "admin_audit_id", sql: [adminAudit({ seq: 2 }, REPLACE)] },
  ...frozen("admin_audit", ["actor", "seq", "details"]),
  admin_audit_target_erased: {
    says: "admin_audit_append_only",
    sql: ["UPDATE admin_audit SET target = target", ...whileErasing("UPDATE admin_audit SET target = 'another'")],
  },

  webhook_endpoints_limit: {
    says: "webhook_endpoints_limit",
    sql: WAYS.map((verb) => Array.from({ length: 10 }, (_, n) => webhookEndpoint({ id: `whk_new_${n}` }, verb))),
  },
  webhook_endpoints_keep_environment: {
    says: "webhook_endpoints_kept",
    sql: [`environment_id = ${TEST}`, "id = 'whk_new'"].map((set) => `UPDATE webhook_endpoints SET ${set}`),
  },
  webhook_messages_no_replace: {
    says: "webhook_messages_frozen",
    sql: [REPLACE, "REPLACE"].flatMap((verb) =>
      ["2", "'other'", "9", "'nobody'", "'{\"a\":1}'"].map((other, index) => {
        const row = ["environment_id", "type", "at_ms", "subject", "data"].map((name, place) =>
          place === index ? other : name,
        );
        return `${verb} INTO webhook_messages SELECT id, ${row.join(", ")} FROM webhook_messages`;
      }),
    ),
  },
  webhook_messages_no_update: {
    says: "webhook_messages_frozen",
    sql: ["data = '{\"a\":1}'", "subject = NULL", "id = 'msg_new'"].map((set) => `UPDATE webhook_messages SET ${set}`),
  },
  erasures_no_replace: {
    says: "erasures_kept",
    sql: [erasure({ id: "era_w" }, REPLACE), erasure({ id: "era_done" }, "REPLACE")],
  },
  erasures_frozen: {
    says: "erasures_kept",
    sql: ["reason = 'request'", "actor = 'x'", "keep_consent = 1", "started_at_ms = 2", "fingerprint = 'x'"].map(
      (set) => `UPDATE erasures SET ${set} WHERE id = 'era_w'`,
    ),
  },
  erasures_end_once: {
    says: "erasures_kept",
    sql: [
      "UPDATE erasures SET completed_at_ms = 5, is_collected = 1 WHERE id = 'era_w'",
      "UPDATE erasures SET completed_at_ms = 5 WHERE id = 'era_done'",
      "UPDATE erasures SET lifted_at_ms = 9 WHERE id = 'era_done'",
      "UPDATE erasures SET counts = '[]' WHERE id = 'era_done'",
    ],
  },
  erasures_no_delete: { says: "erasures_kept", sql: ["DELETE FROM erasures WHERE id = 'era_done'"] },
  tombstones_no_replace: {
    says: "tombstones_stand",
    sql: [REPLACE, "REPLACE"].map((verb) => tombstone({ erasure_id: "era_done" }, verb)),
  },
  tombstones_no_update: {
    says: "tombstones_stand",
    sql: ["erasure_id = 'era_done'", "hash = 'x'", "blocks = 0"].map(
      (set) => `UPDATE tombstones SET ${set} ${OF_LIVE}`,
    ),
  },
  rejections_make_account: makesAccount(
    `INSERT INTO rejections VALUES (${LIVE}, 'new', '', 'shortage', 'chat', 'm', '{}', 1, 1)`,
  ),
  stripe_customers_make_account: makesAccount(`INSERT INTO stripe_customers VALUES (${LIVE}, 'cus_new', 'new', 1)`),
  stripe_customers_change_account: makesAccount("UPDATE stripe_customers SET user_id = 'new' WHERE customer = 'cus_w'"),
  payment_facts_make_account: makesAccount(
    `INSERT INTO payment_facts VALUES (${LIVE}, 'pay_w', 'session', 'cs_new', 1, 'new', '{}')`,
  ),
  payment_facts_change_account: makesAccount("UPDATE payment_facts SET user_id = 'new' WHERE id = 'ch_w'"),
  tombstone_ends_delete: {
    says: PASSED,
    sql: [
      [
        tombstone({ hash: "hash_cut", blocks: 0 }),
        `INSERT INTO tombstone_ends SELECT environment_id, hash FROM tombstones ${OF_LIVE}`,
        holds(`(SELECT group_concat(hash) FROM tombstones WHERE environment_id = ${LIVE}) = 'hash_other'`),
      ],
    ],
    behind: "cannot modify tombstone_ends",
  },
  tombstones_being_erased: {
    says: "tombstones_being_erased",
    sql: [
      [
        tombstone({ hash: "hash_cut", blocks: 0 }),
        erasureId({ position: 5, distinct_id: "c", hash: "hash_cut", blocks: 0, account_id: null }),
        "DELETE FROM tombstones WHERE hash = 'hash_cut'",
      ],
    ],
  },
  tombstones_no_delete: { says: "tombstones_stand", sql: [`DELETE FROM tombstones ${OF_LIVE}`] },
  erasure_ids_of_running: {
    says: "erasure_ids_kept",
    sql: [
      erasureId({ erasure_id: "era_done", distinct_id: "c", position: 5, account_id: null }),
      erasureId({ erasure_id: "era_none", distinct_id: "c", position: 5, account_id: null }),
      erasureId({ pseudonym: "x" }, REPLACE),
      erasureId({ position: 5, distinct_id: "c" }, REPLACE),
    ],
  },
  erasure_ids_frozen: {
    says: "erasure_ids_kept",
    sql: ["pseudonym = 'x'", `account_id = ${USER}`, "distinct_id = 'u'", "hash = 'x'"].map(
      (set) => `UPDATE erasure_ids SET ${set} ${OF_LIVE}`,
    ),
  },
  erasure_names_of_running: {
    says: "erasure_names_kept",
    sql: [erasureName({ account_id: USER }), erasureName({ new_name: "x" }, REPLACE)],
  },
  erasure_names_no_update: {
    says: "erasure_names_kept",
    sql: [`UPDATE erasure_names SET new_name = 'x' WHERE account_id = ${OTHER}`],
  },

  refund_owed_of_entry: {
    says: "refund_owed_of_entry",
    sql: [
      owed({ owed_minor: 60 }, REPLACE),
      owed({ seq: 1 }),
      owed({ seq: 3 }),
      owed({ account_id: OTHER }),
      owed({ balance_id: PART }),
      owed({ account_id: USER, balance_id: REVOKED, seq: LAST_SEQ }),
    ],
  },
  refund_owed_only_falls: {
    says: "refund_owed_only_falls",
    sql: ["owed_minor = 51", `account_id = ${OTHER}`, `balance_id = '${PART}'`, "seq = 3"].map(
      (set) => `UPDATE refund_owed SET ${set}`,
    ),
  },

  payment_grants_of_balance: {
    says: "payment_grants_of_balance",
    sql: [
      paymentGrant({ balance_id: "crb_nobody" }),
      paymentGrant({ balance_id: PART, account_id: OTHER }),
      paymentGrant({ balance_id: PART, environment_id: TEST }),
      paymentGrant({ clawed_back_minor: 1 }, REPLACE),
    ],
  },
  payment_grants_frozen: {
    says: "payment_grants_kept",
    sql: ["balance_id = 'crb_nobody'", `environment_id = ${TEST}`, `account_id = ${OTHER}`].map(
      (set) => `UPDATE payment_grants SET ${set} WHERE balance_id = '${REVOKED}'`,
    ),
  },
  payment_grants_no_delete: { says: "payment_grants_kept", sql: ["DELETE FROM payment_grants"] },
  stripe_payers_no_replace: { says: "stripe_payers_key", sql: [payer({ carries: "{}" }, REPLACE)] },
  stripe_payers_frozen: {
    says: "stripe_payers_kept",
    sql: [`environment_id = ${TEST}`, "id = 'x'"].map((set) => `UPDATE stripe_payers SET ${set}`),
  },
  stripe_payers_name_erased: { says: "stripe_payers_kept", sql: ["UPDATE stripe_payers SET customer = 'cus_x'"] },
  stripe_payers_no_delete: { says: "stripe_payers_kept", sql: ["DELETE FROM stripe_payers"] },
  payment_names_no_replace: {
    says: "payment_names_taken",
    sql: [REPLACE, "REPLACE"].map((verb) => paymentName({ payment_id: "pay_u" }, verb)),
  },

  credit_packs_version: {
    says: "credit_packs_version",
    sql: [
      "name = 'x'",
      "version = 1",
      "version = 3",
      "version = 2, pack_number = 9",
      "version = 2, last_item_number = 0",
    ].map((set) => `UPDATE credit_packs SET ${set} WHERE id = 'cpk_w'`),
  },
};

/** Attacks, by the name of the CHECK. A trigger that would reject the statement earlier is dropped. */
const checks: Readonly<Record<string, string | readonly string[]>> = {
  environments_mode: environment({ id: -3, mode: "staging" }),
  environments_clock: `UPDATE environments SET settings_snapshot = '${JSON.stringify({ clock: CLOCK })}' WHERE id = ${LIVE}`,
  environments_test_quota: `UPDATE environments SET test_balance_count = 1 WHERE id = ${TEST}`,
  api_keys_kind: key({ hash: "hash_new", id: "key_new", kind: "master" }),
  credit_pack_items_amount_positive: item({ position: 1, amount_minor: 0 }),
  database_size_one_row: "INSERT INTO database_size (id, bytes, freed_bytes) VALUES (2, 0, 0)",
  database_size_positive: ["bytes", "freed_bytes"].map((column) => `UPDATE database_size SET ${column} = -1`),
  statements_month: `INSERT INTO statements (environment_id, month, id, after_account_id, requested_at_ms) VALUES (${LIVE}, 'May 2026', 'stm_new', 0, 1)`,
  alerts_below: `UPDATE alerts SET percent_thousandths = 1 WHERE environment_id = ${LIVE}`,
  credit_balances_unit: balance("crb_new", LAST_SEQ + 1, { unit: "minutes" }),
  credit_balances_grant_kind: balance("crb_new", LAST_SEQ + 1, { grant_kind: ENTRY_KINDS.usage }),
  credit_balances_source: balance("crb_new", LAST_SEQ + 1, { source_number: 4 }),
  credit_balances_initial_positive: balance("crb_new", LAST_SEQ + 1, {
    initial_minor: 0,
    remaining_minor: 0,
    has_remaining: 0,
  }),
  credit_balances_remaining_not_negative: [
    "DROP TRIGGER credit_balances_begin_whole",
    balance("crb_new", LAST_SEQ + 1, { remaining_minor: -1, has_remaining: 0 }),
  ],
  credit_balances_remaining_within_bounds: balance("crb_new", LAST_SEQ + 1, {
    initial_minor: TOP + 1,
    remaining_minor: TOP + 1,
  }),
  credit_balances_has_remaining: balance("crb_new", LAST_SEQ + 1, { has_remaining: 0 }),
  credit_ledger_is_revoked: entry({ ...nextEntry, is_revoked: 2 }),
  credit_refunds_ordinal_max: ["DROP TRIGGER credit_refunds_gapless", refund({ ordinal: 101, refund_ref: "another" })],
  recurring_grants_every: recurring({ ordinal: 2, id: "rec_x", every: "hour" }),
  recurring_grants_state: recurring({ ordinal: 2, id: "rec_x", state: "idle", next_at_ms: null }),
  recurring_grants_reason: recurring({ ordinal: 2, id: "rec_x", reason: "forbidden" }),
  recurring_grants_next: recurring({ ordinal: 2, id: "rec_x", next_at_ms: null }),
  recurring_grants_rollover: recurring({ ordinal: 2, id: "rec_x", rollover_periods: 13 }),
  credit_refunds_share: refund({ ordinal: 2, refund_ref: "another", part: 3 }),
  credit_ledger_event: entry({ ...nextEntry, event_seq: null }),
  credit_ledger_reservation: entry({ ...nextEntry, reservation_number: 1 }),
  credit_ledger_by_caller: entry({ ...nextEntry, written_by: -1 }),
  credit_ledger_kind: entry({ ...nextEntry, delta_minor: -590, balance_after_minor: 0, kind: 13, is_revoked: 1 }),
  usage_events_properties_once: [
    largeProperties({ seq: 3 }),
    usageEvent({ ...third, properties: "{}", large_properties_bytes: 11 }),
  ],
  payments_status: payment({ id: "pay_new", reason: "no_user" }),
  stripe_log_outcome: logged({ event_id: "evt_new", outcome: "unmatched" }),
  stripe_log_user_of_ignored: logged({ event_id: "evt_new", outcome: "ignored", reason: "shape", requested_user: "u" }),
  refund_owed_positive: "UPDATE refund_owed SET owed_minor = 0",
  payment_grants_taken: "UPDATE payment_grants SET clawed_back_minor = -1",
  payment_grants_flags: "UPDATE payment_grants SET is_revoked = 2",
  reservations_state: reservation({ id: "res_new", reservation_number: 2, state: "lost" }),
  reservations_on_expiry: reservation({ id: "res_new", reservation_number: 2, is_charged: 2 }),
  distinct_ids_claimed_by_another: ["DROP TRIGGER distinct_ids_no_circle", claim("c", "c", 1)],
  distinct_ids_deleted_count: "UPDATE distinct_ids SET deleted_count = 1 WHERE distinct_id = 'c'",
  distinct_ids_replaced_count: "UPDATE distinct_ids SET replaced_count = 1 WHERE distinct_id = 'c'",
  distinct_ids_verified_user: "UPDATE distinct_ids SET is_verified_user = 1 WHERE distinct_id = 'c'",
  analytics_events_replaced_whole: analyticsEvent({ seq: 2, uuid: "uuid-new", replaced_at_ms: 1 }),
  distinct_ids_claims_made: "UPDATE distinct_ids SET claims_made = 1001 WHERE distinct_id = 'c'",
  distinct_ids_claim_whole: "UPDATE distinct_ids SET claimed_via = 'alias', claim_version = 1 WHERE distinct_id = 'c'",
  consent_log_decision: consent({ seq: 2, decision: "perhaps" }),
  export_audit_action: exportAudit({ seq: 2, action: "lost" }),
  webhook_deliveries_status: webhookDelivery({ message_id: "msg_new", status: "lost" }),
  erasures_lifted_after_end: "UPDATE erasures SET lifted_at_ms = 1 WHERE id = 'era_w'",
  erasure_names_kind: erasureName({ kind: "whim" }),
  price_lists_version: priceList({ version: 10_001 }),
  usage_limits_amount: usageLimit({ id: "lim_new", name_key: "new", amount_minor: -1 }),
  members_number: member({ member_number: 0, member_id: "m" }),
  usage_events_member_known: usageEvent({ ...third, member_number: 0 }),
  reservations_member_known: reservation({ id: "res_new", reservation_number: 2, member_number: 0 }),
  usage_limits_per: usageLimit({ id: "lim_new", name_key: "new", per: "team" }),
  usage_limits_unit: usageLimit({ id: "lim_new", name_key: "new", unit: "minutes" }),
  usage_limits_every: usageLimit({ id: "lim_new", name_key: "new", every: "year" }),
  usage_limits_time_zone: usageLimit({ id: "lim_new", name_key: "new", every: "hour" }),
  usage_counters_used: "UPDATE usage_counters SET used_minor = -1",
  usage_counters_override: "UPDATE usage_counters SET override_minor = 1",
  rejections_kind: `UPDATE rejections SET kind = 'whim' WHERE environment_id = ${LIVE}`,
};

/** Attacks, by "table.column, column", with a trigger's error if a trigger rejects the statement earlier. */
const uniques: Readonly<Record<string, readonly [sql: string, says?: string]>> = {
  "environments.app_id, mode": [environment({ id: -3 }), "environments_kept"],
  "api_keys.environment_id, id": [key({ hash: "hash_new", id: "key_w" }), "api_keys_kept"],
  "statements.id": [
    `INSERT INTO statements (environment_id, month, id, after_account_id, requested_at_ms) VALUES (${LIVE}, '2026-05', 'stm_w', 0, 1)`,
    "statements_kept",
  ],
  "admin_keys.id": [adminKey({ hash: "hash_new" }), "admin_keys_kept"],
  "credit_packs.app_id, pack_number": [pack({ id: "cpk_new", name_key: "new", pack_number: 1 })],
  "credit_packs.app_id, name_key": [pack({ id: "cpk_new" })],
  "accounts.environment_id, user_id": [account({ id: -12, user_id: "u" }), "accounts_kept"],
  "credit_balances.id": [balance(WHOLE, LAST_SEQ + 1), "credit_balances_id"],
  "credit_balances.external_ref, account_id, pack_number, item_number": [
    balance("crb_new", LAST_SEQ + 1, { external_ref: "order" }),
    "credit_balances_external_ref",
  ],
  "credit_refunds.account_id, external_ref, refund_ref": [refund({ ordinal: 2 }), "credit_refunds_gapless"],
  "recurring_grants.environment_id, id": [recurring({ ordinal: 2 }), "recurring_grants_id"],
  "usage_events.environment_id, event_id": [usageEvent({ seq: 3 }), "usage_events_event_id"],
  "reservations.environment_id, id": [reservation({ reservation_number: 2 }), "reservations_id"],
  "analytics_events.environment_id, uuid, distinct_id, is_verified": [
    analyticsEvent({ seq: 2 }),
    "analytics_events_kept",
  ],
  "erasure_ids.environment_id, distinct_id": [erasureId({ position: 5 }), "erasure_ids_kept"],
  "erasure_ids.account_id": [erasureId({ position: 5, distinct_id: "c" }), "erasure_ids_kept"],
  "members.environment_id, member_id, account_id": [member({ member_number: 2 }), "members_kept"],
  "erasure_names.account_id, kind, new_name": [erasureName({ old_name: "e8" })],
  "usage_limits.environment_id, name_key": [usageLimit({ id: "lim_new" })],
  "admin_audit.app_id, id": [adminAudit({ seq: 2 }), "admin_audit_id"],
};

/** Attacks, by "table -> parent". */
const parents: Readonly<Record<string, readonly string[]>> = {
  "environments -> apps": [environment({ id: -3, app_id: "app_nobody" }), "DELETE FROM apps WHERE id = 'app_w'"],
  "api_keys -> environments": [key({ hash: "hash_new", id: "key_new", environment_id: -99 })],
  "credit_packs -> apps": [
    pack({ id: "cpk_new", app_id: "app_nobody" }),
    "UPDATE apps SET id = 'app_new' WHERE id = 'app_w'",
  ],
  "credit_pack_items -> credit_packs": [
    item({ position: 1, pack_id: "cpk_nobody" }),
    "DELETE FROM credit_packs WHERE id = 'cpk_w'",
  ],
  "accounts -> environments": [account({ id: -12, user_id: "new", environment_id: -99 })],
  "webhook_endpoints -> environments": [webhookEndpoint({ id: "whk_new", environment_id: -99 })],
  "tombstones -> erasures": [tombstone({ hash: "hash_new", erasure_id: "era_none" })],
  "usage_counters -> usage_limits": [
    `INSERT INTO usage_counters (environment_id, limit_id, account_id) VALUES (${LIVE}, 'lim_none', ${USER})`,
  ],
  "credit_balances -> accounts": [balance("crb_new", 1, { account_id: -99 })],
};

const names = async (sql: string): Promise<string[]> =>
  (await db.prepare(sql).all<{ name: string }>()).results.map((row) => row.name);
const isOwn = "name NOT GLOB 'sqlite_*' AND name NOT GLOB '_cf_*' AND name NOT GLOB 'd1_*'";
const tables = `SELECT name FROM sqlite_schema WHERE type = 'table' AND ${isOwn}`;

/** The changes of an erasure to all rows of the user. */
const erased: readonly string[] = [
  ...erasing,
  `UPDATE accounts SET user_id = 'erased_u', is_erased = 1 WHERE id = ${USER}`,
  settleSql("released"),
  `UPDATE credit_ledger SET note = NULL WHERE account_id = ${USER}`,
  `UPDATE credit_balances SET notes = NULL, external_ref = 'hash_order' WHERE id = '${WHOLE}'`,
  `UPDATE credit_refunds SET external_ref = 'hash_order', refund_ref = 'hash_refund', request_hash = '' WHERE account_id = ${USER}`,
  `UPDATE credit_adjustments SET id = 'r3', request_hash = '' WHERE id = 'adj_w' AND environment_id = ${LIVE}`,
  `UPDATE usage_events SET event_id = 'r1', properties = NULL, large_properties_bytes = NULL, request_hash = '' WHERE event_id = 'e1' AND environment_id = ${LIVE}`,
  `UPDATE usage_events SET event_id = 'r2', reservation_id = 'res_r', properties = NULL, large_properties_bytes = NULL, request_hash = '' WHERE event_id = 'e2' AND environment_id = ${LIVE}`,
  `DELETE FROM large_properties WHERE account_id = ${USER}`,
  `UPDATE reservations SET id = 'res_r', request_hash = '' WHERE id = 'res_w' AND environment_id = ${LIVE}`,
  `UPDATE export_audit SET distinct_id = 'hash_a' WHERE environment_id = ${LIVE}`,
  `UPDATE consent_log SET distinct_id = 'hash_a' WHERE environment_id = ${LIVE}`,
  ...["analytics_events", "distinct_ids"].map((table) => `DELETE FROM ${table} ${OF_LIVE} AND distinct_id = 'a'`),
];

it("the database accepted a world that follows the rules", async () => {
  expect(await outcome()).toContain(PASSED);
});

it("the database lets a running erasure remove the names of its person, and rejects changes of these rows afterwards", async () => {
  expect(await outcome(...erased)).toContain(PASSED);
  const over = ["DELETE FROM erasure_names", "DELETE FROM erasure_ids"];
  expect(await outcome(...erased, ...over)).toContain(PASSED);
  for (const sql of [
    "UPDATE credit_ledger SET note = 'x'",
    "UPDATE reservations SET id = 'res_w' WHERE id = 'res_r'",
    "UPDATE reservations SET settled_at_ms = 7 WHERE id = 'res_r'",
    "UPDATE usage_events SET event_id = 'e1' WHERE event_id = 'r1'",
    "UPDATE credit_adjustments SET id = 'adj_w'",
    "UPDATE credit_refunds SET external_ref = 'order'",
    `UPDATE accounts SET user_id = 'u' WHERE id = ${USER}`,
  ]) {
    expect(await outcome(...erased, ...over, sql), sql).toMatch(/append_only|frozen|kept|settled_once/);
  }
});

it("the database has no trigger, CHECK, unique index or foreign key that these tests do not attack", async () => {
  expect(Object.keys(attacks).toSorted()).toEqual(
    await names("SELECT name FROM sqlite_schema WHERE type = 'trigger' ORDER BY name"),
  );
  const texts = await names(`SELECT sql AS name FROM sqlite_schema WHERE type = 'table' AND ${isOwn}`);
  const found = texts.flatMap((text) => [...text.matchAll(/CONSTRAINT "(\w+)" CHECK/g)].map(([, name]) => name));
  expect(Object.keys(checks).toSorted()).toEqual(found.toSorted());
  const indexes = await names(`SELECT t.name || '.' || (
        SELECT group_concat(c.name, ', ') FROM pragma_index_info(i.name) AS c
      ) AS name FROM (${tables}) AS t, pragma_index_list(t.name) AS i WHERE i."unique" = 1 AND i.origin = 'c'`);
  expect(Object.keys(uniques).toSorted()).toEqual(indexes.toSorted());
  const keys = await names(`SELECT DISTINCT t.name || ' -> ' || f."table" AS name
      FROM (${tables}) AS t, pragma_foreign_key_list(t.name) AS f`);
  expect(Object.keys(parents).toSorted()).toEqual(keys.toSorted());
});

it.each(Object.entries(attacks))(
  "the database is protected by the trigger %s, which no other guard replaces",
  async (trigger, attack) => {
    const { says, sql, behind = PASSED } = attack;
    for (const statements of sql) {
      const tried = typeof statements === "string" ? [statements] : statements;
      expect(await outcome(...tried), tried.join()).toContain(says);
    }
    // Without the trigger the attack gets further, which proves that this trigger stopped it.
    const [first = ""] = sql;
    const tried = typeof first === "string" ? [first] : first;
    expect(await outcome(`DROP TRIGGER ${trigger}`, ...tried), tried.join()).toContain(behind);
  },
);

it.each(Object.entries(checks))("the database is protected by the CHECK %s", async (name, sql) => {
  expect(await outcome(...(typeof sql === "string" ? [sql] : sql))).toContain(name);
});

it.each([
  ["is behind real time", { ...CLOCK, aheadMs: -1 }],
  ["is more than ten years ahead", { ...CLOCK, aheadMs: 3_653 * 86_400_000 + 1 }],
  ["has reached more than it was set to", { ...CLOCK, atMs: 1_001 }],
  ["was never set", { aheadMs: 1 }],
  ["is empty", {}],
])("the database has no test clock that %s", async (_, clock) => {
  expect(await outcome(setClock(clock))).toContain("environments_clock");
});

it.each(Object.entries(uniques))("the database refuses a second row with the same %s", async (name, [sql, says]) => {
  const [table = "", columns = ""] = name.split(".");
  expect(await outcome(sql)).toContain(
    says ??
      columns
        .split(", ")
        .map((column) => `${table}.${column}`)
        .join(", "),
  );
});

it.each(Object.entries(parents))(
  "the database refuses a row without its parent, and the deletion of a parent with rows: %s",
  async (_, sql) => {
    for (const attack of sql) expect(await outcome(attack)).toContain("FOREIGN KEY constraint failed");
  },
);

it("the database rejects a fraction and a text instead of a whole number, because every table is STRICT", async () => {
  const { results } = await db
    .prepare(`SELECT t.name AS "table", max(c.name) AS "column", list.strict AS isStrict
        FROM (${tables}) AS t JOIN pragma_table_info(t.name) AS c JOIN pragma_table_list AS list ON list.name = t.name
        WHERE upper(c.type) = 'INTEGER' GROUP BY t.name ORDER BY 1`)
    .all<{ table: string; column: string; isStrict: number }>();
  expect(results.length).toBeGreaterThan(20);
  expect(results.filter(({ isStrict }) => isStrict !== 1)).toEqual([]);
  for (const { table, column } of results) {
    const triggers = await names(`SELECT name FROM sqlite_schema WHERE type = 'trigger' AND tbl_name = '${table}'`);
    const dropAll = triggers.map((name) => `DROP TRIGGER ${name}`);
    for (const value of ["0.5", "'much'", "x'00'"]) {
      const error = await outcome(...dropAll, `UPDATE ${table} SET ${column} = ${value}`);
      expect(error, `${table}.${column} = ${value}`).toMatch(/cannot store|datatype mismatch/);
    }
  }
}, 120_000);
