/** Messages out, and their deliveries (H1 to H4). */

import { sql } from "drizzle-orm";
import { check, index, integer, primaryKey, sqliteTable, text } from "drizzle-orm/sqlite-core";
import { environments } from "./tenants.ts";

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
    types: text("types", { mode: "json" }).$type<readonly string[]>(),
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
