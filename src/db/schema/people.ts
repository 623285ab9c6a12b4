/** Data about people outside the books, and the audit of its exports. */

import { type Column, type SQL, sql } from "drizzle-orm";
import { check, index, integer, primaryKey, sqliteTable, text, uniqueIndex } from "drizzle-orm/sqlite-core";

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
    /** How many analytics events of this id arrived. Their seqs are 1 to this number. */
    eventCount: integer("event_count").notNull().default(0),
    /** The seq up to which events were deleted because of their age (E8). */
    deletedCount: integer("deleted_count").notNull().default(0),
    /** How many of the later seqs belong to events that a verified event replaced (P4). Readers leave these events out. */
    replacedCount: integer("replaced_count").notNull().default(0),
    /** The bytes of the properties of all other events. */
    eventBytes: integer("event_bytes").notNull().default(0),
    /** The last UTC day, since 1970, with events of this id by publishable keys; their number and bytes on that day (L3). */
    day: integer("day"),
    dayEvents: integer("day_events").notNull().default(0),
    dayBytes: integer("day_bytes").notNull().default(0),
    /** Whether it has the form of a device id (people/claims.ts). */
    isDeviceForm: integer("is_device_form", { mode: "boolean" }).notNull(),
    /** Whether it sent an event that was not personless. Then it is the id of a person (P3). */
    isSender: integer("is_sender", { mode: "boolean" }).notNull().default(false),
    /** Whether it was the `distinct_id` of an `$identify`. */
    isIdentified: integer("is_identified", { mode: "boolean" }).notNull().default(false),
    /**
     * Whether the id was identified as a user (P2): by a secret key's event or claim, an `$identify`, or an event of a signed-in
     * user. An account or an own consent also makes it a user (people/read-people.ts). It stays set until the id is erased.
     */
    isUser: integer("is_user", { mode: "boolean" }).notNull().default(false),
    /** Whether a secret key's event or claim identified it as a user. No publishable or relay key can set this. */
    isVerifiedUser: integer("is_verified_user", { mode: "boolean" }).notNull().default(false),
    /** The id that claims this one. Null when there is none. */
    claimedBy: text("claimed_by"),
    claimedVia: text("claimed_via", { enum: ["identify", "alias"] }),
    claimedAtMs: integer("claimed_at_ms"),
    /** Whether the claim was sent with a secret key. */
    claimIsVerified: integer("claim_is_verified", { mode: "boolean" }).notNull().default(false),
    /** How many claims it made with publishable and relay keys (L1): in all, and on the last UTC day with such a claim. */
    claimsMade: integer("claims_made").notNull().default(0),
    claimsDay: integer("claims_day"),
    dayClaims: integer("day_claims").notNull().default(0),
    /** How many further claims linked nothing, because one of the two numbers was at its limit. */
    claimsOverLimit: integer("claims_over_limit").notNull().default(0),
    /** Grows by one with every change of the claim. A planned write compares it. */
    claimVersion: integer("claim_version").notNull().default(0),
    /** The last day on which the id sent an event, in days since 1970. It may be outdated (db/count-activity.ts). */
    lastActiveDay: integer("last_active_day"),
  },
  (t) => [
    primaryKey({ columns: [t.environmentId, t.distinctId] }),
    // Recently active people. Capturing their events does not write this index.
    index("distinct_ids_active")
      .on(t.environmentId, t.lastActiveDay, t.distinctId)
      .where(sql`last_active_day IS NOT NULL`),
    // Verified claims can be read first, so that others do not crowd them out of a page.
    index("distinct_ids_claimed_by")
      .on(t.environmentId, t.claimedBy, sql`claim_is_verified DESC`)
      .where(sql`claimed_by IS NOT NULL`),
    check("distinct_ids_deleted_count", sql`${t.deletedCount} BETWEEN 0 AND ${t.eventCount}`),
    check("distinct_ids_replaced_count", sql`${t.replacedCount} BETWEEN 0 AND ${t.eventCount} - ${t.deletedCount}`),
    check("distinct_ids_verified_user", sql`${t.isVerifiedUser} <= ${t.isUser}`),
    check("distinct_ids_claims_made", sql`${t.claimsMade} <= 1000 AND ${t.dayClaims} <= 100`),
    check("distinct_ids_claimed_by_another", sql`${t.claimedBy} <> ${t.distinctId}`),
    check(
      "distinct_ids_claim_whole",
      sql`iif(${t.claimedBy} IS NULL, ${t.claimedVia} IS NULL AND ${t.claimedAtMs} IS NULL AND ${t.claimIsVerified} = 0, ${t.claimedVia} IN ('identify', 'alias') AND ${t.claimedAtMs} IS NOT NULL)`,
    ),
  ],
);

/**
 * `first_seen_at_ms` in an upsert that changes a known id. Triggers reject any other INSERT of a known id, and a stored row with this
 * value. So `INSERT OR REPLACE` cannot replace a row.
 */
export const firstSeenOfKnownId = sql<number>`-1`;

/** SQL: the property `email` of a JSON object. Null for JSON that SQLite does not read, such as very deep JSON. */
const emailProperty = (properties: SQL | Column) =>
  sql`CASE WHEN json_valid(${properties}) THEN ${properties} ->> '$.email' END`;
/** SQL: the e-mail address that `id_properties_email` sorts by. */
export const emailIn = (properties: SQL | Column) => sql<string>`lower(${emailProperty(properties)})`;
/** SQL: whether `id_properties_email` has the address. No address is longer than 320 characters. */
export const hasEmail = (properties: SQL | Column) => sql`length(${emailProperty(properties)}) <= 320`;

/**
 * The properties that events `$set` for a distinct id: a row for those of secret keys, and a row for those of other keys, so that the
 * public key cannot change, hide or crowd out what a server said (P9). A separate table, so that other events rewrite nothing large.
 */
export const idProperties = sqliteTable(
  "id_properties",
  {
    environmentId: integer("environment_id").notNull(),
    distinctId: text("distinct_id").notNull(),
    /** Whether secret keys set them. */
    isVerified: integer("is_verified", { mode: "boolean" }).notNull().default(false),
    /** JSON object. */
    properties: text("properties").notNull(),
    /** Grows by one with every change. A planned write compares it. */
    version: integer("version").notNull().default(1),
  },
  (t) => [
    primaryKey({ columns: [t.environmentId, t.distinctId, t.isVerified] }),
    // Finds people by their e-mail address, those whom secret keys gave it first. Ids without an address are not in the index.
    index("id_properties_email")
      .on(t.environmentId, emailIn(sql`properties`), t.isVerified)
      .where(hasEmail(sql`properties`)),
  ],
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
    /** How far the environment's test clock was ahead of real time (E8). Null without a test clock. */
    aheadMs: integer("ahead_ms"),
    /** Whether it was sent with a secret key. */
    isVerified: integer("is_verified", { mode: "boolean" }).notNull().default(false),
    /** JSON object, as it was sent. */
    properties: text("properties").notNull(),
    /** The seq of the verified event that replaced this one, and when, in real time (P4). Null when there is none. */
    replacedBy: integer("replaced_by"),
    replacedAtMs: integer("replaced_at_ms"),
  },
  (t) => [
    primaryKey({ columns: [t.environmentId, t.distinctId, t.seq] }),
    // It does not begin with the id, so that SQLite reads an id's events by the primary key, in order.
    uniqueIndex("analytics_events_uuid").on(t.environmentId, t.uuid, t.distinctId, t.isVerified),
    // For the cron, which deletes replaced events.
    index("analytics_events_replaced").on(t.replacedAtMs).where(sql`replaced_at_ms IS NOT NULL`),
    check("analytics_events_replaced_whole", sql`(${t.replacedBy} IS NULL) = (${t.replacedAtMs} IS NULL)`),
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
    /** Whether it belongs to an anonymous visitor. Otherwise its id is a user (P2). */
    isDevice: integer("is_device", { mode: "boolean" }).notNull().default(false),
    /** Its place among the entries of its id on its UTC day that publishable keys sent (P5). Null for one of a secret key. */
    dayPlace: integer("day_place"),
    occurredAtMs: integer("occurred_at_ms").notNull(),
    receivedAtMs: integer("received_at_ms").notNull(),
  },
  (t) => [
    primaryKey({ columns: [t.environmentId, t.distinctId, t.seq] }),
    index("consent_log_of_user").on(t.environmentId, t.distinctId).where(sql`is_device = 0`),
    index("consent_log_public").on(t.environmentId, t.distinctId, t.seq).where(sql`day_place IS NOT NULL`),
    check("consent_log_decision", sql`${t.decision} IN ('granted', 'denied', 'withdrawn')`),
  ],
);

/** Operators' notes on a user, or on any other id. The dashboard writes them. */
export const userNotes = sqliteTable(
  "user_notes",
  {
    environmentId: integer("environment_id").notNull(),
    userId: text("user_id").notNull(),
    id: text("id").notNull(),
    text: text("text").notNull(),
    /** Who wrote it, as in the audit. */
    actor: text("actor").notNull(),
    createdAtMs: integer("created_at_ms").notNull(),
  },
  (t) => [primaryKey({ columns: [t.environmentId, t.userId, t.id] })],
);

/** Append-only: who created and opened export links, with the results. It has the token's hash, never the token. */
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
    /** The key that created the link. Null for an action of the link's holder. */
    keyId: text("key_id"),
    occurredAtMs: integer("occurred_at_ms").notNull(),
    /** When a created link expires, in real time (D3). */
    expiresAtMs: integer("expires_at_ms"),
  },
  (t) => [
    primaryKey({ columns: [t.environmentId, t.distinctId, t.seq] }),
    check("export_audit_action", sql`${t.action} IN ('minted', 'opened', 'completed', 'failed')`),
  ],
);

/** Ends of an id's export links: older links no longer open (P14). A row is kept as long as a link can be valid. */
export const linkEnds = sqliteTable(
  "link_ends",
  {
    environmentId: integer("environment_id").notNull(),
    /** Hash of the distinct id, keyed with the secret that signs links. */
    idHash: text("id_hash").notNull(),
    /** Real time. */
    endedAtMs: integer("ended_at_ms").notNull(),
  },
  (t) => [
    primaryKey({ columns: [t.environmentId, t.idHash, t.endedAtMs] }),
    // For the cron, which deletes the oldest.
    index("link_ends_ended").on(t.endedAtMs),
  ],
);
