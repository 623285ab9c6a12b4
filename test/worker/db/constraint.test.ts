import { env } from "cloudflare:workers";
import { beforeAll, expect, it } from "vitest";
import { NEVER_MS } from "../../../src/books/ledger/balance.ts";
import { type Constraint, findConstraint } from "../../../src/db/attempt.ts";
import { BALANCE_SOURCES, ENTRY_KINDS } from "../../../src/db/schema.ts";

/** Ids that no other test file uses, because all files share one database. */
const ENVIRONMENT = -904;
const ACCOUNT = -905;

beforeAll(async () => {
  await env.DB.batch(
    [
      "INSERT INTO apps (id, name, created_at_ms) VALUES ('app_constraint', 'C', 1)",
      `INSERT INTO environments (id, app_id, mode) VALUES (${ENVIRONMENT}, 'app_constraint', 'live')`,
      `INSERT INTO accounts (id, environment_id, user_id) VALUES (${ACCOUNT}, ${ENVIRONMENT}, 'u')`,
    ].map((sql) => env.DB.prepare(sql)),
  );
});

const balance = (id: string, seq: number, ref: string | null = null) => `INSERT INTO credit_balances (
    account_id, id, pack_id, pack_name, pack_number, item_number, unit, matches, priority, initial_minor, remaining_minor,
    has_remaining, source_number, external_ref, granted_at_ms, expires_at_ms, grant_seq, last_seq
  ) VALUES (${ACCOUNT}, '${id}', 'cpk_1', 'Pack', 1, 0, 'count', '[]', 100, 1000, 1000, 1, ${BALANCE_SOURCES.manual},
    ${ref === null ? "NULL" : `'${ref}'`}, 1, ${NEVER_MS}, ${seq}, ${seq})`;

const entry = (seq: number, delta: number, after: number, previous: number, revoked = 0) => `INSERT INTO credit_ledger (
    account_id, seq, grant_seq, delta_minor, balance_after_minor, previous_seq, kind, written_by, occurred_at_ms, is_revoked
  ) VALUES (${ACCOUNT}, ${seq}, 1, ${delta}, ${after}, ${previous}, ${ENTRY_KINDS.refund}, 0, 5, ${revoked})`;

const usageEvent = (seq: number, eventId: string, member: number | null = null) => `INSERT INTO usage_events (
    account_id, seq, environment_id, event_id, event, count_minor, occurred_at_ms, received_after_ms,
    request_hash, debits, member_number
  ) VALUES (${ACCOUNT}, ${seq}, ${ENVIRONMENT}, '${eventId}', 'chat', 1000, 1, 0, 'hash', '[]', ${member})`;

const id = (distinctId: string) => `INSERT INTO distinct_ids (
    environment_id, distinct_id, is_device_form, first_seen_at_ms, last_seen_at_ms
  ) VALUES (${ENVIRONMENT}, '${distinctId}', 0, 1, 1)`;

const claim = (distinctId: string, by: string, version: number) => `UPDATE distinct_ids
  SET claimed_by = '${by}', claimed_via = 'alias', claimed_at_ms = 1, claim_is_verified = 1, claim_version = ${version}
  WHERE environment_id = ${ENVIRONMENT} AND distinct_id = '${distinctId}'`;

const idProperties = (version: number) => `INSERT INTO id_properties (environment_id, distinct_id, properties, version)
  VALUES (${ENVIRONMENT}, 'd', '{}', ${version}) ON CONFLICT DO UPDATE SET version = excluded.version`;

/** A reservation that is never due, so that the cron of other tests does not settle it. */
const reservation = (state: string, member: number | null = null, number = 1) => `INSERT INTO reservations (
    environment_id, id, account_id, reservation_number, event, quantities, legs, state, created_at_ms, expires_at_ms, request_hash,
    member_number
  ) VALUES (${ENVIRONMENT}, 'res_1', ${ACCOUNT}, ${number}, 'chat', '{}', '[]', '${state}', 1, 9000000000000, 'hash', ${member})`;

const adjustment = (id: string) => `INSERT INTO credit_adjustments (
    environment_id, id, account_id, balance_id, seq, request_hash
  ) VALUES (${ENVIRONMENT}, '${id}', ${ACCOUNT}, 'crb_c1', 2, 'hash')`;

const insertRefund = (ordinal: number, refundRef: string) => `INSERT INTO credit_refunds (
    account_id, external_ref, ordinal, refund_ref, pack_ids, first_seq, last_seq, request_hash
  ) VALUES (${ACCOUNT}, 'order', ${ordinal}, '${refundRef}', '[]', 2, 2, 'hash')`;

const pack = (id: string) =>
  `INSERT INTO credit_packs (app_id, id, pack_number, name, name_key, created_at_ms)
   SELECT 'app_constraint', '${id}', 1 + count(*), 'Gold', 'gold', 1 FROM credit_packs WHERE app_id = 'app_constraint'`;

const insertConsent = `INSERT INTO consent_log (
    environment_id, distinct_id, seq, id, purpose, decision, occurred_at_ms, received_at_ms
  ) VALUES (${ENVIRONMENT}, 'd', 1, 'con_1', 'ads', 'denied', 1, 1)`;

const audit = `INSERT INTO export_audit (environment_id, distinct_id, seq, id, action, token_hash, occurred_at_ms)
  VALUES (${ENVIRONMENT}, 'd', 1, 'exp_1', 'minted', 'hash', 1)`;

const erasure = `INSERT INTO erasures (environment_id, id, keep_consent, actor, fingerprint, started_at_ms)
  VALUES (${ENVIRONMENT}, 'era_1', 0, 'key', 'secret', 1)`;
const erasureId = (position: number) =>
  `INSERT INTO erasure_ids (environment_id, erasure_id, position, distinct_id, hash, pseudonym, blocks)
   VALUES (${ENVIRONMENT}, 'era_1', ${position}, 'd', 'hash', 'erased_d', 0)`;
const tombstone = `INSERT INTO tombstones (environment_id, hash, erasure_id, blocks)
  VALUES (${ENVIRONMENT}, 'hash', 'era_1', 0)`;

const counted = (count: number) =>
  `INSERT INTO environments (app_id, mode, test_balance_count, test_balance_quota) VALUES ('app_constraint', 'test', ${count}, 5)`;

/** Counts an amount against the limit, at the time 1. */
const count = (minor: number, fields: string) =>
  `INSERT INTO usage_counts (environment_id, account_id, at_ms, counted)
   VALUES (${ENVIRONMENT}, ${ACCOUNT}, 1, '[{"limitId":"lim_1","minor":${minor},"amountMinor":1,${fields}}]')`;
const LIMIT = `INSERT INTO usage_limits (environment_id, id, ordinal, name, name_key, matches, unit, amount_minor, every,
    time_zone, utc_offset_ms, created_at_ms)
  VALUES (${ENVIRONMENT}, 'lim_1', 1, 'Limit', 'limit', '[]', 'count', 1, 'day', 'UTC', 0, 1)`;

/** Inserts counts of the environment that `counted` made. */
const counts = (column: "id_events" | "id_bytes" | "consents" | "unmarked_events" | "unmarked_bytes", most: number) =>
  `INSERT INTO analytics_counts (environment_id, day, events, bytes, ${column}, is_share_full)
   SELECT max(id), 1, ${column === "unmarked_events" ? most : 1}, ${column === "unmarked_bytes" ? most : 1}, ${most}, 0
   FROM environments`;

const endpoint = (n: number) => `INSERT INTO webhook_endpoints (id, environment_id, url, secret, created_at_ms)
  VALUES ('whk_constraint_${n}', ${ENVIRONMENT}, 'https://example.com', 'sealed', 1)`;

const recurring = (ordinal: number, id: string) => `INSERT INTO recurring_grants (
    account_id, ordinal, environment_id, id, pack_id, pack_name, every, anchor_ms, time_zone, anchor_local_ms,
    utc_offset_ms, id_seed, state, last_n, next_at_ms, counted_balances, created_at_ms, request_hash
  ) VALUES (${ACCOUNT}, ${ordinal}, ${ENVIRONMENT}, '${id}', 'cpk_1', 'Pack', 'day', 1, 'UTC', 1, 0, 'seed',
    'active', 1, 9000000000000, 1, 1, 'hash')`;

/** For each constraint, a batch whose last statement violates it. */
const violations: Record<Constraint, readonly string[]> = {
  admin_audit_seq_gapless: Array.from(
    { length: 2 },
    (_, n) => `INSERT INTO admin_audit (app_id, seq, id, at_ms, actor, action, target, details)
      VALUES ('app_constraint', 1, 'aud_${n}', 1, 'api', 'app.created', 'app_constraint', '{}')`,
  ),
  guard_payment: ["INSERT INTO guards (name, holds) VALUES ('payment', 0)"],
  recurring_grants_id: [recurring(1, "rec_1"), recurring(2, "rec_1")],
  recurring_grants_bounded: Array.from({ length: 101 }, (_, n) => recurring(n + 1, `rec_${n}`)),
  recurring_grants_in_order: [recurring(1, "rec_1"), "UPDATE recurring_grants SET last_n = 0"],
  guard_recurring: [recurring(1, "rec_1"), "UPDATE recurring_grants SET last_n = NULL"],
  payment_names_taken: Array.from(
    { length: 2 },
    () => `INSERT INTO payment_names (environment_id, name, payment_id) VALUES (${ENVIRONMENT}, 'pi_1', 'pay_1')`,
  ),
  stripe_payers_key: Array.from(
    { length: 2 },
    (_, n) => `INSERT INTO stripe_payers VALUES (${ENVIRONMENT}, 'cus_1', 'payer_${n}', 1, '{}', '[]', '[]', 0)`,
  ),
  credit_balances_remaining_not_negative: [balance("crb_c1", 1), entry(2, -1_001, -1, 1)],
  credit_balances_remaining_within_bounds: [
    balance("crb_c1", 1),
    entry(2, 8_796_093_022_208_000, 8_796_093_022_209_000, 1),
  ],
  credit_balances_external_ref: [balance("crb_c1", 1, "order"), balance("crb_c2", 2, "order")],
  credit_balances_id: [balance("crb_c1", 1), balance("crb_c1", 2)],
  credit_balances_revoked: [balance("crb_c1", 1), entry(2, -1_000, 0, 1, 1), entry(3, 5, 5, 2, 1)],
  credit_balances_bounded: [
    balance("crb_c1", 1),
    `INSERT INTO credit_balances SELECT account_id, b.id || value, pack_id, pack_name, pack_number, item_number, unit, hex(zeroblob(850000)), priority,
       initial_minor, remaining_minor, has_remaining, source_number, grant_kind, granted_by, NULL, notes, granted_at_ms, NULL, expires_at_ms, NULL, 1 + value, 1 + value
     FROM credit_balances AS b CROSS JOIN json_each('[1,2,3,4,5]') WHERE b.id = 'crb_c1'`,
  ],
  credit_balances_of_reference_bounded: [
    balance("crb_c1", 1),
    `WITH RECURSIVE n (i) AS (SELECT 1 UNION ALL SELECT i + 1 FROM n WHERE i < 5001)
     INSERT INTO credit_balances SELECT account_id, b.id || i, pack_id || i, pack_name, i, item_number, unit, matches, priority,
       initial_minor, remaining_minor, has_remaining, source_number, grant_kind, granted_by, 'many', notes, granted_at_ms, NULL, expires_at_ms, NULL, 1 + i, 1 + i
     FROM credit_balances AS b CROSS JOIN n WHERE b.id = 'crb_c1'`,
  ],
  clock_kept: [
    `INSERT INTO environments (id, app_id, mode, settings_snapshot)
     VALUES (-905, 'app_constraint', 'test', '{"clock":{"aheadMs":0,"setMs":1}}')`,
    "INSERT INTO accounts (environment_id, user_id) VALUES (-905, 'u')",
    "UPDATE environments SET settings_snapshot = NULL WHERE id = -905",
  ],
  guard_key: ["INSERT INTO guards (name, holds) VALUES ('key', 0)"],
  guard_link: ["INSERT INTO guards (name, holds) VALUES ('link', 0)"],
  guard_origin: ["INSERT INTO guards (name, holds) VALUES ('origin', 0)"],
  guard_owed: ["INSERT INTO guards (name, holds) VALUES ('owed', 0)"],
  guard_environment: ["INSERT INTO guards (name, holds) VALUES ('environment', 0)"],
  guard_person: ["INSERT INTO guards (name, holds) VALUES ('person', 0)"],
  guard_statement: ["INSERT INTO guards (name, holds) VALUES ('statement', 0)"],
  guard_tombstones: ["INSERT INTO guards (name, holds) VALUES ('tombstones', 0)"],
  erasures_kept: [erasure, erasure],
  erasure_ids_kept: [erasure, erasureId(0), erasureId(1)],
  tombstones_stand: [erasure, tombstone, tombstone],
  tombstones_being_erased: [erasure, tombstone, erasureId(0), "DELETE FROM tombstones WHERE hash = 'hash'"],
  guard_people: ["INSERT INTO guards (name, holds) VALUES ('people', 0)"],
  limit_events: ["INSERT INTO guards (name, holds) VALUES ('events', 0)"],
  limit_space: ["INSERT INTO guards (name, holds) VALUES ('space', 0)"],
  limit_bytes: ["INSERT INTO guards (name, holds) VALUES ('bytes', 0)"],
  limit_share: ["INSERT INTO guards (name, holds) VALUES ('share', 0)"],
  limit_unmarked_events: [counted(0), counts("unmarked_events", 750_001)],
  limit_unmarked_bytes: [
    counted(0),
    counts("unmarked_bytes", 805_306_369).replace("unmarked_bytes", "unmarked_events"),
  ],
  limit_consents: [counted(0), counts("consents", 1_000_001)],
  limit_id_events: [counted(0), counts("id_events", 100_001)],
  limit_id_bytes: [counted(0), counts("id_bytes", 104_857_601)],
  guard_account: ["INSERT INTO guards (name, holds) VALUES ('account', 0)"],
  credit_adjustments_primary_key: [balance("crb_c1", 1), adjustment("adj_1"), adjustment("adj_2"), adjustment("adj_1")],
  credit_balances_revoked_once: [
    balance("crb_c1", 1),
    entry(2, -1_000, 0, 1, 1),
    "UPDATE credit_balances SET revoked_at_ms = 2 WHERE id = 'crb_c1'",
  ],
  credit_refunds_gapless: [insertRefund(1, "a"), insertRefund(1, "b")],
  guard_balance: ["INSERT INTO guards (name, holds) VALUES ('balance', 0)"],
  credit_ledger_seq_gapless: [balance("crb_c1", 1), entry(3, -1, 999, 1)],
  credit_ledger_follows_balance: [balance("crb_c1", 1), entry(2, -1, 998, 1)],
  environments_test_quota: [
    counted(5),
    "UPDATE environments SET test_balance_count = 6 WHERE app_id = 'app_constraint'",
  ],
  credit_packs_version: [pack("cpk_1"), "UPDATE credit_packs SET version = 3 WHERE app_id = 'app_constraint'"],
  credit_packs_name_key: [pack("cpk_1"), pack("cpk_2")],
  usage_events_event_id: [usageEvent(1, "e1"), usageEvent(2, "e1")],
  usage_events_hashed_id: [usageEvent(1, "e1").replace("'e1'", "NULL")],
  reservations_hashed_id: [reservation("open").replace(/'res_[^']*'/, "NULL")],
  usage_events_seq_gapless: [usageEvent(1, "e1"), usageEvent(1, "e2")],
  usage_events_member_known: [usageEvent(1, "e1", 0)],
  reservations_member_known: [reservation("open", 0)],
  reservations_id: [reservation("open"), reservation("open", null, 2)],
  reservations_settled_once: [
    reservation("released"),
    `UPDATE reservations SET state = 'committed' WHERE environment_id = ${ENVIRONMENT}`,
  ],
  reservations_state: [
    reservation("open"),
    `UPDATE reservations SET state = 'not due' WHERE environment_id = ${ENVIRONMENT}`,
  ],
  reservations_end_not_earlier: [
    reservation("open"),
    `UPDATE reservations SET expires_at_ms = expires_at_ms - 1 WHERE environment_id = ${ENVIRONMENT}`,
  ],
  distinct_ids_claim_version: [id("a"), id("b"), claim("a", "b", 1), claim("a", "b", 1)],
  distinct_ids_claims_made: [id("a"), "UPDATE distinct_ids SET claims_made = 1001"],
  distinct_ids_no_circle: [id("a"), id("b"), id("c"), claim("a", "b", 1), claim("b", "c", 1), claim("c", "a", 1)],
  id_properties_version: [idProperties(1), idProperties(2), idProperties(2)],
  consent_log_seq_gapless: [insertConsent, insertConsent],
  export_audit_seq_gapless: [audit, audit],
  usage_summed_once: [`INSERT INTO usage_summed VALUES (${ENVIRONMENT}, ${ACCOUNT}, 1, 1)`],
  usage_counters_window: [LIMIT, count(2, '"endMs":5'), count(2, '"endMs":6')],
  usage_limit_reached: [LIMIT, count(2, '"endMs":5,"isEnforced":1')],
  usage_limits_name_key: [LIMIT, LIMIT.replace("lim_1", "lim_2")],
  webhook_endpoints_limit: Array.from({ length: 11 }, (_, n) => endpoint(n)),
};

async function thrownBy(work: Promise<unknown>): Promise<unknown> {
  return work.then(
    () => expect.unreachable("the database took it"),
    (error: unknown) => error,
  );
}

it.each(Object.entries(violations))(
  "findConstraint recognises a violation of %s in a batch, of which nothing is stored",
  async (name, batch) => {
    const error = await thrownBy(env.DB.batch(batch.map((statement) => env.DB.prepare(statement))));
    expect(findConstraint(error)).toBe(name);
    const left = await env.DB.prepare(
      `SELECT (SELECT count(*) FROM credit_ledger WHERE account_id = ${ACCOUNT})
          + (SELECT count(*) FROM credit_adjustments WHERE environment_id = ${ENVIRONMENT})
          + (SELECT count(*) FROM reservations WHERE environment_id = ${ENVIRONMENT})
          + (SELECT count(*) FROM usage_events WHERE environment_id = ${ENVIRONMENT}) AS n`,
    ).first();
    expect(left).toEqual({ n: 0 });
  },
);

it("findConstraint returns null for other errors", async () => {
  const misspelt = await thrownBy(env.DB.prepare("SELECT environments_test_quota FROM apps").run());
  expect(findConstraint(misspelt)).toBeNull();
  const unnamed = await thrownBy(env.DB.batch([env.DB.prepare(counted(0)), env.DB.prepare(counted(0))]));
  expect(String(unnamed)).toContain("SQLITE_CONSTRAINT");
  expect(findConstraint(unnamed)).toBeNull();
  for (const other of [null, undefined, "SQLITE_CONSTRAINT credit_ledger_seq_gapless", new Error("boom")]) {
    expect(findConstraint(other)).toBeNull();
  }
});
