/** The books: accounts, balances and the ledger, with what adjusts and refunds them. */

import { sql } from "drizzle-orm";
import { check, index, integer, primaryKey, sqliteTable, text, uniqueIndex } from "drizzle-orm/sqlite-core";
import type { Steps } from "./steps.ts";
import { environments } from "./tenants.ts";

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
    /** The latest day, since 1970, on which something was written for the user, as far as isolates told (db/activity/count.ts). */
    lastActiveDay: integer("last_active_day"),
    /** When the next period of a recurring grant begins. Null where none comes. Triggers of `recurring_grants` keep it. */
    recurringDueAtMs: integer("recurring_due_at_ms"),
  },
  (t) => [
    uniqueIndex("accounts_user").on(t.environmentId, t.userId),
    // The users of late. Until something was written behind an answer, an account has no row in it.
    index("accounts_active").on(t.environmentId, t.lastActiveDay, t.id).where(sql`last_active_day IS NOT NULL`),
    // Users with a due period, of all environments, for the cron.
    index("accounts_recurring_due").on(t.recurringDueAtMs, t.id).where(sql`recurring_due_at_ms IS NOT NULL`),
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
    /** Why it was granted, and by whom, for the ledger entry of its grant. */
    grantCause: text("grant_cause", { enum: ["grant", "recurring", "payment"] })
      .notNull()
      .default("grant"),
    grantedBy: text("granted_by").notNull().default("cron"),
    externalRef: text("external_ref"),
    notes: text("notes"),
    grantedAtMs: integer("granted_at_ms").notNull(),
    /** When its ledger entry was written, where that is not when it was granted: of a period that was due (R2). */
    writtenAtMs: integer("written_at_ms"),
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
    // The reference comes first, so that the dashboard finds one whose user nobody knows.
    uniqueIndex("credit_balances_external_ref")
      .on(t.externalRef, t.accountId, t.packId, t.packItemId)
      .where(sql`external_ref IS NOT NULL`),
    // Value by value: a hit in a list of three or more counts as a row read.
    check(
      "credit_balances_unit",
      sql`${t.unit} = 'count' OR ${t.unit} = 'tokens' OR ${t.unit} = 'seconds' OR ${t.unit} = 'cents'`,
    ),
    check(
      "credit_balances_source",
      sql`${t.source} = 'purchase' OR ${t.source} = 'grant' OR ${t.source} = 'refund' OR ${t.source} = 'manual'`,
    ),
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
    /** What the reason does not say (C16). A trigger refuses one that does not fit. */
    cause: text("cause", {
      enum: [
        "grant",
        "recurring",
        "payment",
        "usage",
        "hold",
        "hold_returned",
        "adjustment",
        "revoke",
        "refund",
        "payment_taken",
        "payment_restored",
        "erasure",
      ],
    }).notNull(),
    /** Whose call wrote it: a key's id, `admin`, `stripe`, or `cron` where it was nobody's. */
    writtenBy: text("written_by").notNull(),
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
      sql`${t.reason} = 'event_committed' OR ${t.reason} = 'reservation_held' OR ${t.reason} = 'reservation_released' OR ${t.reason} = 'reservation_expired' OR ${t.reason} = 'grant' OR ${t.reason} = 'admin_adjust'`,
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
    /** The packs whose balances it is about. */
    packIds: text("pack_ids", { mode: "json" }).$type<readonly string[]>().notNull(),
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

/** What refunds are owed by balances that open reservations held (C21), and payments likewise (S4). Paid when these are settled. */
export const refundOwed = sqliteTable(
  "refund_owed",
  {
    accountId: integer("account_id").notNull(),
    balanceId: text("balance_id").notNull(),
    /** The seq of the ledger entry that fell short: the older is paid first, under its note. */
    seq: integer("seq").notNull(),
    owedSteps: integer("owed_steps").$type<Steps>().notNull(),
  },
  (t) => [
    primaryKey({ columns: [t.accountId, t.balanceId, t.seq] }),
    check("refund_owed_positive", sql`${t.owedSteps} > 0`),
  ],
);
