import { sql } from "drizzle-orm";
import { check, index, integer, primaryKey, sqliteTable, text, uniqueIndex } from "drizzle-orm/sqlite-core";

/**
 * Members: who used what a payer's account paid for (ME1). A row for each pair of account and `memberId`. Events, reservations, counters
 * and day sums name a member by its number, so that an erasure renames one row.
 */
export const members = sqliteTable(
  "members",
  {
    accountId: integer("account_id").notNull(),
    /** From 1, in the order of first use. */
    number: integer("member_number").notNull(),
    environmentId: integer("environment_id").notNull(),
    /** A pseudonym if the member was erased, another one in each row (ME6). */
    memberId: text("member_id").notNull(),
    /** 1 while an erasure of the member runs, and 2 after it. */
    isErased: integer("is_erased").notNull().default(0),
  },
  (t) => [
    primaryKey({ columns: [t.accountId, t.number] }),
    // Finds a member's number, and all payers of a member.
    uniqueIndex("members_member_id").on(t.environmentId, t.memberId, t.accountId),
    index("members_erasing").on(t.environmentId).where(sql`is_erased = 1`),
    check("members_number", sql`${t.number} > 0`),
  ],
);
