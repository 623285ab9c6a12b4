/**
 * All tables, one file per subject. Amounts are integers in minor units (books/amounts/amount.ts), times are milliseconds since 1970.
 * drizzle-kit reads this file. It cannot express `STRICT`, `WITHOUT ROWID` and triggers, so they are in `drizzle/*.sql`;
 * test/worker/db/schema.test.ts compares both.
 */

export * from "./schema/activity.ts";
export * from "./schema/books.ts";
export type { Minor } from "./schema/columns.ts";
export * from "./schema/cron-state.ts";
export * from "./schema/erasure.ts";
export * from "./schema/members.ts";
export * from "./schema/packs.ts";
export * from "./schema/payments.ts";
export * from "./schema/people.ts";
export * from "./schema/prices.ts";
export * from "./schema/statements.ts";
export * from "./schema/tenants.ts";
export * from "./schema/usage.ts";
export * from "./schema/webhooks.ts";
