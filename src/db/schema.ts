/**
 * Every table of Purser. Amounts are integer steps (amounts/amount.ts), times are integer milliseconds since the epoch.
 *
 * This file is what Drizzle types and drizzle-kit compares with; `STRICT`, `WITHOUT ROWID` and the triggers that keep the
 * invariants stand in `drizzle/*.sql`, because drizzle-kit cannot say them. `test/worker/db.test.ts` holds both together.
 */
import { sql } from "drizzle-orm";
import { check, index, integer, primaryKey, sqliteTable, text, uniqueIndex } from "drizzle-orm/sqlite-core";

declare const inSteps: unique symbol;
/** An amount in its unit's smallest step: an integer that an amount in units cannot pass for (amounts/amount.ts). */
export type Steps = number & { readonly [inSteps]: true };

/** `expires_at_ms` of what never expires: sorts after every date, so "live" is one index range. */
export const NEVER_MS = Number.MAX_SAFE_INTEGER;

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
    appId: text("app_id").notNull(),
    mode: text("mode", { enum: ["live", "test"] }).notNull(),
    /** The end-user token setting as JSON; null: publishable keys read nothing. */
    endUserAuth: text("end_user_auth"),
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
    /** SHA-256 of the key, base64url. The key itself is nowhere. */
    hash: text("hash").primaryKey(),
    id: text("id").notNull(),
    environmentId: integer("environment_id").notNull(),
    kind: text("kind", { enum: ["secret", "publishable"] }).notNull(),
    hint: text("hint").notNull(),
    name: text("name"),
    createdAtMs: integer("created_at_ms").notNull(),
    revokedAtMs: integer("revoked_at_ms"),
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
    appId: text("app_id").notNull(),
    id: text("id").notNull(),
    name: text("name").notNull(),
    /** packs/name.ts: what a name is compared by. */
    nameKey: text("name_key").notNull(),
    defaultExpiryDays: integer("default_expiry_days"),
    /** Of a legacy pack; null for a pack with items. */
    unit: text("unit", { enum: ["count", "tokens", "seconds", "cents"] }),
    matches: text("matches").notNull().default("[]"),
    priority: integer("priority").notNull().default(100),
    createdAtMs: integer("created_at_ms").notNull(),
    archivedAtMs: integer("archived_at_ms"),
    /** One more with each change, archiving and restoring: what a change compares. */
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
    check("credit_pack_items_amount_positive", sql`${t.amountSteps} > 0`),
  ],
);

/**
 * A user of an environment, by an integer of its own: it keys the books, so that their rows stay small, and no other table
 * of them holds a user's id.
 */
export const accounts = sqliteTable(
  "accounts",
  {
    id: integer("id").primaryKey(),
    environmentId: integer("environment_id").notNull(),
    userId: text("user_id").notNull(),
  },
  (t) => [uniqueIndex("accounts_user").on(t.environmentId, t.userId)],
);

/** One row issued by a grant. Unit, rules, priority and name are frozen at issue. */
export const creditBalances = sqliteTable(
  "credit_balances",
  {
    accountId: integer("account_id").notNull(),
    id: text("id").notNull(),
    packId: text("pack_id").notNull(),
    packName: text("pack_name").notNull(),
    /** Empty for a legacy pack: a unique index tells NULLs apart, and must not. */
    packItemId: text("pack_item_id").notNull(),
    unit: text("unit", { enum: ["count", "tokens", "seconds", "cents"] }).notNull(),
    matches: text("matches").notNull(),
    priority: integer("priority").notNull(),
    initialSteps: integer("initial_steps").$type<Steps>().notNull(),
    remainingSteps: integer("remaining_steps").$type<Steps>().notNull(),
    /** 1 while something remains: the condition of the partial index, kept by the ledger's triggers. */
    hasRemaining: integer("has_remaining").notNull(),
    source: text("source", { enum: ["purchase", "grant", "refund", "manual"] }).notNull(),
    externalRef: text("external_ref"),
    notes: text("notes"),
    grantedAtMs: integer("granted_at_ms").notNull(),
    expiresAtMs: integer("expires_at_ms").notNull(),
    revokedAtMs: integer("revoked_at_ms"),
    /** Ledger seq of the grant: the order in which balances were issued. */
    grantSeq: integer("grant_seq").notNull(),
    /** Ledger seq of the latest entry: head of the chain that `previous_seq` goes on with. */
    lastSeq: integer("last_seq").notNull(),
  },
  (t) => [
    primaryKey({ columns: [t.accountId, t.id] }),
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

/** Append-only. A row here is the only way a balance changes: the triggers of this table apply its delta. */
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
    /** Seq of this balance's entry before this one; null for its grant. */
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
    occurredAtMs: integer("occurred_at_ms").notNull(),
  },
  (t) => [
    primaryKey({ columns: [t.accountId, t.seq] }),
    check(
      "credit_ledger_reason",
      sql`${t.reason} IN ('event_committed', 'reservation_held', 'reservation_released', 'reservation_expired', 'grant', 'admin_adjust')`,
    ),
  ],
);

/** Adjustments that were made, by their idempotency keys: one that is sent again finds itself here. */
export const creditAdjustments = sqliteTable(
  "credit_adjustments",
  {
    environmentId: integer("environment_id").notNull(),
    id: text("id").notNull(),
    accountId: integer("account_id").notNull(),
    balanceId: text("balance_id").notNull(),
    /** Of the ledger row that it wrote. */
    seq: integer("seq").notNull(),
    /** As that of `usage_events`. */
    requestHash: text("request_hash").notNull(),
  },
  (t) => [primaryKey({ columns: [t.environmentId, t.id] })],
);

/** What was used. Clustered so that arrival order and a lower bound on `occurredAt` are one index range. */
export const usageEvents = sqliteTable(
  "usage_events",
  {
    accountId: integer("account_id").notNull(),
    /** The latest `occurred_at_ms` among this user's events up to this one: never falls as seq grows. */
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
    /** JSON object, as it came; null when none was sent. */
    properties: text("properties"),
    occurredAtMs: integer("occurred_at_ms").notNull(),
    receivedAtMs: integer("received_at_ms").notNull(),
    reservationId: text("reservation_id"),
    /** Hash of the request, a dot, and the id of the write that recorded it (ledger/request-hash.ts). */
    requestHash: text("request_hash").notNull(),
    /** JSON list of the answer's debits, as they went out: for replays and the export. */
    debits: text("debits").notNull(),
    /** JSON quantities that nothing paid for, as they went out; null when all was covered. */
    uncovered: text("uncovered"),
  },
  (t) => [
    primaryKey({ columns: [t.accountId, t.occurredByMs, t.seq] }),
    uniqueIndex("usage_events_event_id").on(t.environmentId, t.eventId),
  ],
);

export const reservations = sqliteTable(
  "reservations",
  {
    environmentId: integer("environment_id").notNull(),
    id: text("id").notNull(),
    accountId: integer("account_id").notNull(),
    event: text("event").notNull(),
    model: text("model"),
    /** JSON quantities, as they came. */
    quantities: text("quantities").notNull(),
    /** JSON list of { balanceId, packId, unit, amountSteps, remainingSteps }. */
    legs: text("legs").notNull(),
    state: text("state", { enum: ["open", "committed", "released", "expired"] }).notNull(),
    createdAtMs: integer("created_at_ms").notNull(),
    expiresAtMs: integer("expires_at_ms").notNull(),
    settledAtMs: integer("settled_at_ms"),
    settledEventId: text("settled_event_id"),
    /** As that of `usage_events`. */
    requestHash: text("request_hash").notNull(),
  },
  (t) => [
    primaryKey({ columns: [t.environmentId, t.id] }),
    index("reservations_open").on(t.accountId, t.expiresAtMs).where(sql`state = 'open'`),
    check("reservations_state", sql`${t.state} IN ('open', 'committed', 'released', 'expired')`),
  ],
);

/**
 * Every distinct id that sent an analytics event or takes part in a claim (P2). Whose person an id is stands nowhere: it is
 * found when it is read, from the claims (people/person-walk.ts).
 */
export const distinctIds = sqliteTable(
  "distinct_ids",
  {
    environmentId: integer("environment_id").notNull(),
    distinctId: text("distinct_id").notNull(),
    firstSeenAtMs: integer("first_seen_at_ms").notNull(),
    lastSeenAtMs: integer("last_seen_at_ms").notNull(),
    /** How many analytics events are stored under this id, whose seq run from 1 to this, and the bytes of their properties. */
    eventCount: integer("event_count").notNull().default(0),
    eventBytes: integer("event_bytes").notNull().default(0),
    /** Whether it has the form that SDKs give a device (people/device-id.ts). */
    isDeviceForm: integer("is_device_form", { mode: "boolean" }).notNull(),
    /** Whether it sent an event that was not personless: then it is a person's (P3). */
    isSender: integer("is_sender", { mode: "boolean" }).notNull().default(false),
    /** Whether it was the `distinct_id` of an `$identify`. */
    isIdentified: integer("is_identified", { mode: "boolean" }).notNull().default(false),
    /** The id that claims this one; null while none does. */
    claimedBy: text("claimed_by"),
    claimedVia: text("claimed_via", { enum: ["identify", "alias"] }),
    claimedAtMs: integer("claimed_at_ms"),
    /** Whether the claim was sent with a secret key. */
    claimIsVerified: integer("claim_is_verified", { mode: "boolean" }).notNull().default(false),
    /** Grows by one with every change of the claim: what a write compares that was planned on it. */
    claimVersion: integer("claim_version").notNull().default(0),
  },
  (t) => [
    primaryKey({ columns: [t.environmentId, t.distinctId] }),
    index("distinct_ids_claimed_by").on(t.environmentId, t.claimedBy).where(sql`claimed_by IS NOT NULL`),
    check("distinct_ids_claimed_by_another", sql`${t.claimedBy} <> ${t.distinctId}`),
    check(
      "distinct_ids_claim_whole",
      sql`iif(${t.claimedBy} IS NULL, ${t.claimedVia} IS NULL AND ${t.claimedAtMs} IS NULL AND ${t.claimIsVerified} = 0, ${t.claimedVia} IN ('identify', 'alias') AND ${t.claimedAtMs} IS NOT NULL)`,
    ),
  ],
);

/** What events `$set` of a distinct id. A table of its own, so that an event that sets nothing rewrites nothing large. */
export const idProperties = sqliteTable(
  "id_properties",
  {
    environmentId: integer("environment_id").notNull(),
    distinctId: text("distinct_id").notNull(),
    /** JSON object. */
    properties: text("properties").notNull(),
    /** Grows by one with every change: what a write compares that was planned on it. */
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
    /** JSON object, as it came. */
    properties: text("properties").notNull(),
  },
  (t) => [
    primaryKey({ columns: [t.environmentId, t.distinctId, t.seq] }),
    uniqueIndex("analytics_events_uuid").on(t.environmentId, t.uuid),
  ],
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
    /** Whether it was given with a user token: then its id is a user (P2). */
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

/** Append-only: who asked for an export, who opened it, how it ended. Never the token, only its hash. */
export const exportAudit = sqliteTable(
  "export_audit",
  {
    environmentId: integer("environment_id").notNull(),
    distinctId: text("distinct_id").notNull(),
    /** Gapless per distinct id, from 1. */
    seq: integer("seq").notNull(),
    /** Made before the write: what a row that is sent twice is known by. */
    id: text("id").notNull(),
    action: text("action", { enum: ["minted", "opened", "completed", "failed"] }).notNull(),
    /** SHA-256 of the token, base64url. */
    tokenHash: text("token_hash").notNull(),
    /** The key that minted; null for what the link's holder did. */
    keyId: text("key_id"),
    occurredAtMs: integer("occurred_at_ms").notNull(),
  },
  (t) => [
    primaryKey({ columns: [t.environmentId, t.distinctId, t.seq] }),
    check("export_audit_action", sql`${t.action} IN ('minted', 'opened', 'completed', 'failed')`),
  ],
);

/**
 * What happened by day, for the overview alone: counted in isolates and written behind the answers, so what an isolate
 * that ends had not yet written is missing. Nothing else may rest on it.
 */
export const dailyActivity = sqliteTable(
  "daily_activity",
  {
    environmentId: integer("environment_id").notNull(),
    kind: text("kind").notNull(),
    /** Days since the epoch, UTC. */
    day: integer("day").notNull(),
    /** Of amounts in steps; empty for plain counts. */
    unit: text("unit").notNull(),
    amount: integer("amount").notNull(),
  },
  (t) => [primaryKey({ columns: [t.environmentId, t.kind, t.day, t.unit] })],
);

/** Append-only: every act of administration, one row in the batch of its effect. */
export const adminAudit = sqliteTable(
  "admin_audit",
  {
    appId: text("app_id").notNull(),
    /** Gapless per application, from 1. */
    seq: integer("seq").notNull(),
    /** Made before the write: what an act that is sent twice is known by. */
    id: text("id").notNull(),
    atMs: integer("at_ms").notNull(),
    /** Who acted: an e-mail address or subject, a name given at sign-in, or `api`. */
    by: text("actor").notNull(),
    action: text("action").notNull(),
    target: text("target").notNull(),
    /** JSON object: no secret, no user id, no free text. */
    details: text("details").notNull(),
  },
  (t) => [primaryKey({ columns: [t.appId, t.seq] }), uniqueIndex("admin_audit_id").on(t.appId, t.id)],
);
