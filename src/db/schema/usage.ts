import { sql } from "drizzle-orm";
import { check, foreignKey, index, integer, primaryKey, sqliteTable, text, uniqueIndex } from "drizzle-orm/sqlite-core";
import { type Minor, minorColumn, unitColumn } from "./columns.ts";

/** Usage events, reservations, and sums of usage by day. */

/** Usage events, in order of arrival. */
export const usageEvents = sqliteTable(
  "usage_events",
  {
    accountId: integer("account_id").notNull(),
    /** Order of arrival, gapless per account, from 1. */
    seq: integer("seq").notNull(),
    environmentId: integer("environment_id").notNull(),
    eventId: text("event_id").notNull(),
    event: text("event").notNull(),
    model: text("model"),
    /** Null if meters were sent and no rule of `count` priced them. */
    countMinor: minorColumn("count_minor"),
    tokensMinor: minorColumn("tokens_minor"),
    secondsMinor: minorColumn("seconds_minor"),
    centsMinor: minorColumn("cents_minor"),
    /** The meters that were sent, as JSON, and the version of the price list that priced them (PR3). Null for quantities. */
    meters: text("meters"),
    priceVersion: integer("price_version"),
    /** The operator's own cost, in minor units of cents (PR8). Null for none. */
    costMinor: minorColumn("cost_minor"),
    /** JSON object, as it was sent. Null when none was sent, and when it is in `large_properties`. */
    properties: text("properties"),
    /** The size of its JSON in `large_properties`. Null when `properties` holds it. */
    largePropertiesBytes: integer("large_properties_bytes"),
    occurredAtMs: integer("occurred_at_ms").notNull(),
    /** How long after `occurredAtMs` it arrived. Mostly 0, which takes no bytes. */
    receivedAfterMs: integer("received_after_ms").notNull(),
    receivedAtMs: integer("received_at_ms")
      .notNull()
      .generatedAlwaysAs(sql`occurred_at_ms + received_after_ms`, { mode: "virtual" }),
    reservationId: text("reservation_id"),
    /** Fingerprint of the request, and the id of the write that recorded it (books/ledger/decision.ts). */
    requestHash: text("request_hash").notNull(),
    /** JSON list of [grantSeq, unit, minor units, remainingMinor] (books/ledger/stored-legs.ts). */
    debits: text("debits").notNull(),
    /** The response's uncovered quantities as JSON. Null when all was covered. */
    uncovered: text("uncovered"),
    /** Its amounts for usage limits: JSON list of { limitId, endMs, minor, … } (books/ledger/counters.ts). Null for none. */
    counted: text("counted"),
    /** The member who used it (ME1). Null for none. */
    memberNumber: integer("member_number"),
  },
  (t) => [
    primaryKey({ columns: [t.accountId, t.seq] }),
    uniqueIndex("usage_events_event_id").on(t.environmentId, t.eventId),
    // For lists by `occurredAt`, and totals.
    index("usage_events_occurred").on(t.accountId, t.occurredAtMs, t.seq),
    // The same for one member. An event without a member is not in it.
    index("usage_events_member")
      .on(t.accountId, t.memberNumber, t.occurredAtMs, t.seq)
      .where(sql`member_number IS NOT NULL`),
    check("usage_events_member_known", sql`${t.memberNumber} > 0`),
    check("usage_events_properties_once", sql`${t.properties} IS NULL OR ${t.largePropertiesBytes} IS NULL`),
  ],
);

/** Large properties of usage events. It is a rowid table, so that large rows do not make the tree of a primary key deep. */
export const largeProperties = sqliteTable(
  "large_properties",
  {
    accountId: integer("account_id").notNull(),
    seq: integer("seq").notNull(),
    /** JSON object, as it was sent. */
    properties: text("properties").notNull(),
  },
  (t) => [primaryKey({ columns: [t.accountId, t.seq] })],
);

export const reservations = sqliteTable(
  "reservations",
  {
    accountId: integer("account_id").notNull(),
    /** The order of creation, gapless per account, from 1. The ledger names a reservation by it, because ids may be long. */
    reservationNumber: integer("reservation_number").notNull(),
    environmentId: integer("environment_id").notNull(),
    id: text("id").notNull(),
    // The columns that check each returned hold come before `legs`, which may be long.
    state: text("state", { enum: ["open", "committed", "released", "expired"] }).notNull(),
    /** The ledger seq of the return of its first hold. The returns of its other holds follow. */
    settledSeq: integer("settled_seq"),
    /** The account's last ledger seq at creation. A refund with a later seq came while the reservation was open (C21). */
    createdAtSeq: integer("created_at_seq").notNull().default(0),
    legCount: integer("leg_count").generatedAlwaysAs(sql`json_array_length(legs)`, { mode: "stored" }),
    event: text("event").notNull(),
    model: text("model"),
    /** The quantities of the request, as JSON. */
    quantities: text("quantities").notNull(),
    /** As in `usage_events`, but a reservation with quantities has a version too: the one that prices its commit (PR5). */
    meters: text("meters"),
    priceVersion: integer("price_version"),
    costMinor: minorColumn("cost_minor"),
    /** Like `debits` of `usage_events`. */
    legs: text("legs").notNull(),
    /** Like `counted` of `usage_events`, in force while the reservation is open. */
    counted: text("counted"),
    /** As in `usage_events`. */
    memberNumber: integer("member_number"),
    /** Whether the held credits are returned or charged when the reservation expires. */
    isCharged: integer("is_charged").notNull().default(0),
    onExpiry: text("on_expiry", { enum: ["return", "charge"] })
      .notNull()
      .generatedAlwaysAs(sql`iif(is_charged, 'charge', 'return')`, { mode: "virtual" }),
    createdAtMs: integer("created_at_ms").notNull(),
    expiresAtMs: integer("expires_at_ms").notNull(),
    settledAtMs: integer("settled_at_ms"),
    /** The seq of the event that committed it, also late. */
    settledEventSeq: integer("settled_event_seq"),
    /** As in `usage_events`. */
    requestHash: text("request_hash").notNull(),
  },
  (t) => [
    primaryKey({ columns: [t.accountId, t.reservationNumber] }),
    uniqueIndex("reservations_id").on(t.environmentId, t.id),
    // The indexes are partial: a reservation is in one of them, so that a hold writes only one.
    index("reservations_open").on(t.accountId, t.expiresAtMs, t.reservationNumber).where(sql`state = 'open'`),
    index("reservations_committed").on(t.accountId, t.reservationNumber).where(sql`state = 'committed'`),
    index("reservations_released").on(t.accountId, t.reservationNumber).where(sql`state = 'released'`),
    index("reservations_expired").on(t.accountId, t.reservationNumber).where(sql`state = 'expired'`),
    // For the erasure of a member.
    index("reservations_member").on(t.accountId, t.memberNumber).where(sql`member_number IS NOT NULL`),
    check("reservations_member_known", sql`${t.memberNumber} > 0`),
    check("reservations_on_expiry", sql`${t.isCharged} IN (0, 1)`),
    check("reservations_state", sql`${t.state} IN ('open', 'committed', 'released', 'expired')`),
  ],
);

/** A sum of minor units is stored as two sums, of the upper bits and of the lower 26, so that it is exact for any size. */
const usageSums = () => ({
  events: integer("events").notNull(),
  countHigh: integer("count_high").notNull(),
  countLow: integer("count_low").notNull(),
  tokensHigh: integer("tokens_high").notNull(),
  tokensLow: integer("tokens_low").notNull(),
  secondsHigh: integer("seconds_high").notNull(),
  secondsLow: integer("seconds_low").notNull(),
  centsHigh: integer("cents_high").notNull(),
  centsLow: integer("cents_low").notNull(),
  /** The operator's own costs, in cents (PR8). */
  costHigh: integer("cost_high").notNull().default(0),
  costLow: integer("cost_low").notNull().default(0),
  /** The amount that balances in cents paid of the events (PR8). Credits of other units are no money. */
  debitedHigh: integer("debited_high").notNull().default(0),
  debitedLow: integer("debited_low").notNull().default(0),
  /** How many of the events have no cost. */
  withoutCost: integer("without_cost").notNull().default(0),
  /** The sums of meters as JSON, two a name (books/usage/meter-sums.ts). Null for none. */
  meters: text("meters"),
});

/** The usage of an account on a UTC day of `occurredAt`, by event and model (U18). Only the cron writes it. */
export const usageDays = sqliteTable(
  "usage_days",
  {
    environmentId: integer("environment_id").notNull(),
    /** Days since 1970. */
    day: integer("day").notNull(),
    accountId: integer("account_id").notNull(),
    event: text("event").notNull(),
    /** Empty for none. */
    model: text("model").notNull(),
    /** 0 for none. */
    memberNumber: integer("member_number").notNull().default(0),
    ...usageSums(),
  },
  (t) => [
    primaryKey({ columns: [t.environmentId, t.day, t.accountId, t.event, t.model, t.memberNumber] }),
    // For the erasure of a payer.
    index("usage_days_member").on(t.accountId).where(sql`member_number > 0`),
  ],
);

/** The day sums of all accounts together, by day, event and model. The batch that adds to `usage_days` adds the same here. */
export const usageTotals = sqliteTable(
  "usage_totals",
  {
    environmentId: integer("environment_id").notNull(),
    /** Days since 1970. */
    day: integer("day").notNull(),
    event: text("event").notNull(),
    /** Empty for none. */
    model: text("model").notNull(),
    ...usageSums(),
  },
  (t) => [primaryKey({ columns: [t.environmentId, t.day, t.event, t.model] })],
);

/** Accounts with events that no day sum includes yet, each with its first such event. A trigger adds the row. */
export const usageToSum = sqliteTable(
  "usage_to_sum",
  {
    environmentId: integer("environment_id").notNull(),
    accountId: integer("account_id").notNull(),
    seq: integer("seq").notNull(),
    receivedAtMs: integer("received_at_ms").notNull(),
  },
  (t) => [primaryKey({ columns: [t.environmentId, t.accountId] })],
);

/** Limits of a user's usage in a window, independent of credits (Q1 to Q6). */

/** Usage limits. Writes read them from the environment's settings snapshot instead (books/limits/limits.ts). */
export const usageLimits = sqliteTable(
  "usage_limits",
  {
    environmentId: integer("environment_id").notNull(),
    id: text("id").notNull(),
    /** Order of creation, from 1. */
    ordinal: integer("ordinal").notNull(),
    name: text("name").notNull(),
    /** The key by which names are compared, as for packs (C7). */
    nameKey: text("name_key").notNull(),
    /** JSON list of match rules. Empty: every event. */
    matches: text("matches").notNull(),
    unit: unitColumn().notNull(),
    amountMinor: minorColumn("amount_minor").notNull(),
    every: text("every", { enum: ["minute", "hour", "day", "week", "month"] }).notNull(),
    /** Whom it bounds: each user, or each member of each payer (ME2). */
    per: text("per", { enum: ["user", "member"] })
      .notNull()
      .default("user"),
    /** The zone whose calendar the windows follow (TZ1). Null for windows shorter than a day. */
    timeZone: text("time_zone"),
    /** The zone's last known offset in real time, which the cron keeps up to date. */
    utcOffsetMs: integer("utc_offset_ms").notNull(),
    createdAtMs: integer("created_at_ms").notNull(),
    /** The limit is deleted; its row stays until its counters are deleted too. */
    isDeleted: integer("is_deleted", { mode: "boolean" }).notNull().default(false),
  },
  (t) => [
    primaryKey({ columns: [t.environmentId, t.id] }),
    uniqueIndex("usage_limits_name_key").on(t.environmentId, t.nameKey).where(sql`is_deleted = 0`),
    /** The limits whose offset changes, for the cron. */
    index("usage_limits_zone").on(t.timeZone, t.utcOffsetMs).where(sql`is_deleted = 0 AND time_zone <> 'UTC'`),
    check("usage_limits_amount", sql`${t.amountMinor} >= 0`),
    check("usage_limits_per", sql`${t.per} IN ('user', 'member')`),
    check("usage_limits_unit", sql`${t.unit} IN ('count', 'tokens', 'seconds', 'cents')`),
    check("usage_limits_every", sql`${t.every} IN ('minute', 'hour', 'day', 'week', 'month')`),
    check("usage_limits_time_zone", sql`(${t.timeZone} IS NULL) = (${t.every} IN ('minute', 'hour'))`),
  ],
);

/**
 * A user's usage against a limit in the current window; the next window overwrites it. Triggers add the amounts in `counted` of
 * events and reservations, and reject an amount over the limit (Q5).
 */
export const usageCounters = sqliteTable(
  "usage_counters",
  {
    environmentId: integer("environment_id").notNull(),
    limitId: text("limit_id").notNull(),
    accountId: integer("account_id").notNull(),
    /** 0 for the user itself: only limits per member have others. */
    memberNumber: integer("member_number").notNull().default(0),
    /** The end of the window that `used_minor` counts. 0 before the first window. */
    endMs: integer("end_ms").notNull().default(0),
    usedMinor: minorColumn("used_minor")
      .notNull()
      .default(0 as Minor),
    /** The number of counts in the window since the user reached the amount, including the count that reached it. */
    reachedCount: integer("reached_count").notNull().default(0),
    /** Whether the user has an override. An override of null means unlimited (Q2). */
    hasOverride: integer("has_override", { mode: "boolean" }).notNull().default(false),
    overrideMinor: minorColumn("override_minor"),
    /** The limit's amount at the last count, and whether that count was enforced. */
    amountMinor: minorColumn("amount_minor")
      .notNull()
      .default(0 as Minor),
    isEnforced: integer("is_enforced", { mode: "boolean" }).notNull().default(false),
  },
  (t) => [
    primaryKey({ columns: [t.environmentId, t.limitId, t.accountId, t.memberNumber] }),
    foreignKey({
      columns: [t.environmentId, t.limitId],
      foreignColumns: [usageLimits.environmentId, usageLimits.id],
      name: "usage_counters_limit",
    }),
    check("usage_counters_used", sql`${t.usedMinor} BETWEEN 0 AND 9007199254740991`),
    check(
      "usage_counters_override",
      sql`iif(${t.hasOverride}, coalesce(${t.overrideMinor}, 0) >= 0, ${t.overrideMinor} IS NULL)`,
    ),
  ],
);
