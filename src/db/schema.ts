/**
 * Every table of Purser. Amounts are integers in steps (amounts/amount.ts), times are integers in milliseconds since 1970.
 * Drizzle's types and drizzle-kit use this file. drizzle-kit cannot express `STRICT`, `WITHOUT ROWID` and triggers, so they
 * are in `drizzle/*.sql`. test/worker/db/schema.test.ts compares both.
 */
import { sql } from "drizzle-orm";
import { check, foreignKey, index, integer, primaryKey, sqliteTable, text, uniqueIndex } from "drizzle-orm/sqlite-core";

declare const inSteps: unique symbol;
/** An amount in its unit's smallest step (amounts/amount.ts). An amount in units is not assignable to this type. */
export type Steps = number & { readonly [inSteps]: true };

export const apps = sqliteTable("apps", {
  id: text("id").primaryKey(),
  name: text("name").notNull(),
  createdAtMs: integer("created_at_ms").notNull(),
});

/** One application in one mode: the tenant. Its small integer id leads every tenant table. */
export const environments = sqliteTable(
  "environments",
  {
    id: integer("id").primaryKey(),
    appId: text("app_id")
      .notNull()
      .references(() => apps.id),
    mode: text("mode", { enum: ["live", "test"] }).notNull(),
    /** The end-user token setting as JSON. Null: publishable keys cannot read anything. */
    endUserAuth: text("end_user_auth"),
    /** The limits of analytics that were set, as JSON (limits/analytics-limits.ts). Null: the defaults. */
    analyticsLimits: text("analytics_limits"),
    /** What the environment uses of webhooks and the like, as JSON (db/features.ts). Null: nothing. */
    features: text("features"),
    testBalanceCount: integer("test_balance_count").notNull().default(0),
    testBalanceQuota: integer("test_balance_quota").notNull().default(0),
  },
  (t) => [
    uniqueIndex("environments_app_mode").on(t.appId, t.mode),
    check("environments_mode", sql`${t.mode} IN ('live', 'test')`),
    check("environments_test_quota", sql`${t.testBalanceCount} <= ${t.testBalanceQuota}`),
  ],
);

export const apiKeys = sqliteTable(
  "api_keys",
  {
    /** SHA-256 of the key, base64url. The key itself is not stored. */
    hash: text("hash").primaryKey(),
    id: text("id").notNull(),
    environmentId: integer("environment_id")
      .notNull()
      .references(() => environments.id),
    kind: text("kind", { enum: ["secret", "publishable"] }).notNull(),
    hint: text("hint").notNull(),
    name: text("name"),
    createdAtMs: integer("created_at_ms").notNull(),
    revokedAtMs: integer("revoked_at_ms"),
    /** The latest day, since 1970, on which it was used, as far as isolates told (activity/last-seen.ts). */
    lastUsedDay: integer("last_used_day"),
  },
  (t) => [
    uniqueIndex("api_keys_id").on(t.environmentId, t.id),
    index("api_keys_created").on(t.environmentId, t.createdAtMs, t.id),
    check("api_keys_kind", sql`${t.kind} IN ('secret', 'publishable')`),
  ],
);

export const creditPacks = sqliteTable(
  "credit_packs",
  {
    appId: text("app_id")
      .notNull()
      .references(() => apps.id),
    id: text("id").notNull(),
    name: text("name").notNull(),
    /** The key by which names are compared (packs/name.ts). */
    nameKey: text("name_key").notNull(),
    defaultExpiryDays: integer("default_expiry_days"),
    /** For a legacy pack. Null for a pack with items. */
    unit: text("unit", { enum: ["count", "tokens", "seconds", "cents"] }),
    matches: text("matches").notNull().default("[]"),
    priority: integer("priority").notNull().default(100),
    createdAtMs: integer("created_at_ms").notNull(),
    archivedAtMs: integer("archived_at_ms"),
    /** Grows by one with each change, archiving and restoring. A change compares it. */
    version: integer("version").notNull().default(1),
  },
  (t) => [
    primaryKey({ columns: [t.appId, t.id] }),
    uniqueIndex("credit_packs_name_key").on(t.appId, t.nameKey).where(sql`archived_at_ms IS NULL`),
  ],
);

export const creditPackItems = sqliteTable(
  "credit_pack_items",
  {
    appId: text("app_id").notNull(),
    packId: text("pack_id").notNull(),
    position: integer("position").notNull(),
    id: text("id").notNull(),
    amountSteps: integer("amount_steps").$type<Steps>().notNull(),
    unit: text("unit", { enum: ["count", "tokens", "seconds", "cents"] }).notNull(),
    matches: text("matches").notNull().default("[]"),
    priority: integer("priority").notNull().default(100),
  },
  (t) => [
    primaryKey({ columns: [t.appId, t.packId, t.position] }),
    foreignKey({ columns: [t.appId, t.packId], foreignColumns: [creditPacks.appId, creditPacks.id] }),
    check("credit_pack_items_amount_positive", sql`${t.amountSteps} > 0`),
  ],
);

/**
 * A user of an environment, with an integer id. The ledger's tables use this id, so that their rows are small. None of them
 * has the user's own id.
 */
export const accounts = sqliteTable(
  "accounts",
  {
    id: integer("id").primaryKey(),
    environmentId: integer("environment_id")
      .notNull()
      .references(() => environments.id),
    userId: text("user_id").notNull(),
    /** Whether its user was erased (E2). Then `userId` is a random pseudonym, and nothing more is written for it. */
    isErased: integer("is_erased").notNull().default(0),
    /** The latest day, since 1970, on which something was written for the user, as far as isolates told (activity/last-seen.ts). */
    lastActiveDay: integer("last_active_day"),
  },
  (t) => [
    uniqueIndex("accounts_user").on(t.environmentId, t.userId),
    // The users of late. Until something was written behind an answer, an account has no row in it.
    index("accounts_active").on(t.environmentId, t.lastActiveDay, t.id).where(sql`last_active_day IS NOT NULL`),
  ],
);

/** A balance that a grant issued. Unit, rules, priority and name never change. */
export const creditBalances = sqliteTable(
  "credit_balances",
  {
    accountId: integer("account_id")
      .notNull()
      .references(() => accounts.id),
    id: text("id").notNull(),
    packId: text("pack_id").notNull(),
    packName: text("pack_name").notNull(),
    /** Empty for a legacy pack, because a unique index treats NULLs as different. */
    packItemId: text("pack_item_id").notNull(),
    unit: text("unit", { enum: ["count", "tokens", "seconds", "cents"] }).notNull(),
    matches: text("matches").notNull(),
    priority: integer("priority").notNull(),
    initialSteps: integer("initial_steps").$type<Steps>().notNull(),
    remainingSteps: integer("remaining_steps").$type<Steps>().notNull(),
    /** 1 while the remaining amount is not 0. The condition of a partial index; the ledger's triggers set it. */
    hasRemaining: integer("has_remaining").notNull(),
    source: text("source", { enum: ["purchase", "grant", "refund", "manual"] }).notNull(),
    externalRef: text("external_ref"),
    notes: text("notes"),
    grantedAtMs: integer("granted_at_ms").notNull(),
    expiresAtMs: integer("expires_at_ms").notNull(),
    revokedAtMs: integer("revoked_at_ms"),
    /** The ledger seq of the grant: the order of issue. */
    grantSeq: integer("grant_seq").notNull(),
    /** The ledger seq of the balance's latest entry. `previous_seq` continues the chain from there. */
    lastSeq: integer("last_seq").notNull(),
  },
  (t) => [
    // In the order of their issue, so that the newest are read first. By id a balance is found through the index.
    primaryKey({ columns: [t.accountId, t.grantSeq] }),
    uniqueIndex("credit_balances_id").on(t.id),
    index("credit_balances_remaining").on(t.accountId, t.expiresAtMs).where(sql`has_remaining = 1`),
    uniqueIndex("credit_balances_external_ref")
      .on(t.accountId, t.externalRef, t.packId, t.packItemId)
      .where(sql`external_ref IS NOT NULL`),
    check("credit_balances_unit", sql`${t.unit} IN ('count', 'tokens', 'seconds', 'cents')`),
    check("credit_balances_source", sql`${t.source} IN ('purchase', 'grant', 'refund', 'manual')`),
    check("credit_balances_initial_positive", sql`${t.initialSteps} > 0`),
    check("credit_balances_remaining_not_negative", sql`${t.remainingSteps} >= 0`),
    check(
      "credit_balances_remaining_within_bounds",
      sql`${t.remainingSteps} <= iif(${t.unit} = 'cents', 8589934592000000, 8796093022208000)`,
    ),
    check("credit_balances_has_remaining", sql`${t.hasRemaining} = (${t.remainingSteps} > 0)`),
  ],
);

/** Append-only. A balance changes only by a row here, whose delta a trigger applies. */
export const creditLedger = sqliteTable(
  "credit_ledger",
  {
    accountId: integer("account_id").notNull(),
    /** Gapless per account, from 1. */
    seq: integer("seq").notNull(),
    balanceId: text("balance_id").notNull(),
    packId: text("pack_id").notNull(),
    unit: text("unit", { enum: ["count", "tokens", "seconds", "cents"] }).notNull(),
    deltaSteps: integer("delta_steps").$type<Steps>().notNull(),
    balanceAfterSteps: integer("balance_after_steps").$type<Steps>().notNull(),
    /** The seq of this balance's previous entry. Null for its grant. */
    previousSeq: integer("previous_seq"),
    reason: text("reason", {
      enum: [
        "event_committed",
        "reservation_held",
        "reservation_released",
        "reservation_expired",
        "grant",
        "admin_adjust",
      ],
    }).notNull(),
    eventId: text("event_id"),
    reservationId: text("reservation_id"),
    note: text("note"),
    /** When it was written. It never falls as seq grows. */
    occurredAtMs: integer("occurred_at_ms").notNull(),
    /** Whether the balance is revoked after this entry. */
    isRevoked: integer("is_revoked").notNull().default(0),
  },
  (t) => [
    primaryKey({ columns: [t.accountId, t.seq] }),
    check("credit_ledger_is_revoked", sql`${t.isRevoked} IN (0, 1)`),
    check(
      "credit_ledger_reason",
      sql`${t.reason} IN ('event_committed', 'reservation_held', 'reservation_released', 'reservation_expired', 'grant', 'admin_adjust')`,
    ),
  ],
);

/** Adjustments by their idempotency keys, so that a repeat is found. */
export const creditAdjustments = sqliteTable(
  "credit_adjustments",
  {
    environmentId: integer("environment_id").notNull(),
    id: text("id").notNull(),
    accountId: integer("account_id").notNull(),
    balanceId: text("balance_id").notNull(),
    /** The seq of its ledger entry. */
    seq: integer("seq").notNull(),
    /** Like that of `usage_events`. */
    requestHash: text("request_hash").notNull(),
  },
  (t) => [primaryKey({ columns: [t.environmentId, t.id] }), index("credit_adjustments_account").on(t.accountId, t.seq)],
);

/** Append-only: the refunds of a user's references. Their ledger entries say what each balance gave. */
export const creditRefunds = sqliteTable(
  "credit_refunds",
  {
    accountId: integer("account_id").notNull(),
    externalRef: text("external_ref").notNull(),
    /** Gapless per reference, from 1. Of two refunds that were planned on the same earlier ones, the second fails. */
    ordinal: integer("ordinal").notNull(),
    /** The idempotency key under the reference. */
    refundRef: text("refund_ref").notNull(),
    /** JSON list of the packs whose balances it is about. */
    packIds: text("pack_ids").notNull(),
    /** The share, `part` of `of`. Both are null for all that was left. */
    part: integer("part"),
    ofParts: integer("of_parts"),
    /** The seqs of its ledger entries. */
    firstSeq: integer("first_seq").notNull(),
    lastSeq: integer("last_seq").notNull(),
    /** Like that of `usage_events`. */
    requestHash: text("request_hash").notNull(),
  },
  (t) => [
    primaryKey({ columns: [t.accountId, t.externalRef, t.ordinal] }),
    uniqueIndex("credit_refunds_refund_ref").on(t.accountId, t.externalRef, t.refundRef),
    check("credit_refunds_ordinal_max", sql`${t.ordinal} <= 100`),
    check(
      "credit_refunds_share",
      sql`iif(${t.part} IS NULL, ${t.ofParts} IS NULL, ${t.ofParts} IS NOT NULL AND ${t.part} > 0 AND ${t.part} <= ${t.ofParts})`,
    ),
  ],
);

/** Usage events. The primary key gives one index range for the order of arrival with a lower bound on `occurredAt`. */
export const usageEvents = sqliteTable(
  "usage_events",
  {
    accountId: integer("account_id").notNull(),
    /** The latest `occurred_at_ms` of this user's events up to this one. It never decreases as seq grows. */
    occurredByMs: integer("occurred_by_ms").notNull(),
    /** Order of arrival, gapless per account, from 1. */
    seq: integer("seq").notNull(),
    environmentId: integer("environment_id").notNull(),
    eventId: text("event_id").notNull(),
    event: text("event").notNull(),
    model: text("model"),
    countSteps: integer("count_steps").$type<Steps>().notNull(),
    tokensSteps: integer("tokens_steps").$type<Steps>(),
    secondsSteps: integer("seconds_steps").$type<Steps>(),
    centsSteps: integer("cents_steps").$type<Steps>(),
    /** JSON object, as it was sent. Null when none was sent, and when it is in `large_properties`. */
    properties: text("properties"),
    /** The bytes of its JSON in `large_properties`. Null when it is here. */
    largePropertiesBytes: integer("large_properties_bytes"),
    occurredAtMs: integer("occurred_at_ms").notNull(),
    receivedAtMs: integer("received_at_ms").notNull(),
    reservationId: text("reservation_id"),
    /** Hash of the request, a dot, and the id of the write that recorded it (ledger/request-hash.ts). */
    requestHash: text("request_hash").notNull(),
    /** The response's debits as a JSON list, for replays and the export. */
    debits: text("debits").notNull(),
    /** The response's uncovered quantities as JSON. Null when all was covered. */
    uncovered: text("uncovered"),
  },
  (t) => [
    primaryKey({ columns: [t.accountId, t.occurredByMs, t.seq] }),
    uniqueIndex("usage_events_event_id").on(t.environmentId, t.eventId),
    check("usage_events_properties_once", sql`${t.properties} IS NULL OR ${t.largePropertiesBytes} IS NULL`),
  ],
);

/** Properties of usage events that are large. In a table with rowids, so that they make no tree deep (docs/benchmarks.md). */
export const largeProperties = sqliteTable(
  "large_properties",
  {
    accountId: integer("account_id").notNull(),
    occurredByMs: integer("occurred_by_ms").notNull(),
    seq: integer("seq").notNull(),
    /** JSON object, as it was sent. */
    properties: text("properties").notNull(),
  },
  (t) => [primaryKey({ columns: [t.accountId, t.occurredByMs, t.seq] })],
);

export const reservations = sqliteTable(
  "reservations",
  {
    environmentId: integer("environment_id").notNull(),
    id: text("id").notNull(),
    accountId: integer("account_id").notNull(),
    event: text("event").notNull(),
    model: text("model"),
    /** The quantities of the request, as JSON. */
    quantities: text("quantities").notNull(),
    /** JSON list of { balanceId, packId, unit, amountSteps, remainingSteps }. */
    legs: text("legs").notNull(),
    /** What becomes of the holds if nobody settles the reservation in time. */
    onExpiry: text("on_expiry", { enum: ["return", "charge"] })
      .notNull()
      .default("return"),
    state: text("state", { enum: ["open", "committed", "released", "expired"] }).notNull(),
    createdAtMs: integer("created_at_ms").notNull(),
    expiresAtMs: integer("expires_at_ms").notNull(),
    settledAtMs: integer("settled_at_ms"),
    settledEventId: text("settled_event_id"),
    /** The ledger seq of what its first leg returned. The other legs follow it. */
    settledSeq: integer("settled_seq"),
    /** Like that of `usage_events`. */
    requestHash: text("request_hash").notNull(),
  },
  (t) => [
    primaryKey({ columns: [t.environmentId, t.id] }),
    // One of two has a row, so that a list needs no index that a hold would have to write.
    index("reservations_open").on(t.accountId, t.expiresAtMs, t.createdAtMs, t.id).where(sql`state = 'open'`),
    index("reservations_settled").on(t.accountId, t.state, t.createdAtMs, t.id).where(sql`state <> 'open'`),
    check("reservations_on_expiry", sql`${t.onExpiry} IN ('return', 'charge')`),
    check("reservations_state", sql`${t.state} IN ('open', 'committed', 'released', 'expired')`),
  ],
);

/**
 * Every distinct id that sent an analytics event or is part of a claim (P2). Which person an id belongs to is not stored. It
 * is found from the claims when it is read (people/person-walk.ts).
 */
export const distinctIds = sqliteTable(
  "distinct_ids",
  {
    environmentId: integer("environment_id").notNull(),
    distinctId: text("distinct_id").notNull(),
    firstSeenAtMs: integer("first_seen_at_ms").notNull(),
    lastSeenAtMs: integer("last_seen_at_ms").notNull(),
    /** How many analytics events of this id came, whose seqs are 1 to this number. */
    eventCount: integer("event_count").notNull().default(0),
    /** How many of them, the first ones, were deleted because of their age (E8), and the bytes of the others' properties. */
    deletedCount: integer("deleted_count").notNull().default(0),
    eventBytes: integer("event_bytes").notNull().default(0),
    /** The latest UTC day, since 1970, on which publishable keys sent events of this id; how many, and their bytes (L3). */
    day: integer("day"),
    dayEvents: integer("day_events").notNull().default(0),
    dayBytes: integer("day_bytes").notNull().default(0),
    /** Whether it has the form of a device id (people/device-id.ts). */
    isDeviceForm: integer("is_device_form", { mode: "boolean" }).notNull(),
    /** Whether it sent an event that was not personless. Then it is the id of a person (P3). */
    isSender: integer("is_sender", { mode: "boolean" }).notNull().default(false),
    /** Whether it was the `distinct_id` of an `$identify`. */
    isIdentified: integer("is_identified", { mode: "boolean" }).notNull().default(false),
    /** The id that claims this one. Null while none does. */
    claimedBy: text("claimed_by"),
    claimedVia: text("claimed_via", { enum: ["identify", "alias"] }),
    claimedAtMs: integer("claimed_at_ms"),
    /** Whether the claim was sent with a secret key. */
    claimIsVerified: integer("claim_is_verified", { mode: "boolean" }).notNull().default(false),
    /** How many claims it made by publishable keys (L1). */
    claimsMade: integer("claims_made").notNull().default(0),
    /** Grows by one with every change of the claim. A write that was planned on the claim compares it. */
    claimVersion: integer("claim_version").notNull().default(0),
  },
  (t) => [
    primaryKey({ columns: [t.environmentId, t.distinctId] }),
    index("distinct_ids_claimed_by").on(t.environmentId, t.claimedBy).where(sql`claimed_by IS NOT NULL`),
    check("distinct_ids_claims_made", sql`${t.claimsMade} <= 1000`),
    check("distinct_ids_claimed_by_another", sql`${t.claimedBy} <> ${t.distinctId}`),
    check(
      "distinct_ids_claim_whole",
      sql`iif(${t.claimedBy} IS NULL, ${t.claimedVia} IS NULL AND ${t.claimedAtMs} IS NULL AND ${t.claimIsVerified} = 0, ${t.claimedVia} IN ('identify', 'alias') AND ${t.claimedAtMs} IS NOT NULL)`,
    ),
  ],
);

/** The properties that events `$set` for a distinct id. A separate table, so that other events rewrite nothing large. */
export const idProperties = sqliteTable(
  "id_properties",
  {
    environmentId: integer("environment_id").notNull(),
    distinctId: text("distinct_id").notNull(),
    /** JSON object. */
    properties: text("properties").notNull(),
    /** Grows by one with every change. A write that was planned on it compares it. */
    version: integer("version").notNull().default(1),
  },
  (t) => [primaryKey({ columns: [t.environmentId, t.distinctId] })],
);

export const analyticsEvents = sqliteTable(
  "analytics_events",
  {
    environmentId: integer("environment_id").notNull(),
    distinctId: text("distinct_id").notNull(),
    /** Order of arrival, gapless per distinct id, from 1. */
    seq: integer("seq").notNull(),
    uuid: text("uuid").notNull(),
    event: text("event").notNull(),
    timestampMs: integer("timestamp_ms").notNull(),
    receivedAtMs: integer("received_at_ms").notNull(),
    /** Whether it was sent with a secret key. */
    isVerified: integer("is_verified", { mode: "boolean" }).notNull().default(false),
    /** JSON object, as it was sent. */
    properties: text("properties").notNull(),
  },
  (t) => [
    primaryKey({ columns: [t.environmentId, t.distinctId, t.seq] }),
    uniqueIndex("analytics_events_uuid").on(t.environmentId, t.uuid),
  ],
);

/** What publishable keys sent of analytics on a UTC day: exact, because it is counted in the batch that stores it (L3). */
export const analyticsDays = sqliteTable(
  "analytics_days",
  {
    environmentId: integer("environment_id").notNull(),
    /** Days since 1970. */
    day: integer("day").notNull(),
    events: integer("events").notNull(),
    /** Bytes of their properties. */
    bytes: integer("bytes").notNull(),
    /** The most of one distinct id. */
    idEvents: integer("id_events").notNull(),
    idBytes: integer("id_bytes").notNull(),
  },
  (t) => [primaryKey({ columns: [t.environmentId, t.day] })],
);

/** The limits of an environment that were met, once a day and limit. */
export const limitsReached = sqliteTable(
  "limits_reached",
  {
    environmentId: integer("environment_id").notNull(),
    day: integer("day").notNull(),
    limitName: text("limit_name").notNull(),
    reachedAtMs: integer("reached_at_ms").notNull(),
  },
  (t) => [primaryKey({ columns: [t.environmentId, t.day, t.limitName] })],
);

/** Append-only. */
export const consentLog = sqliteTable(
  "consent_log",
  {
    environmentId: integer("environment_id").notNull(),
    distinctId: text("distinct_id").notNull(),
    /** Gapless per distinct id, from 1. */
    seq: integer("seq").notNull(),
    id: text("id").notNull(),
    purpose: text("purpose").notNull(),
    decision: text("decision", { enum: ["granted", "denied", "withdrawn"] }).notNull(),
    method: text("method"),
    noticeVersion: text("notice_version"),
    source: text("source"),
    gpc: integer("gpc", { mode: "boolean" }),
    /** Whether it was given with a user token. Then its id is a user (P2). */
    isByUser: integer("is_by_user", { mode: "boolean" }).notNull().default(false),
    occurredAtMs: integer("occurred_at_ms").notNull(),
    receivedAtMs: integer("received_at_ms").notNull(),
  },
  (t) => [
    primaryKey({ columns: [t.environmentId, t.distinctId, t.seq] }),
    index("consent_log_by_user").on(t.environmentId, t.distinctId).where(sql`is_by_user = 1`),
    check("consent_log_decision", sql`${t.decision} IN ('granted', 'denied', 'withdrawn')`),
  ],
);

/** Append-only: who created and opened export links, and the results. It has the token's hash, never the token. */
export const exportAudit = sqliteTable(
  "export_audit",
  {
    environmentId: integer("environment_id").notNull(),
    distinctId: text("distinct_id").notNull(),
    /** Gapless per distinct id, from 1. */
    seq: integer("seq").notNull(),
    /** Created before the write, so that a repeated row is recognised. */
    id: text("id").notNull(),
    action: text("action", { enum: ["minted", "opened", "completed", "failed"] }).notNull(),
    /** SHA-256 of the token, base64url. */
    tokenHash: text("token_hash").notNull(),
    /** The key that created the link. Null for actions of the link's holder. */
    keyId: text("key_id"),
    occurredAtMs: integer("occurred_at_ms").notNull(),
  },
  (t) => [
    primaryKey({ columns: [t.environmentId, t.distinctId, t.seq] }),
    check("export_audit_action", sql`${t.action} IN ('minted', 'opened', 'completed', 'failed')`),
  ],
);

/**
 * Figures by day, only for the overview. Isolates count them and write them after responses. If an isolate ends before it has
 * written, its figures are missing. So nothing else may depend on them.
 */
export const dailyActivity = sqliteTable(
  "daily_activity",
  {
    environmentId: integer("environment_id").notNull(),
    kind: text("kind").notNull(),
    /** Days since the epoch, UTC. */
    day: integer("day").notNull(),
    /** The unit of amounts in steps. Empty for plain counts. */
    unit: text("unit").notNull(),
    amount: integer("amount").notNull(),
  },
  (t) => [primaryKey({ columns: [t.environmentId, t.kind, t.day, t.unit] })],
);

/** Alerts that were set (H5). */
export const alerts = sqliteTable(
  "alerts",
  {
    environmentId: integer("environment_id").notNull(),
    id: text("id").notNull(),
    name: text("name").notNull(),
    unit: text("unit", { enum: ["count", "tokens", "seconds", "cents"] }).notNull(),
    /** A name or a glob, as the filter of a list (C4). Null for every event. */
    event: text("event"),
    /** One of the two. A percentage is in thousandths of a percent. */
    amountSteps: integer("amount_steps").$type<Steps>(),
    percentThousandths: integer("percent_thousandths"),
    createdAtMs: integer("created_at_ms").notNull(),
  },
  (t) => [
    primaryKey({ columns: [t.environmentId, t.id] }),
    check(
      "alerts_below",
      sql`iif(${t.amountSteps} IS NULL, ${t.percentThousandths} BETWEEN 1 AND 100000, ${t.amountSteps} > 0 AND ${t.percentThousandths} IS NULL) IS TRUE`,
    ),
  ],
);

/**
 * The alerts that went off for a user and were not lifted since. Only while the environment has an endpoint that is on; the
 * alert that every such environment has (`credits.depleted`) has an empty id.
 */
export const alertStates = sqliteTable(
  "alert_states",
  {
    environmentId: integer("environment_id").notNull(),
    alertId: text("alert_id").notNull(),
    accountId: integer("account_id").notNull(),
  },
  (t) => [primaryKey({ columns: [t.environmentId, t.alertId, t.accountId] })],
);

/** When balances expire, in the order in which the cron finds them (H6). Written with the balance; never changed. */
export const balanceExpiries = sqliteTable(
  "balance_expiries",
  {
    environmentId: integer("environment_id").notNull(),
    expiresAtMs: integer("expires_at_ms").notNull(),
    accountId: integer("account_id").notNull(),
    grantSeq: integer("grant_seq").notNull(),
  },
  (t) => [primaryKey({ columns: [t.environmentId, t.expiresAtMs, t.accountId, t.grantSeq] })],
);

/**
 * How far the cron has come with the notices of an environment: a row for each count of days that is set, and one of 0 days
 * for the expiry itself.
 */
export const expiryNotices = sqliteTable(
  "expiry_notices",
  {
    environmentId: integer("environment_id").notNull(),
    days: integer("days").notNull(),
    /** There is no notice for a moment before this. */
    sinceMs: integer("since_ms").notNull(),
    /** The last of `balance_expiries` that was looked at. */
    doneExpiresAtMs: integer("done_expires_at_ms").notNull().default(0),
    doneAccountId: integer("done_account_id").notNull().default(0),
    doneGrantSeq: integer("done_grant_seq").notNull().default(0),
  },
  (t) => [primaryKey({ columns: [t.environmentId, t.days] })],
);

/** The cron's walks over a database's users, which compute `business_figures`. One is on its way at the most. */
export const businessWalks = sqliteTable("business_walks", {
  beganAtMs: integer("began_at_ms").primaryKey(),
  /** The last account that is in its figures. */
  afterAccountId: integer("after_account_id").notNull(),
  finishedAtMs: integer("finished_at_ms"),
});

/** What a walk found of an environment, for the overview: sums, in two parts so that none is too large. */
export const businessFigures = sqliteTable(
  "business_figures",
  {
    environmentId: integer("environment_id").notNull(),
    beganAtMs: integer("began_at_ms").notNull(),
    kind: text("kind", { enum: ["outstanding", "expired", "users", "active"] }).notNull(),
    /** A pack's id, a day since 1970, or a number of days. */
    label: text("label").notNull(),
    /** Empty for counts. */
    unit: text("unit").notNull(),
    /** Millions of steps, or a count; and the steps beside them. */
    whole: integer("whole").notNull(),
    rest: integer("rest").notNull(),
  },
  (t) => [primaryKey({ columns: [t.environmentId, t.beganAtMs, t.kind, t.label, t.unit] })],
);

/** Append-only: every administrative action, one row in the batch of its change. */
export const adminAudit = sqliteTable(
  "admin_audit",
  {
    appId: text("app_id").notNull(),
    /** Gapless per application, from 1. */
    seq: integer("seq").notNull(),
    /** Created before the write, so that a repeated act is recognised. */
    id: text("id").notNull(),
    atMs: integer("at_ms").notNull(),
    /** Who acted: an e-mail address or subject of Cloudflare Access, `dashboard`, or `api`. */
    actor: text("actor").notNull(),
    action: text("action").notNull(),
    target: text("target").notNull(),
    /** JSON object: no secret, no user id, no free text. */
    details: text("details").notNull(),
  },
  (t) => [
    primaryKey({ columns: [t.appId, t.seq] }),
    uniqueIndex("admin_audit_id").on(t.appId, t.id),
    // What was done to one thing.
    index("admin_audit_target").on(t.appId, t.target, t.seq),
  ],
);

/** Endpoints of webhooks (H1). At most ten an environment: a trigger counts. */
export const webhookEndpoints = sqliteTable(
  "webhook_endpoints",
  {
    id: text("id").primaryKey(),
    environmentId: integer("environment_id")
      .notNull()
      .references(() => environments.id),
    url: text("url").notNull(),
    /** JSON list of globs. Null: all types but those that must be asked for. */
    types: text("types"),
    /** Whether `types` want `person.exported`, for statements that write it without a read before. */
    wantsExports: integer("wants_exports", { mode: "boolean" }).notNull().default(false),
    description: text("description"),
    isEnabled: integer("is_enabled", { mode: "boolean" }).notNull().default(true),
    /** Sealed. */
    secret: text("secret").notNull(),
    /** Sealed; signs as well until then. */
    previousSecret: text("previous_secret"),
    previousUntilMs: integer("previous_until_ms"),
    /** Since when no attempt has succeeded. Null while the last one did, or none was made. */
    failingSinceMs: integer("failing_since_ms"),
    createdAtMs: integer("created_at_ms").notNull(),
  },
  (t) => [index("webhook_endpoints_environment").on(t.environmentId, t.createdAtMs, t.id)],
);

/** Messages to endpoints (H2), for 30 days. Their ids begin with their time, so that they are in the order of their writing. */
export const webhookMessages = sqliteTable(
  "webhook_messages",
  {
    id: text("id").primaryKey(),
    environmentId: integer("environment_id").notNull(),
    type: text("type").notNull(),
    atMs: integer("at_ms").notNull(),
    /** The user or the distinct id that it names, so that an erasure finds it. */
    subject: text("subject"),
    /** JSON object. */
    data: text("data").notNull(),
  },
  (t) => [index("webhook_messages_subject").on(t.environmentId, t.subject).where(sql`subject IS NOT NULL`)],
);

/** A message on its way to an endpoint, or how that ended (H4). */
export const webhookDeliveries = sqliteTable(
  "webhook_deliveries",
  {
    endpointId: text("endpoint_id").notNull(),
    messageId: text("message_id").notNull(),
    status: text("status", { enum: ["pending", "delivered", "failed"] }).notNull(),
    /** How many attempts of the schedule were made. */
    tries: integer("tries").notNull().default(0),
    nextAttemptAtMs: integer("next_attempt_at_ms").notNull(),
    /** When whoever finds it may attempt it: when the next attempt is due, or the end of a lease. */
    dueAtMs: integer("due_at_ms").notNull(),
    /** JSON list of { at, status, durationMs, error }. */
    attempts: text("attempts").notNull().default("[]"),
  },
  (t) => [
    primaryKey({ columns: [t.endpointId, t.messageId] }),
    index("webhook_deliveries_due").on(t.endpointId, t.dueAtMs).where(sql`status = 'pending'`),
    check("webhook_deliveries_status", sql`${t.status} IN ('pending', 'delivered', 'failed')`),
  ],
);

/** Erasures of people (E1), and their receipts (E6). A row names nobody. */
export const erasures = sqliteTable(
  "erasures",
  {
    environmentId: integer("environment_id").notNull(),
    id: text("id").notNull(),
    reason: text("reason", {
      enum: ["request", "consent_withdrawn", "objection", "not_needed", "unlawful", "legal_duty"],
    }),
    keepConsent: integer("keep_consent").notNull(),
    /** The key that asked for it, or the administrator. */
    actor: text("actor").notNull(),
    /** Of the secret under which its tombstones stand (tombstones/secret.ts). */
    fingerprint: text("fingerprint").notNull(),
    /** Whether all ids of the person are in `erasure_ids`. */
    isCollected: integer("is_collected").notNull().default(0),
    idCount: integer("id_count").notNull().default(0),
    /** JSON list: how many rows of each kind there were, a part for each page of ids (erasure/counts.ts). */
    counts: text("counts").notNull().default("[]"),
    startedAtMs: integer("started_at_ms").notNull(),
    completedAtMs: integer("completed_at_ms"),
    liftedAtMs: integer("lifted_at_ms"),
  },
  (t) => [
    primaryKey({ columns: [t.environmentId, t.id] }),
    index("erasures_running").on(t.environmentId, t.startedAtMs).where(sql`completed_at_ms IS NULL`),
    check("erasures_lifted_after_end", sql`${t.liftedAtMs} IS NULL OR ${t.completedAtMs} IS NOT NULL`),
  ],
);

/** An id that was erased, as a keyed hash (E4). While it stands, nothing is written for that id. */
export const tombstones = sqliteTable(
  "tombstones",
  {
    environmentId: integer("environment_id").notNull(),
    hash: text("hash").notNull(),
    erasureId: text("erasure_id").notNull(),
  },
  (t) => [
    primaryKey({ columns: [t.environmentId, t.hash] }),
    index("tombstones_erasure").on(t.environmentId, t.erasureId),
    foreignKey({ columns: [t.environmentId, t.erasureId], foreignColumns: [erasures.environmentId, erasures.id] }),
  ],
);

/** The ids that running erasures still have to do with. Empty between erasures: an id leaves when nothing of it is left. */
export const erasureIds = sqliteTable(
  "erasure_ids",
  {
    environmentId: integer("environment_id").notNull(),
    erasureId: text("erasure_id").notNull(),
    /** The asked id is 0. */
    position: integer("position").notNull(),
    distinctId: text("distinct_id").notNull(),
    hash: text("hash").notNull(),
    /** The random name that its books keep. */
    pseudonym: text("pseudonym").notNull(),
    /** Null: it has no credits and no usage. */
    accountId: integer("account_id"),
    /** Up to this seq its ledger is done; up to the second, it is in the page at hand. */
    ledgerFrom: integer("ledger_from").notNull().default(0),
    ledgerTo: integer("ledger_to").notNull().default(0),
    /** The same of its usage, by the primary key of `usage_events`. */
    usageFromMs: integer("usage_from_ms").notNull().default(0),
    usageFrom: integer("usage_from").notNull().default(0),
    usageToMs: integer("usage_to_ms").notNull().default(0),
    usageTo: integer("usage_to").notNull().default(0),
    /** Whether nothing of it is left but its rows in `erasure_names`. */
    isDone: integer("is_done").notNull().default(0),
  },
  (t) => [
    primaryKey({ columns: [t.environmentId, t.erasureId, t.position] }),
    uniqueIndex("erasure_ids_distinct_id").on(t.environmentId, t.distinctId),
    uniqueIndex("erasure_ids_account").on(t.accountId).where(sql`account_id IS NOT NULL`),
  ],
);

/** What takes the place of a name in the books of an account that is being erased. Empty between erasures. */
export const erasureNames = sqliteTable(
  "erasure_names",
  {
    accountId: integer("account_id").notNull(),
    /** `id`: of an event, a reservation or an adjustment, replaced by a random one. `reference`: replaced by a keyed hash. */
    kind: text("kind", { enum: ["id", "reference"] }).notNull(),
    oldName: text("old_name").notNull(),
    newName: text("new_name").notNull(),
  },
  (t) => [
    primaryKey({ columns: [t.accountId, t.kind, t.oldName] }),
    uniqueIndex("erasure_names_new").on(t.accountId, t.kind, t.newName),
    check("erasure_names_kind", sql`${t.kind} IN ('id', 'reference')`),
  ],
);

/** Sign-ins to the dashboard that have not ended. In `DB` alone. */
export const dashboardSessions = sqliteTable("dashboard_sessions", {
  id: text("id").primaryKey(),
  /** The name given at the sign-in, for the audit. */
  actor: text("actor").notNull(),
  endsAtMs: integer("ends_at_ms").notNull(),
});

/** The setting of Stripe's payments of an environment (S1), and when an event came last. */
export const stripeSettings = sqliteTable("stripe_settings", {
  environmentId: integer("environment_id").primaryKey(),
  /** JSON; its signing secrets are sealed. Null: none is set. */
  setting: text("setting"),
  lastEventAtMs: integer("last_event_at_ms"),
});

/** The user of a Stripe customer, by the newest subscription session (S3). */
export const stripeCustomers = sqliteTable(
  "stripe_customers",
  {
    environmentId: integer("environment_id").notNull(),
    customer: text("customer").notNull(),
    userId: text("user_id").notNull(),
    /** `created` of the event that said it, in seconds. */
    atSeconds: integer("at_seconds").notNull(),
  },
  (t) => [
    primaryKey({ columns: [t.environmentId, t.customer] }),
    index("stripe_customers_user").on(t.environmentId, t.userId),
  ],
);

/** A payment at Stripe. Whatever tells of it is in the tables below (S2). */
export const payments = sqliteTable(
  "payments",
  {
    environmentId: integer("environment_id").notNull(),
    id: text("id").notNull(),
    status: text("status", { enum: ["granted", "unmatched", "waiting"] }).notNull(),
    /** Why nothing was granted. Only while `unmatched`. */
    reason: text("reason"),
    /** The Stripe customer of its invoice. */
    customer: text("customer"),
    /** The stamp of the request that settled it by hand (ledger/request-hash.ts). */
    settledBy: text("settled_by"),
    /** When it is told that it is unmatched. Null when it was, or is not. */
    tellAtMs: integer("tell_at_ms"),
    /** Grows by one with each write. A write that was planned on it compares it. */
    version: integer("version").notNull().default(1),
    /** The nonce of the latest write, so that one whose answer was lost finds itself. */
    writtenBy: text("written_by").notNull(),
    createdAtMs: integer("created_at_ms").notNull(),
  },
  (t) => [
    primaryKey({ columns: [t.environmentId, t.id] }),
    index("payments_created").on(t.environmentId, t.createdAtMs, t.id),
    index("payments_status").on(t.environmentId, t.status, t.createdAtMs, t.id),
    index("payments_customer").on(t.environmentId, t.customer).where(sql`status = 'unmatched'`),
    index("payments_tell").on(t.tellAtMs).where(sql`tell_at_ms IS NOT NULL`),
    check(
      "payments_status",
      sql`${t.status} IN ('granted', 'waiting') AND ${t.reason} IS NULL AND ${t.tellAtMs} IS NULL OR ${t.status} = 'unmatched' AND ${t.reason} IS NOT NULL`,
    ),
  ],
);

/** The ids of Stripe's that are one payment: payment intents, session, invoice, a charge without intent. */
export const paymentNames = sqliteTable(
  "payment_names",
  {
    environmentId: integer("environment_id").notNull(),
    name: text("name").notNull(),
    paymentId: text("payment_id").notNull(),
  },
  (t) => [
    primaryKey({ columns: [t.environmentId, t.name] }),
    index("payment_names_payment").on(t.environmentId, t.paymentId),
  ],
);

/** What Stripe said last of each object of a payment (payments/facts.ts). */
export const paymentFacts = sqliteTable(
  "payment_facts",
  {
    environmentId: integer("environment_id").notNull(),
    paymentId: text("payment_id").notNull(),
    kind: text("kind").notNull(),
    id: text("id").notNull(),
    /** `created` of the event that said it, in seconds. */
    atSeconds: integer("at_seconds").notNull(),
    /** The user that a session or an invoice names. */
    userId: text("user_id"),
    /** JSON: ids and numbers. */
    data: text("data").notNull(),
  },
  (t) => [
    primaryKey({ columns: [t.environmentId, t.paymentId, t.kind, t.id] }),
    // So that an erasure finds them.
    index("payment_facts_user").on(t.environmentId, t.userId).where(sql`user_id IS NOT NULL`),
  ],
);

/** The balances that a payment granted, and what was taken of them because of refunds and disputes (S4). */
export const paymentGrants = sqliteTable(
  "payment_grants",
  {
    balanceId: text("balance_id").primaryKey(),
    environmentId: integer("environment_id").notNull(),
    paymentId: text("payment_id").notNull(),
    accountId: integer("account_id").notNull(),
    /** The share that was applied last, `part` of `of`. */
    part: integer("part").notNull(),
    ofParts: integer("of_parts").notNull(),
    dueSteps: integer("due_steps").$type<Steps>().notNull(),
    takenSteps: integer("taken_steps").$type<Steps>().notNull(),
    /** Whether this payment revoked it. Then it may restore it. */
    isRevoked: integer("is_revoked").notNull(),
    /** Whether another grant of the same payment came first, so that all of this one is due. */
    isSurplus: integer("is_surplus").notNull(),
  },
  (t) => [
    index("payment_grants_payment").on(t.environmentId, t.paymentId),
    check("payment_grants_share", sql`${t.part} >= 0 AND ${t.ofParts} > 0 AND ${t.part} <= ${t.ofParts}`),
    check("payment_grants_taken", sql`${t.takenSteps} >= 0 AND ${t.dueSteps} >= 0`),
    check("payment_grants_flags", sql`${t.isRevoked} IN (0, 1) AND ${t.isSurplus} IN (0, 1)`),
  ],
);

/** The events that moved a payment, for the administrator. */
export const paymentEvents = sqliteTable(
  "payment_events",
  {
    environmentId: integer("environment_id").notNull(),
    paymentId: text("payment_id").notNull(),
    eventId: text("event_id").notNull(),
    type: text("type").notNull(),
    /** `created` of the event, in seconds. */
    atSeconds: integer("at_seconds").notNull(),
    outcome: text("outcome").notNull(),
  },
  (t) => [primaryKey({ columns: [t.environmentId, t.paymentId, t.eventId] })],
);
