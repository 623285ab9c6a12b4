/** Applications, their environments and keys, and who administers them. */

import { sql } from "drizzle-orm";
import { check, index, integer, primaryKey, sqliteTable, text, uniqueIndex } from "drizzle-orm/sqlite-core";
import type { Mode, Scope } from "../../runtime.ts";

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
    /**
     * The ids of its secret keys, each after a space. An entry names its author by the place in this text (books/ledger/author.ts), so
     * it only grows. A trigger of `api_keys` adds them.
     */
    authors: text("authors").notNull().default(" "),
    /** The end-user token setting as JSON. Null: publishable keys cannot read credits. */
    endUserAuth: text("end_user_auth"),
    /** The limits of analytics that were set, as JSON (people/limits/daily-limits.ts). Null for the defaults. */
    analyticsLimits: text("analytics_limits"),
    /** The optional features in use, such as webhooks, as JSON (db/settings-snapshot.ts). Null for none. */
    settingsSnapshot: text("settings_snapshot"),
    /** The names of its units, as JSON (PR7). Null for none. */
    unitNames: text("unit_names"),
    testBalanceCount: integer("test_balance_count").notNull().default(0),
    testBalanceQuota: integer("test_balance_quota").notNull().default(0),
  },
  (t) => [
    uniqueIndex("environments_app_mode").on(t.appId, t.mode),
    check("environments_mode", sql`${t.mode} IN ('live', 'test')`),
    check("environments_test_quota", sql`${t.testBalanceCount} <= ${t.testBalanceQuota}`),
    // The cron reads the environments with a test clock one by one.
    index("environments_clock").on(t.id).where(sql`settings_snapshot ->> '$.clock' IS NOT NULL`),
    check(
      "environments_clock",
      sql`settings_snapshot ->> '$.clock' IS NULL OR (${t.mode} = 'test' AND (settings_snapshot ->> '$.clock.aheadMs' BETWEEN 0 AND 315619200000 AND settings_snapshot ->> '$.clock.setMs' IS NOT NULL AND coalesce(settings_snapshot ->> '$.clock.atMs', 0) <= settings_snapshot ->> '$.clock.setMs') IS TRUE)`,
    ),
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
    kind: text("kind", { enum: ["secret", "publishable", "relay"] }).notNull(),
    hint: text("hint").notNull(),
    name: text("name"),
    createdAtMs: integer("created_at_ms").notNull(),
    revokedAtMs: integer("revoked_at_ms"),
    /** The last day of use, in days since 1970. It may be outdated (db/count-activity.ts). */
    lastUsedDay: integer("last_used_day"),
  },
  (t) => [
    uniqueIndex("api_keys_id").on(t.environmentId, t.id),
    index("api_keys_created").on(t.environmentId, t.createdAtMs, t.id),
    check("api_keys_kind", sql`${t.kind} IN ('secret', 'publishable', 'relay')`),
  ],
);

/** Administration keys, in `DB` only. Append-only except for the revocation. */
export const adminKeys = sqliteTable(
  "admin_keys",
  {
    /** SHA-256 of the key, base64url. The key itself is not stored. */
    hash: text("hash").primaryKey(),
    id: text("id").notNull(),
    hint: text("hint").notNull(),
    name: text("name").notNull(),
    scopes: text("scopes", { mode: "json" }).$type<readonly Scope[]>().notNull(),
    /** The ids of the applications that it may administer. Null for all. */
    apps: text("apps", { mode: "json" }).$type<readonly string[]>(),
    /** Null for both. */
    modes: text("modes", { mode: "json" }).$type<readonly Mode[]>(),
    createdAtMs: integer("created_at_ms").notNull(),
    revokedAtMs: integer("revoked_at_ms"),
  },
  (t) => [uniqueIndex("admin_keys_id").on(t.id)],
);

/** Append-only: every administrative action, one row in the batch of its change. */
export const adminAudit = sqliteTable(
  "admin_audit",
  {
    /** Empty when an action concerns no application. Such rows are in `DB` only. */
    appId: text("app_id").notNull(),
    /** Gapless per application, from 1. */
    seq: integer("seq").notNull(),
    /** Generated before the write, so that a repeated write is recognised. */
    id: text("id").notNull(),
    atMs: integer("at_ms").notNull(),
    /** Who acted: an e-mail address or subject from Cloudflare Access, a name given at sign-in, `ak:…` for a key, or `api`. */
    actor: text("actor").notNull(),
    action: text("action").notNull(),
    target: text("target").notNull(),
    /** JSON object: no secret, no user id, no free text. */
    details: text("details", { mode: "json" }).$type<Record<string, unknown>>().notNull(),
    /** The account of the user concerned. The user's id is looked up on reading, so that an erasure removes it here too. */
    accountId: integer("account_id"),
  },
  (t) => [
    primaryKey({ columns: [t.appId, t.seq] }),
    uniqueIndex("admin_audit_id").on(t.appId, t.id),
    // Lists the actions on one target.
    index("admin_audit_target").on(t.appId, t.target, t.seq),
    index("admin_audit_account").on(t.accountId, t.seq).where(sql`account_id IS NOT NULL`),
  ],
);

/** Dashboard sessions that have not ended, in `DB` only. */
export const dashboardSessions = sqliteTable(
  "dashboard_sessions",
  {
    id: text("id").primaryKey(),
    /** The name given at the sign-in, for the audit. */
    actor: text("actor").notNull(),
    endsAtMs: integer("ends_at_ms").notNull(),
  },
  // A sign-in deletes ended sessions. The page of sessions lists the others.
  (t) => [index("dashboard_sessions_ends").on(t.endsAtMs)],
);
