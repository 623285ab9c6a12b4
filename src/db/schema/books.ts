/** The books: accounts, balances, the ledger, adjustments and refunds. */

import { sql } from "drizzle-orm";
import { check, index, integer, primaryKey, sqliteTable, text, uniqueIndex } from "drizzle-orm/sqlite-core";
import { minorColumn, unitColumn } from "./columns.ts";
import { packItemIdSql } from "./packs.ts";
import { environments } from "./tenants.ts";

/**
 * A user of an environment, with an integer id. The tables of the books use only this integer, so that their rows are small and
 * no other row holds the user's own id.
 */
export const accounts = sqliteTable(
  "accounts",
  {
    id: integer("id").primaryKey(),
    environmentId: integer("environment_id")
      .notNull()
      .references(() => environments.id),
    userId: text("user_id").notNull(),
    /** Whether the user was erased (E2). Then `userId` is a random pseudonym, and no more rows are added. */
    isErased: integer("is_erased").notNull().default(0),
    /** The last day with a write for the user, in days since 1970. It may be outdated (db/count-activity.ts). */
    lastActiveDay: integer("last_active_day"),
    /** When the next period of a recurring grant begins. Null when there is none. Triggers of `recurring_grants` keep it. */
    recurringDueAtMs: integer("recurring_due_at_ms"),
  },
  (t) => [
    uniqueIndex("accounts_user").on(t.environmentId, t.userId),
    // Recently active users. A new account enters this index with the first write after a response.
    index("accounts_active").on(t.environmentId, t.lastActiveDay, t.id).where(sql`last_active_day IS NOT NULL`),
    // For the cron: users of all environments with a due period.
    index("accounts_recurring_due").on(t.recurringDueAtMs, t.id).where(sql`recurring_due_at_ms IS NOT NULL`),
  ],
);

/** The sources of balances, as their rows store them. */
export const BALANCE_SOURCES = { grant: 0, purchase: 1, manual: 2, refund: 3 } as const;

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
    packNumber: integer("pack_number").notNull(),
    /** The number of the pack's item. 0 for an open-amount pack. */
    itemNumber: integer("item_number").notNull(),
    /** Empty for an open-amount pack. Computed, so it takes no bytes. */
    packItemId: text("pack_item_id").notNull().generatedAlwaysAs(packItemIdSql(), { mode: "virtual" }),
    unit: unitColumn().notNull(),
    matches: text("matches").notNull(),
    priority: integer("priority").notNull(),
    initialMinor: minorColumn("initial_minor").notNull(),
    remainingMinor: minorColumn("remaining_minor").notNull(),
    /** 1 while the remaining amount is not 0. The condition of a partial index; the ledger's triggers set it. */
    hasRemaining: integer("has_remaining").notNull(),
    /** A number of `BALANCE_SOURCES`. */
    sourceNumber: integer("source_number").notNull(),
    source: text("source", { enum: ["purchase", "grant", "refund", "manual"] })
      .notNull()
      .generatedAlwaysAs(
        sql`CASE source_number WHEN 0 THEN 'grant' WHEN 1 THEN 'purchase' WHEN 2 THEN 'manual' ELSE 'refund' END`,
        { mode: "virtual" },
      ),
    /** The kind and the author of the grant's ledger entry. */
    grantKind: integer("grant_kind").notNull().default(4),
    grantedBy: integer("granted_by").notNull().default(0),
    externalRef: text("external_ref"),
    notes: text("notes"),
    grantedAtMs: integer("granted_at_ms").notNull(),
    /** When its ledger entry was written, if later than the grant's time, as for a due period (R2). */
    writtenAtMs: integer("written_at_ms"),
    expiresAtMs: integer("expires_at_ms").notNull(),
    revokedAtMs: integer("revoked_at_ms"),
    /** The ledger seq of the grant: the order of issue. */
    grantSeq: integer("grant_seq").notNull(),
    /** The ledger seq of the balance's latest entry. `previous_seq` continues the chain from there. */
    lastSeq: integer("last_seq").notNull(),
  },
  (t) => [
    // In order of issue, so that the newest can be read first. A unique index finds a balance by its id.
    primaryKey({ columns: [t.accountId, t.grantSeq] }),
    uniqueIndex("credit_balances_id").on(t.id),
    index("credit_balances_remaining").on(t.accountId, t.expiresAtMs).where(sql`has_remaining = 1`),
    // The reference comes first, so that the dashboard finds a balance by its reference alone.
    uniqueIndex("credit_balances_external_ref")
      .on(t.externalRef, t.accountId, t.packNumber, t.itemNumber)
      .where(sql`external_ref IS NOT NULL`),
    // Compared one by one: SQLite counts a hit in an IN list of three or more as a row read.
    check(
      "credit_balances_unit",
      sql`${t.unit} = 'count' OR ${t.unit} = 'tokens' OR ${t.unit} = 'seconds' OR ${t.unit} = 'cents'`,
    ),
    check("credit_balances_grant_kind", sql`${t.grantKind} BETWEEN 4 AND 6`),
    check("credit_balances_source", sql`${t.sourceNumber} BETWEEN 0 AND 3`),
    check("credit_balances_initial_positive", sql`${t.initialMinor} > 0`),
    check("credit_balances_remaining_not_negative", sql`${t.remainingMinor} >= 0`),
    check(
      "credit_balances_remaining_within_bounds",
      sql`${t.remainingMinor} <= iif(${t.unit} = 'cents', 8589934592000000, 8796093022208000)`,
    ),
    check("credit_balances_has_remaining", sql`${t.hasRemaining} = (${t.remainingMinor} > 0)`),
  ],
);

/** The kinds of ledger entries, as their rows store them. */
export const ENTRY_KINDS = {
  ...{ usage: 0, hold: 1, released: 2, expired: 3, grant: 4, recurring: 5, payment: 6 },
  ...{ adjustment: 7, revoke: 8, refund: 9, payment_taken: 10, payment_restored: 11, erasure: 12 },
} as const;

/** Append-only. A balance changes only by a row here, whose delta a trigger applies. */
export const creditLedger = sqliteTable(
  "credit_ledger",
  {
    accountId: integer("account_id").notNull(),
    /** Gapless per account, from 1. */
    seq: integer("seq").notNull(),
    /** The seq of its balance's grant. The balance says the id, the pack and the unit. */
    grantSeq: integer("grant_seq").notNull(),
    deltaMinor: minorColumn("delta_minor").notNull(),
    balanceAfterMinor: minorColumn("balance_after_minor").notNull(),
    /** The seq of this balance's previous entry. Null for its grant. */
    previousSeq: integer("previous_seq"),
    /** A number of `ENTRY_KINDS`, which says the reason and the cause. They are computed, and take no bytes. */
    kind: integer("kind").notNull(),
    reason: text("reason", {
      enum: [
        "event_committed",
        "reservation_held",
        "reservation_released",
        "reservation_expired",
        "grant",
        "admin_adjust",
      ],
    })
      .notNull()
      .generatedAlwaysAs(
        sql`CASE kind WHEN 0 THEN 'event_committed' WHEN 1 THEN 'reservation_held' WHEN 2 THEN 'reservation_released' WHEN 3 THEN 'reservation_expired' WHEN 4 THEN 'grant' WHEN 5 THEN 'grant' WHEN 6 THEN 'grant' ELSE 'admin_adjust' END`,
        { mode: "virtual" },
      ),
    /** Says more than the reason (C16). */
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
    })
      .notNull()
      .generatedAlwaysAs(
        sql`CASE kind WHEN 0 THEN 'usage' WHEN 1 THEN 'hold' WHEN 2 THEN 'hold_returned' WHEN 3 THEN 'hold_returned' WHEN 4 THEN 'grant' WHEN 5 THEN 'recurring' WHEN 6 THEN 'payment' WHEN 7 THEN 'adjustment' WHEN 8 THEN 'revoke' WHEN 9 THEN 'refund' WHEN 10 THEN 'payment_taken' WHEN 11 THEN 'payment_restored' ELSE 'erasure' END`,
        { mode: "virtual" },
      ),
    /** Whose call wrote it: the number of an author (books/ledger/author.ts). */
    writtenBy: integer("written_by").notNull(),
    /** The seq of the usage event that it pays for. */
    eventSeq: integer("event_seq"),
    /** The reservation that it holds for or returns. A debit has its event's, so that history reads one row beside each entry. */
    reservationNumber: integer("reservation_number"),
    note: text("note"),
    /** When it was written. It never falls as seq grows. */
    occurredAtMs: integer("occurred_at_ms").notNull(),
    /** Whether the balance is revoked after this entry. */
    isRevoked: integer("is_revoked").notNull().default(0),
  },
  (t) => [
    primaryKey({ columns: [t.accountId, t.seq] }),
    check("credit_ledger_is_revoked", sql`${t.isRevoked} IN (0, 1)`),
    check("credit_ledger_kind", sql`${t.kind} BETWEEN 0 AND 12`),
    check("credit_ledger_reservation", sql`${t.kind} <> 0 OR ${t.reservationNumber} IS NULL`),
    check("credit_ledger_event", sql`(${t.kind} = 0) = (${t.eventSeq} IS NOT NULL)`),
    check("credit_ledger_by_caller", sql`${t.writtenBy} >= 0`),
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
    /** As in `usage_events`. */
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
    /** Gapless per reference, from 1. If two refunds were planned on the same state, the second fails. */
    ordinal: integer("ordinal").notNull(),
    /** The idempotency key under the reference. */
    refundRef: text("refund_ref").notNull(),
    /** The packs whose balances it refunds. */
    packIds: text("pack_ids", { mode: "json" }).$type<readonly string[]>().notNull(),
    /** The refunded share, `part` of `of`. Both are null for everything that was left. */
    part: integer("part"),
    ofParts: integer("of_parts"),
    /** The seqs of its ledger entries. */
    firstSeq: integer("first_seq").notNull(),
    lastSeq: integer("last_seq").notNull(),
    /** As in `usage_events`. */
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

/** Amounts that balances owe to refunds (C21) and payments (S4) because open reservations held them. Paid on settlement. */
export const refundOwed = sqliteTable(
  "refund_owed",
  {
    accountId: integer("account_id").notNull(),
    balanceId: text("balance_id").notNull(),
    /** The seq of the ledger entry that took too little. The oldest is paid first, with that entry's note. */
    seq: integer("seq").notNull(),
    owedMinor: minorColumn("owed_minor").notNull(),
  },
  (t) => [
    primaryKey({ columns: [t.accountId, t.balanceId, t.seq] }),
    check("refund_owed_positive", sql`${t.owedMinor} > 0`),
  ],
);
