/**
 * What each column holds about a person: who adds a table says what an erasure must do with it, and a test fails for a column
 * that has no class.
 *
 * - `names`: names a person, or is a key that leads to one.
 * - `text`: free text, of a caller or of a person's client, that may hold anything.
 * - `kept`: kept for the books, and says nothing of a person once the names are gone.
 * - `operational`: about applications, keys and packs, or about the running of the service.
 */
export type ColumnClass = "names" | "text" | "kept" | "operational";

/** Every column of a table under its class, by the names that the database has. */
export const columnClasses: Readonly<Record<string, Readonly<Partial<Record<ColumnClass, readonly string[]>>>>> = {
  dashboard_sessions: { operational: ["id", "actor", "ends_at_ms"] },
  apps: { operational: ["id", "name", "created_at_ms"] },
  environments: {
    operational: [
      "id",
      "app_id",
      "mode",
      "end_user_auth",
      "analytics_limits",
      "test_balance_count",
      "test_balance_quota",
    ],
  },
  api_keys: { operational: ["hash", "id", "environment_id", "kind", "hint", "name", "created_at_ms", "revoked_at_ms"] },
  credit_packs: {
    operational: [
      "app_id",
      "id",
      "name",
      "name_key",
      "default_expiry_days",
      "unit",
      "matches",
      "priority",
      "created_at_ms",
      "archived_at_ms",
      "version",
    ],
  },
  credit_pack_items: {
    operational: ["app_id", "pack_id", "position", "id", "amount_steps", "unit", "matches", "priority"],
  },
  accounts: { names: ["user_id"], kept: ["id", "environment_id"] },
  credit_balances: {
    names: ["external_ref"],
    text: ["notes"],
    kept: [
      "account_id",
      "id",
      "pack_id",
      "pack_name",
      "pack_item_id",
      "unit",
      "matches",
      "priority",
      "initial_steps",
      "remaining_steps",
      "has_remaining",
      "source",
      "granted_at_ms",
      "expires_at_ms",
      "revoked_at_ms",
      "grant_seq",
      "last_seq",
    ],
  },
  credit_ledger: {
    names: ["event_id", "reservation_id"],
    text: ["note"],
    kept: [
      "account_id",
      "seq",
      "balance_id",
      "pack_id",
      "unit",
      "delta_steps",
      "balance_after_steps",
      "previous_seq",
      "reason",
      "occurred_at_ms",
      "is_revoked",
    ],
  },
  credit_refunds: {
    names: ["external_ref", "refund_ref"],
    text: ["request_hash"],
    kept: ["account_id", "ordinal", "pack_ids", "part", "of_parts", "first_seq", "last_seq"],
  },
  credit_adjustments: {
    names: ["id"],
    text: ["request_hash"],
    kept: ["environment_id", "account_id", "balance_id", "seq"],
  },
  usage_events: {
    names: ["event_id", "reservation_id"],
    text: ["properties", "request_hash"],
    kept: [
      "account_id",
      "occurred_by_ms",
      "seq",
      "environment_id",
      "event",
      "model",
      "count_steps",
      "tokens_steps",
      "seconds_steps",
      "cents_steps",
      "occurred_at_ms",
      "received_at_ms",
      "debits",
      "uncovered",
    ],
  },
  reservations: {
    names: ["id", "settled_event_id"],
    text: ["request_hash"],
    kept: [
      "environment_id",
      "account_id",
      "event",
      "model",
      "quantities",
      "legs",
      "on_expiry",
      "state",
      "created_at_ms",
      "expires_at_ms",
      "settled_at_ms",
    ],
  },
  distinct_ids: {
    names: ["distinct_id", "claimed_by"],
    kept: [
      "environment_id",
      "first_seen_at_ms",
      "last_seen_at_ms",
      "event_count",
      "event_bytes",
      "day",
      "day_events",
      "day_bytes",
      "is_device_form",
      "is_sender",
      "is_identified",
      "claimed_via",
      "claimed_at_ms",
      "claim_is_verified",
      "claim_version",
      "claims_made",
    ],
  },
  id_properties: { names: ["distinct_id"], text: ["properties"], kept: ["environment_id", "version"] },
  analytics_events: {
    names: ["distinct_id", "uuid"],
    text: ["event", "properties"],
    kept: ["environment_id", "seq", "timestamp_ms", "received_at_ms", "is_verified"],
  },
  analytics_days: { operational: ["environment_id", "day", "events", "bytes", "id_events", "id_bytes"] },
  limits_reached: { operational: ["environment_id", "day", "limit_name", "reached_at_ms"] },
  consent_log: {
    names: ["distinct_id", "id"],
    text: ["purpose", "method", "notice_version", "source"],
    kept: ["environment_id", "seq", "decision", "gpc", "is_by_user", "occurred_at_ms", "received_at_ms"],
  },
  export_audit: {
    names: ["distinct_id", "token_hash"],
    kept: ["environment_id", "seq", "id", "action", "key_id", "occurred_at_ms"],
  },
  daily_activity: { operational: ["environment_id", "kind", "day", "unit", "amount"] },
  admin_audit: { operational: ["app_id", "seq", "id", "at_ms", "actor", "action", "target", "details"] },
};
