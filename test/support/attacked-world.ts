import { NEVER_MS } from "../../src/books/ledger/balance.ts";
import { BALANCE_SOURCES, ENTRY_KINDS } from "../../src/db/schema.ts";

// The statements of `world` insert at least one row into every table. The integer ids are negative, so that no other test uses
// them.

// While a trigger runs, -1 stands for an integer that SQLite has not chosen yet.
export const LIVE = -21;
export const TEST = -22;
export const USER = -10;
export const OTHER = -11;
/** A full balance, a partly used one, and a revoked one. A reservation holds parts of the last two. */
export const [WHOLE, PART, REVOKED] = ["crb_whole_w", "crb_part_w", "crb_revoked_w"] as const;

export const GRANT_SEQS = { [WHOLE]: 1, [PART]: 2, [REVOKED]: 3 } as const;

function insert(verb: string, table: string, values: Readonly<Record<string, string | number | null>>): string {
  const written = Object.values(values).map((value) => (typeof value === "string" ? `'${value}'` : `${value}`));
  return `${verb} INTO ${table} (${Object.keys(values).join()}) VALUES (${written.join()})`;
}

type Given = Readonly<Record<string, string | number | null>>;
type Write = (given: Given, verb?: string) => string;

const writer =
  (table: string, defaults: Given): Write =>
  (given, verb = "INSERT") =>
    insert(verb, table, { ...defaults, ...given });

const app = writer("apps", { name: "W", created_at_ms: 1 });
export const environment = writer("environments", { app_id: "app_w", mode: "live" });
export const key = writer("api_keys", { environment_id: LIVE, kind: "secret", hint: "sk", created_at_ms: 1 });
export const adminKey = writer("admin_keys", {
  hash: "hash_a",
  id: "adk_w",
  hint: "ak",
  name: "W",
  scopes: '["read"]',
  created_at_ms: 1,
});
export const pack = writer("credit_packs", {
  app_id: "app_w",
  pack_number: 2,
  name: "Pack",
  name_key: "pack",
  created_at_ms: 1,
});
export const item = writer("credit_pack_items", {
  app_id: "app_w",
  pack_id: "cpk_w",
  position: 0,
  item_number: 1,
  amount_minor: 1,
  unit: "count",
});
export const account = writer("accounts", { environment_id: LIVE });
/** A member of the user. The member is another user, too. */
export const member = writer("members", {
  account_id: USER,
  member_number: 1,
  environment_id: LIVE,
  member_id: "other",
});
/** A balance of 1,000 steps. */
export const balance = (id: string, seq: number, given: Given = {}, verb = "INSERT"): string =>
  insert(verb, "credit_balances", {
    account_id: USER,
    id,
    pack_id: "cpk_w",
    pack_name: "Pack",
    pack_number: 1,
    item_number: 0,
    unit: "count",
    matches: "[]",
    priority: 100,
    initial_minor: 1_000,
    remaining_minor: 1_000,
    has_remaining: 1,
    source_number: BALANCE_SOURCES.manual,
    granted_at_ms: 1,
    expires_at_ms: NEVER_MS,
    grant_seq: seq,
    last_seq: seq,
    ...given,
  });
export const entry: Write = (given, verb = "INSERT") =>
  insert(verb, "credit_ledger", {
    account_id: USER,
    grant_seq: GRANT_SEQS[PART],
    ...("kind" in given ? {} : { kind: ENTRY_KINDS.usage, event_seq: 1 }),
    written_by: 3,
    occurred_at_ms: 5,
    ...given,
  });
export const adjustment = writer("credit_adjustments", {
  environment_id: LIVE,
  id: "adj_w",
  account_id: USER,
  balance_id: PART,
  seq: 5,
  request_hash: "hash",
});
export const refund = writer("credit_refunds", {
  account_id: USER,
  external_ref: "order",
  ordinal: 1,
  refund_ref: "refund",
  pack_ids: "[]",
  part: 1,
  of_parts: 2,
  first_seq: 5,
  last_seq: 5,
  request_hash: "hash",
});
export const usageEvent = writer("usage_events", {
  account_id: USER,
  seq: 1,
  environment_id: LIVE,
  event_id: "e1",
  event: "chat",
  count_minor: 1_000,
  occurred_at_ms: 10,
  received_after_ms: 0,
  request_hash: "hash",
  debits: "[]",
});
/** The properties of the event `e2`. */
export const largeProperties = writer("large_properties", {
  account_id: USER,
  seq: 2,
  properties: '{"large":1}',
});
export const reservation = writer("reservations", {
  account_id: USER,
  reservation_number: 1,
  environment_id: LIVE,
  id: "res_w",
  event: "chat",
  quantities: "{}",
  legs: JSON.stringify([
    [GRANT_SEQS[REVOKED], 0, 300, 700],
    [GRANT_SEQS[PART], 0, 10, 590],
  ]),
  state: "open",
  created_at_ms: 1,
  expires_at_ms: 9_000_000_000_000,
  request_hash: "hash",
});
/** It does not become due. */
export const recurring = writer("recurring_grants", {
  account_id: USER,
  ordinal: 1,
  environment_id: LIVE,
  id: "rec_w",
  pack_id: "cpk_w",
  pack_name: "Pack",
  every: "day",
  anchor_ms: 1,
  time_zone: "UTC",
  anchor_local_ms: 1,
  utc_offset_ms: 0,
  id_seed: "seed",
  state: "active",
  last_n: 1,
  next_at_ms: 9_000_000_000_000,
  counted_balances: 1,
  created_at_ms: 1,
  request_hash: "hash",
});
export const priceList = writer("price_lists", {
  environment_id: LIVE,
  version: 1,
  effective_at_ms: 1,
  created_at_ms: 1,
  rules: "[]",
  costs: "[]",
  audit_entry_id: "aud_w",
});
export const usageLimit = writer("usage_limits", {
  environment_id: LIVE,
  id: "lim_w",
  ordinal: 1,
  name: "Limit",
  name_key: "limit",
  matches: "[]",
  unit: "count",
  amount_minor: 10,
  every: "day",
  time_zone: "UTC",
  utc_offset_ms: 0,
  created_at_ms: 1,
});
/** A value of the column `counted`. */
export const counted = (given: object) =>
  JSON.stringify([{ limitId: "lim_w", endMs: 5, minor: 1, amountMinor: 10, isEnforced: 1, ...given }]);
export const distinctId = writer("distinct_ids", {
  environment_id: LIVE,
  is_device_form: 1,
  first_seen_at_ms: 1,
  last_seen_at_ms: 1,
});
export const idProperties = writer("id_properties", { environment_id: LIVE, distinct_id: "a", properties: "{}" });
export const analyticsEvent = writer("analytics_events", {
  environment_id: LIVE,
  distinct_id: "a",
  seq: 1,
  uuid: "uuid-1",
  event: "seen",
  timestamp_ms: 1,
  received_at_ms: 1,
  properties: "{}",
});
export const consent = writer("consent_log", {
  environment_id: LIVE,
  distinct_id: "a",
  seq: 1,
  id: "con_w",
  purpose: "ads",
  decision: "denied",
  occurred_at_ms: 1,
  received_at_ms: 1,
});
export const exportAudit = writer("export_audit", {
  environment_id: LIVE,
  distinct_id: "a",
  seq: 1,
  id: "exp_w",
  action: "minted",
  token_hash: "hash",
  occurred_at_ms: 1,
});
export const adminAudit = writer("admin_audit", {
  app_id: "app_w",
  seq: 1,
  id: "aud_w",
  at_ms: 1,
  actor: "api",
  action: "key.created",
  target: "key_w",
  details: "{}",
});
export const webhookEndpoint = writer("webhook_endpoints", {
  id: "whk_w",
  environment_id: LIVE,
  url: "https://example.com",
  secret: "sealed",
  created_at_ms: 1,
});
export const webhookDelivery = writer("webhook_deliveries", {
  endpoint_id: "whk_w",
  message_id: "msg_w",
  status: "pending",
  next_attempt_at_ms: 9_000_000_000_000,
  due_at_ms: 9_000_000_000_000,
});
export const payment = writer("payments", {
  environment_id: LIVE,
  id: "pay_w",
  status: "granted",
  written_by: "w",
  notify_at_ms: null,
  created_at_ms: 1,
});
export const logged = writer("stripe_log", {
  environment_id: LIVE,
  event_id: "evt_w",
  type: "charge.refunded",
  at_ms: 1,
  ordinal: 1,
  outcome: "taken",
});
export const paymentName = writer("payment_names", { environment_id: LIVE, name: "pi_w", payment_id: "pay_w" });
export const payer = writer("stripe_payers", {
  environment_id: LIVE,
  customer: "cus_w",
  id: "payer_w",
  version: 1,
  carries: '{"usd":5}',
  prices: "[]",
  trials: "[]",
  coupon_until: 0,
});
export const paymentGrant = writer("payment_grants", {
  balance_id: REVOKED,
  environment_id: LIVE,
  payment_id: "pay_w",
  account_id: USER,
  due_minor: 0,
  clawed_back_minor: 0,
  is_revoked: 0,
  is_surplus: 0,
});
/** The account whose balance owes a refund. */
const OWING = -12_345;
export const owed = writer("refund_owed", { account_id: OWING, balance_id: "crb_owing_w", seq: 2, owed_minor: 50 });
export const erasure = writer("erasures", {
  environment_id: LIVE,
  keep_consent: 0,
  actor: "key_w",
  fingerprint: "secret",
  started_at_ms: 1,
});
export const tombstone = writer("tombstones", {
  environment_id: LIVE,
  hash: "hash_other",
  erasure_id: "era_w",
  blocks: 1,
});
export const erasureId = writer("erasure_ids", {
  environment_id: LIVE,
  erasure_id: "era_w",
  position: 0,
  distinct_id: "other",
  hash: "hash_other",
  pseudonym: "erased_other",
  blocks: 1,
  account_id: OTHER,
});
export const erasureName = writer("erasure_names", { account_id: OTHER, kind: "id", old_name: "e9", new_name: "r9" });
/** Starts an erasure of the user and of an id, which keeps the consent. */
export const erasing: readonly string[] = [
  erasure({ id: "era_u", keep_consent: 1 }),
  erasureId({ erasure_id: "era_u", distinct_id: "u", hash: "hash_u", pseudonym: "erased_u", account_id: USER }),
  erasureId({
    erasure_id: "era_u",
    position: 1,
    distinct_id: "a",
    hash: "hash_a",
    pseudonym: "erased_a",
    account_id: null,
  }),
  ...[
    ["id", "e1", "r1"],
    ["id", "e2", "r2"],
    ["id", "res_w", "res_r"],
    ["id", "adj_w", "r3"],
    ["reference", "order", "hash_order"],
    ["reference", "refund", "hash_refund"],
  ].map(([kind = "", old_name = "", new_name = ""]) => erasureName({ account_id: USER, kind, old_name, new_name })),
];
export const claim = (id: string, by: string, version: number, isVerified: 0 | 1 = 0): string => `UPDATE distinct_ids
  SET claimed_by = '${by}', claimed_via = 'alias', claimed_at_ms = 1, claim_is_verified = ${isVerified},
    claim_version = ${version}
  WHERE environment_id = ${LIVE} AND distinct_id = '${id}'`;

/** The user's last seq in the ledger. */
export const LAST_SEQ = 7;

export const world: readonly string[] = [
  app({ id: "app_w" }),
  app({ id: "app_other" }),
  environment({ id: LIVE }),
  environment({ id: TEST, mode: "test" }),
  key({ hash: "hash_w", id: "key_w" }),
  key({ hash: "hash_r", id: "key_r", revoked_at_ms: 5 }),
  pack({ id: "cpk_w", pack_number: 1, last_item_number: 1 }),
  item({}),
  account({ id: USER, user_id: "u" }),
  account({ id: OTHER, user_id: "other" }),
  member({}),
  balance(WHOLE, 1, { external_ref: "order" }),
  balance(PART, 2),
  balance(REVOKED, 3),
  entry({ seq: 4, delta_minor: -400, balance_after_minor: 600, previous_seq: 2 }),
  reservation({}),
  recurring({}),
  entry({
    seq: 5,
    grant_seq: GRANT_SEQS[REVOKED],
    delta_minor: -300,
    balance_after_minor: 700,
    previous_seq: 3,
    kind: ENTRY_KINDS.hold,
    reservation_number: 1,
  }),
  entry({
    seq: 6,
    delta_minor: -10,
    balance_after_minor: 590,
    previous_seq: 4,
    kind: ENTRY_KINDS.hold,
    reservation_number: 1,
  }),
  entry({
    seq: LAST_SEQ,
    grant_seq: GRANT_SEQS[REVOKED],
    delta_minor: -700,
    balance_after_minor: 0,
    previous_seq: 5,
    kind: ENTRY_KINDS.refund,
    is_revoked: 1,
  }),
  account({ id: OWING, user_id: "owing" }),
  balance("crb_owing_w", 1, { account_id: OWING }),
  entry({
    account_id: OWING,
    grant_seq: 1,
    seq: 2,
    delta_minor: -400,
    balance_after_minor: 600,
    previous_seq: 1,
    kind: ENTRY_KINDS.refund,
  }),
  owed({}),
  adjustment({}),
  refund({}),
  usageEvent({}),
  largeProperties({}),
  usageEvent({
    seq: 2,
    event_id: "e2",
    occurred_at_ms: 9,
    reservation_id: "res_w",
    large_properties_bytes: 11,
  }),
  ...["a", "b", "c"].map((id) => distinctId({ distinct_id: id })),
  claim("a", "b", 1, 1),
  claim("b", "c", 1),
  idProperties({}),
  analyticsEvent({}),
  consent({}),
  exportAudit({}),
  `INSERT INTO link_ends VALUES (${LIVE}, 'hash', 1)`,
  adminAudit({}),
  adminKey({}),
  adminKey({ hash: "hash_e", id: "adk_e", revoked_at_ms: 5 }),
  webhookEndpoint({}),
  `INSERT INTO webhook_messages (id, environment_id, type, at_ms, subject, data)
    VALUES ('msg_w', ${LIVE}, 'credits.granted', 1, 'u', '{}')`,
  webhookDelivery({}),
  payment({}),
  payment({ id: "pay_u", status: "unmatched", reason: "no_user", notify_at_ms: 1 }),
  paymentName({}),
  paymentGrant({}),
  payer({}),
  `INSERT INTO payer_users VALUES (${LIVE}, 'u', 'cus_w')`,
  `INSERT INTO payment_facts VALUES (${LIVE}, 'pay_w', 'charge', 'ch_w', 1, NULL, '{}')`,
  `INSERT INTO payment_events VALUES (${LIVE}, 'pay_w', 'evt_w', 'charge.refunded', 1, 'taken')`,
  logged({}),
  `INSERT INTO stripe_customers VALUES (${LIVE}, 'cus_w', 'u', 1)`,
  `INSERT INTO stripe_settings VALUES (${LIVE}, '{}', 1, 'wrong_secret')`,
  erasure({ id: "era_w" }),
  erasure({ id: "era_done", is_collected: 1, completed_at_ms: 2, lifted_at_ms: 3 }),
  tombstone({}),
  erasureId({}),
  erasureName({}),
  "INSERT INTO dashboard_sessions (id, actor, ends_at_ms) VALUES ('session_w', 'api', 1)",
  `INSERT INTO analytics_counts (environment_id, day, events, bytes, unmarked_events, unmarked_bytes, id_events, id_bytes, consents,
     is_share_full) VALUES (${LIVE}, 1, 1, 1, 0, 0, 1, 1, 0, 0)`,
  `INSERT INTO limits_reached (environment_id, day, limit_name, reached_at_ms) VALUES (${LIVE}, 1, 'eventsADay', 1)`,
  `INSERT INTO alerts (environment_id, id, name, unit, amount_minor, created_at_ms) VALUES (${LIVE}, 'alr_w', 'Low', 'count', 1, 1)`,
  usageLimit({}),
  priceList({}),
  `INSERT INTO usage_counters (environment_id, limit_id, account_id, end_ms, used_minor)
    VALUES (${LIVE}, 'lim_w', ${USER}, 5, 3)`,
  `INSERT INTO usage_days VALUES (${LIVE}, 1, ${USER}, 'chat', '', 0, 1, 0, 1000, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 1, NULL)`,
  `INSERT INTO usage_totals VALUES (${LIVE}, 1, 'chat', '', 1, 0, 1000, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 1, NULL)`,
  `INSERT INTO money_days VALUES (${LIVE}, 1, 'usd', 1, 0, 0)`,
  `INSERT INTO statements (environment_id, month, id, after_account_id, requested_at_ms) VALUES (${LIVE}, '2026-01', 'stm_w', 0, 1)`,
  "INSERT INTO statement_lines VALUES ('stm_w', 'count', 'cpk_w', 'W', '{}')",
  "UPDATE statements SET completed_at_ms = 2 WHERE id = 'stm_w'",
  `INSERT INTO statements (environment_id, month, id, after_account_id, requested_at_ms) VALUES (${LIVE}, '2026-02', 'stm_running', 0, 1)`,
  `INSERT INTO alert_states (environment_id, alert_id, account_id) VALUES (${LIVE}, 'alr_w', ${USER})`,
  `INSERT INTO balance_expiries (environment_id, expires_at_ms, account_id, grant_seq) VALUES (${LIVE}, 1, ${USER}, 1)`,
  `INSERT INTO expiry_notices (environment_id, days, since_ms) VALUES (${LIVE}, 7, 1)`,
  `INSERT INTO daily_activity (environment_id, kind, day, unit, amount) VALUES (${LIVE}, 'minted', 1, '', 1)`,
  `INSERT INTO user_notes VALUES (${LIVE}, 'u', 'note_1', 'called', 'token', 1)`,
  `INSERT INTO rejections VALUES (${LIVE}, 'u', '', 'shortage', 'chat', 'm', '{}', 1, 1)`,
  "INSERT INTO business_walks (began_at_ms, after_account_id, finished_at_ms) VALUES (1, 0, 2)",
  `INSERT INTO cron_faults (part, subject, environment_id, kind, tries, failed_at_ms, retry_at_ms)
   VALUES ('holds_not_returned', '1', -1, 'unknown', 1, 1, 2)`,
  `INSERT INTO business_figures (environment_id, began_at_ms, kind, label, unit, whole, rest) VALUES (${LIVE}, 1, 'users', '', '', 1, 0)`,
];
