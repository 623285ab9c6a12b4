-- Made by drizzle-kit from src/db/schema.ts; STRICT, WITHOUT ROWID and the check for earlier releases added by hand.
-- A database of an earlier release is rejected in words: the name of the constraint is what the person who migrates it reads.
CREATE TABLE IF NOT EXISTS `release_check` (
	`tables_of_before` integer NOT NULL,
	CONSTRAINT "This database was made by an earlier release of Purser, which nobody runs and which is not migrated. Start with an empty one: locally remove .wrangler/ and .purser/, on Cloudflare make a new D1 database" CHECK(`tables_of_before` = 0)
) STRICT;
--> statement-breakpoint
INSERT INTO `release_check` SELECT count(*) FROM sqlite_schema WHERE name IN ('persons', 'payment_debts');
--> statement-breakpoint
DROP TABLE `release_check`;
--> statement-breakpoint
CREATE TABLE `analytics_days` (
	`environment_id` integer NOT NULL,
	`day` integer NOT NULL,
	`events` integer NOT NULL,
	`bytes` integer NOT NULL,
	`unmarked_events` integer NOT NULL,
	`unmarked_bytes` integer NOT NULL,
	`reached_limits` text,
	`id_events` integer NOT NULL,
	`id_bytes` integer NOT NULL,
	`consents` integer NOT NULL,
	PRIMARY KEY(`environment_id`, `day`)
) STRICT, WITHOUT ROWID;
--> statement-breakpoint
CREATE TABLE `business_figures` (
	`environment_id` integer NOT NULL,
	`began_at_ms` integer NOT NULL,
	`kind` text NOT NULL,
	`label` text NOT NULL,
	`unit` text NOT NULL,
	`whole` integer NOT NULL,
	`rest` integer NOT NULL,
	PRIMARY KEY(`environment_id`, `began_at_ms`, `kind`, `label`, `unit`)
) STRICT, WITHOUT ROWID;
--> statement-breakpoint
CREATE TABLE `business_walks` (
	`began_at_ms` integer PRIMARY KEY NOT NULL,
	`after_account_id` integer NOT NULL,
	`finished_at_ms` integer
) STRICT, WITHOUT ROWID;
--> statement-breakpoint
CREATE TABLE `daily_activity` (
	`environment_id` integer NOT NULL,
	`kind` text NOT NULL,
	`day` integer NOT NULL,
	`unit` text NOT NULL,
	`amount` integer NOT NULL,
	PRIMARY KEY(`environment_id`, `kind`, `day`, `unit`)
) STRICT, WITHOUT ROWID;
--> statement-breakpoint
CREATE TABLE `database_size` (
	`id` integer PRIMARY KEY NOT NULL,
	`bytes` integer NOT NULL,
	`freed_bytes` integer NOT NULL,
	CONSTRAINT "database_size_one_row" CHECK("database_size"."id" = 1),
	CONSTRAINT "database_size_positive" CHECK("database_size"."bytes" >= 0 AND "database_size"."freed_bytes" >= 0)
) STRICT, WITHOUT ROWID;
--> statement-breakpoint
CREATE TABLE `limits_reached` (
	`environment_id` integer NOT NULL,
	`day` integer NOT NULL,
	`limit_name` text NOT NULL,
	`reached_at_ms` integer NOT NULL,
	PRIMARY KEY(`environment_id`, `day`, `limit_name`)
) STRICT, WITHOUT ROWID;
--> statement-breakpoint
CREATE TABLE `rejections` (
	`environment_id` integer NOT NULL,
	`user_id` text NOT NULL,
	`member_id` text DEFAULT '' NOT NULL,
	`kind` text NOT NULL,
	`subject` text NOT NULL,
	`model` text NOT NULL,
	`reason` text NOT NULL,
	`times` integer NOT NULL,
	`last_at_ms` integer NOT NULL,
	PRIMARY KEY(`environment_id`, `user_id`, `member_id`, `kind`, `subject`, `model`),
	CONSTRAINT "rejections_kind" CHECK("rejections"."kind" IN ('shortage', 'usage_limit', 'failed_grant'))
) STRICT, WITHOUT ROWID;
--> statement-breakpoint
CREATE INDEX `rejections_member` ON `rejections` (`environment_id`,`member_id`) WHERE member_id <> '';--> statement-breakpoint
CREATE INDEX `rejections_latest` ON `rejections` (`environment_id`,`kind`,`last_at_ms`);--> statement-breakpoint
CREATE TABLE `accounts` (
	`id` integer PRIMARY KEY NOT NULL,
	`environment_id` integer NOT NULL,
	`user_id` text NOT NULL,
	`is_erased` integer DEFAULT 0 NOT NULL,
	`last_active_day` integer,
	`recurring_due_at_ms` integer,
	FOREIGN KEY (`environment_id`) REFERENCES `environments`(`id`) ON UPDATE no action ON DELETE no action
) STRICT;
--> statement-breakpoint
CREATE UNIQUE INDEX `accounts_user` ON `accounts` (`environment_id`,`user_id`);--> statement-breakpoint
CREATE INDEX `accounts_active` ON `accounts` (`environment_id`,`last_active_day`,`id`) WHERE last_active_day IS NOT NULL;--> statement-breakpoint
CREATE INDEX `accounts_recurring_due` ON `accounts` (`recurring_due_at_ms`,`id`) WHERE recurring_due_at_ms IS NOT NULL;--> statement-breakpoint
CREATE TABLE `credit_adjustments` (
	`environment_id` integer NOT NULL,
	`id` text NOT NULL,
	`account_id` integer NOT NULL,
	`balance_id` text NOT NULL,
	`seq` integer NOT NULL,
	`request_hash` text NOT NULL,
	PRIMARY KEY(`environment_id`, `id`)
) STRICT, WITHOUT ROWID;
--> statement-breakpoint
CREATE INDEX `credit_adjustments_account` ON `credit_adjustments` (`account_id`,`seq`);--> statement-breakpoint
CREATE TABLE `credit_balances` (
	`account_id` integer NOT NULL,
	`id` text NOT NULL,
	`pack_id` text NOT NULL,
	`pack_name` text NOT NULL,
	`pack_number` integer NOT NULL,
	`item_number` integer NOT NULL,
	`pack_item_id` text GENERATED ALWAYS AS (CASE item_number WHEN 0 THEN '' ELSE 'cpi_' || substr(pack_id, 5, 18) || printf('%04d', item_number) END) VIRTUAL NOT NULL,
	`unit` text NOT NULL,
	`matches` text NOT NULL,
	`priority` integer NOT NULL,
	`initial_minor` integer NOT NULL,
	`remaining_minor` integer NOT NULL,
	`has_remaining` integer NOT NULL,
	`source_number` integer NOT NULL,
	`source` text GENERATED ALWAYS AS (CASE source_number WHEN 0 THEN 'grant' WHEN 1 THEN 'purchase' WHEN 2 THEN 'manual' ELSE 'refund' END) VIRTUAL NOT NULL,
	`grant_kind` integer DEFAULT 4 NOT NULL,
	`granted_by` integer DEFAULT 0 NOT NULL,
	`external_ref` text,
	`notes` text,
	`granted_at_ms` integer NOT NULL,
	`written_at_ms` integer,
	`expires_at_ms` integer NOT NULL,
	`revoked_at_ms` integer,
	`grant_seq` integer NOT NULL,
	`last_seq` integer NOT NULL,
	PRIMARY KEY(`account_id`, `grant_seq`),
	FOREIGN KEY (`account_id`) REFERENCES `accounts`(`id`) ON UPDATE no action ON DELETE no action,
	CONSTRAINT "credit_balances_unit" CHECK("credit_balances"."unit" = 'count' OR "credit_balances"."unit" = 'tokens' OR "credit_balances"."unit" = 'seconds' OR "credit_balances"."unit" = 'cents'),
	CONSTRAINT "credit_balances_grant_kind" CHECK("credit_balances"."grant_kind" BETWEEN 4 AND 6),
	CONSTRAINT "credit_balances_source" CHECK("credit_balances"."source_number" BETWEEN 0 AND 3),
	CONSTRAINT "credit_balances_initial_positive" CHECK("credit_balances"."initial_minor" > 0),
	CONSTRAINT "credit_balances_remaining_not_negative" CHECK("credit_balances"."remaining_minor" >= 0),
	CONSTRAINT "credit_balances_remaining_within_bounds" CHECK("credit_balances"."remaining_minor" <= iif("credit_balances"."unit" = 'cents', 8589934592000000, 8796093022208000)),
	CONSTRAINT "credit_balances_has_remaining" CHECK("credit_balances"."has_remaining" = ("credit_balances"."remaining_minor" > 0))
) STRICT, WITHOUT ROWID;
--> statement-breakpoint
CREATE UNIQUE INDEX `credit_balances_id` ON `credit_balances` (`id`);--> statement-breakpoint
CREATE INDEX `credit_balances_remaining` ON `credit_balances` (`account_id`,`expires_at_ms`) WHERE has_remaining = 1;--> statement-breakpoint
CREATE UNIQUE INDEX `credit_balances_external_ref` ON `credit_balances` (`external_ref`,`account_id`,`pack_number`,`item_number`) WHERE external_ref IS NOT NULL;--> statement-breakpoint
CREATE TABLE `credit_ledger` (
	`account_id` integer NOT NULL,
	`seq` integer NOT NULL,
	`grant_seq` integer NOT NULL,
	`delta_minor` integer NOT NULL,
	`balance_after_minor` integer NOT NULL,
	`previous_seq` integer,
	`kind` integer NOT NULL,
	`reason` text GENERATED ALWAYS AS (CASE kind WHEN 0 THEN 'event_committed' WHEN 1 THEN 'reservation_held' WHEN 2 THEN 'reservation_released' WHEN 3 THEN 'reservation_expired' WHEN 4 THEN 'grant' WHEN 5 THEN 'grant' WHEN 6 THEN 'grant' ELSE 'admin_adjust' END) VIRTUAL NOT NULL,
	`cause` text GENERATED ALWAYS AS (CASE kind WHEN 0 THEN 'usage' WHEN 1 THEN 'hold' WHEN 2 THEN 'hold_returned' WHEN 3 THEN 'hold_returned' WHEN 4 THEN 'grant' WHEN 5 THEN 'recurring' WHEN 6 THEN 'payment' WHEN 7 THEN 'adjustment' WHEN 8 THEN 'revoke' WHEN 9 THEN 'refund' WHEN 10 THEN 'payment_taken' WHEN 11 THEN 'payment_restored' ELSE 'erasure' END) VIRTUAL NOT NULL,
	`written_by` integer NOT NULL,
	`event_seq` integer,
	`reservation_number` integer,
	`note` text,
	`occurred_at_ms` integer NOT NULL,
	`is_revoked` integer DEFAULT 0 NOT NULL,
	PRIMARY KEY(`account_id`, `seq`),
	CONSTRAINT "credit_ledger_is_revoked" CHECK("credit_ledger"."is_revoked" IN (0, 1)),
	CONSTRAINT "credit_ledger_kind" CHECK("credit_ledger"."kind" BETWEEN 0 AND 12),
	CONSTRAINT "credit_ledger_reservation" CHECK("credit_ledger"."kind" <> 0 OR "credit_ledger"."reservation_number" IS NULL),
	CONSTRAINT "credit_ledger_event" CHECK(("credit_ledger"."kind" = 0) = ("credit_ledger"."event_seq" IS NOT NULL)),
	CONSTRAINT "credit_ledger_by_caller" CHECK("credit_ledger"."written_by" >= 0)
) STRICT, WITHOUT ROWID;
--> statement-breakpoint
CREATE TABLE `credit_refunds` (
	`account_id` integer NOT NULL,
	`external_ref` text NOT NULL,
	`ordinal` integer NOT NULL,
	`refund_ref` text NOT NULL,
	`pack_ids` text NOT NULL,
	`part` integer,
	`of_parts` integer,
	`first_seq` integer NOT NULL,
	`last_seq` integer NOT NULL,
	`request_hash` text NOT NULL,
	PRIMARY KEY(`account_id`, `external_ref`, `ordinal`),
	CONSTRAINT "credit_refunds_ordinal_max" CHECK("credit_refunds"."ordinal" <= 100),
	CONSTRAINT "credit_refunds_share" CHECK(iif("credit_refunds"."part" IS NULL, "credit_refunds"."of_parts" IS NULL, "credit_refunds"."of_parts" IS NOT NULL AND "credit_refunds"."part" > 0 AND "credit_refunds"."part" <= "credit_refunds"."of_parts"))
) STRICT, WITHOUT ROWID;
--> statement-breakpoint
CREATE UNIQUE INDEX `credit_refunds_refund_ref` ON `credit_refunds` (`account_id`,`external_ref`,`refund_ref`);--> statement-breakpoint
CREATE TABLE `refund_owed` (
	`account_id` integer NOT NULL,
	`balance_id` text NOT NULL,
	`seq` integer NOT NULL,
	`owed_minor` integer NOT NULL,
	PRIMARY KEY(`account_id`, `balance_id`, `seq`),
	CONSTRAINT "refund_owed_positive" CHECK("refund_owed"."owed_minor" > 0)
) STRICT, WITHOUT ROWID;
--> statement-breakpoint
CREATE TABLE `cron_faults` (
	`part` text NOT NULL,
	`subject` text NOT NULL,
	`environment_id` integer NOT NULL,
	`kind` text NOT NULL,
	`tries` integer NOT NULL,
	`failed_at_ms` integer NOT NULL,
	`retry_at_ms` integer NOT NULL,
	PRIMARY KEY(`part`, `subject`)
) STRICT, WITHOUT ROWID;
--> statement-breakpoint
CREATE INDEX `cron_faults_environment` ON `cron_faults` (`environment_id`);--> statement-breakpoint
CREATE INDEX `cron_faults_retry` ON `cron_faults` (`retry_at_ms`);--> statement-breakpoint
CREATE TABLE `erasure_ids` (
	`environment_id` integer NOT NULL,
	`erasure_id` text NOT NULL,
	`position` integer NOT NULL,
	`distinct_id` text NOT NULL,
	`hash` text NOT NULL,
	`pseudonym` text NOT NULL,
	`blocks` integer NOT NULL,
	`account_id` integer,
	`ledger_from` integer DEFAULT 0 NOT NULL,
	`ledger_to` integer DEFAULT 0 NOT NULL,
	`usage_from` integer DEFAULT 0 NOT NULL,
	`usage_to` integer DEFAULT 0 NOT NULL,
	`is_done` integer DEFAULT 0 NOT NULL,
	PRIMARY KEY(`environment_id`, `erasure_id`, `position`)
) STRICT, WITHOUT ROWID;
--> statement-breakpoint
CREATE UNIQUE INDEX `erasure_ids_distinct_id` ON `erasure_ids` (`environment_id`,`distinct_id`);--> statement-breakpoint
CREATE UNIQUE INDEX `erasure_ids_account` ON `erasure_ids` (`account_id`) WHERE account_id IS NOT NULL;--> statement-breakpoint
CREATE TABLE `erasure_names` (
	`account_id` integer NOT NULL,
	`kind` text NOT NULL,
	`old_name` text NOT NULL,
	`new_name` text NOT NULL,
	PRIMARY KEY(`account_id`, `kind`, `old_name`),
	CONSTRAINT "erasure_names_kind" CHECK("erasure_names"."kind" IN ('id', 'reference'))
) STRICT, WITHOUT ROWID;
--> statement-breakpoint
CREATE UNIQUE INDEX `erasure_names_new` ON `erasure_names` (`account_id`,`kind`,`new_name`);--> statement-breakpoint
CREATE TABLE `erasures` (
	`environment_id` integer NOT NULL,
	`id` text NOT NULL,
	`reason` text,
	`keep_consent` integer NOT NULL,
	`actor` text NOT NULL,
	`fingerprint` text NOT NULL,
	`is_collected` integer DEFAULT 0 NOT NULL,
	`id_count` integer DEFAULT 0 NOT NULL,
	`counts` text DEFAULT '[]' NOT NULL,
	`started_at_ms` integer NOT NULL,
	`completed_at_ms` integer,
	`lifted_at_ms` integer,
	PRIMARY KEY(`environment_id`, `id`),
	CONSTRAINT "erasures_lifted_after_end" CHECK("erasures"."lifted_at_ms" IS NULL OR "erasures"."completed_at_ms" IS NOT NULL)
) STRICT, WITHOUT ROWID;
--> statement-breakpoint
CREATE INDEX `erasures_started` ON `erasures` (`environment_id`,`started_at_ms`,`id`);--> statement-breakpoint
CREATE INDEX `erasures_running` ON `erasures` (`environment_id`,`started_at_ms`) WHERE completed_at_ms IS NULL;--> statement-breakpoint
CREATE TABLE `tombstones` (
	`environment_id` integer NOT NULL,
	`hash` text NOT NULL,
	`erasure_id` text NOT NULL,
	`blocks` integer NOT NULL,
	`day` integer,
	`day_events` integer DEFAULT 0 NOT NULL,
	`day_bytes` integer DEFAULT 0 NOT NULL,
	PRIMARY KEY(`environment_id`, `hash`),
	FOREIGN KEY (`environment_id`,`erasure_id`) REFERENCES `erasures`(`environment_id`,`id`) ON UPDATE no action ON DELETE no action
) STRICT, WITHOUT ROWID;
--> statement-breakpoint
CREATE INDEX `tombstones_erasure` ON `tombstones` (`environment_id`,`erasure_id`,`blocks`,`day`,`day_events`,`day_bytes`);--> statement-breakpoint
CREATE TABLE `members` (
	`account_id` integer NOT NULL,
	`member_number` integer NOT NULL,
	`environment_id` integer NOT NULL,
	`member_id` text NOT NULL,
	`is_erased` integer DEFAULT 0 NOT NULL,
	PRIMARY KEY(`account_id`, `member_number`),
	CONSTRAINT "members_number" CHECK("members"."member_number" > 0)
) STRICT, WITHOUT ROWID;
--> statement-breakpoint
CREATE UNIQUE INDEX `members_member_id` ON `members` (`environment_id`,`member_id`,`account_id`);--> statement-breakpoint
CREATE INDEX `members_erasing` ON `members` (`environment_id`) WHERE is_erased = 1;--> statement-breakpoint
CREATE TABLE `credit_pack_items` (
	`app_id` text NOT NULL,
	`pack_id` text NOT NULL,
	`position` integer NOT NULL,
	`item_number` integer NOT NULL,
	`id` text GENERATED ALWAYS AS (CASE item_number WHEN 0 THEN '' ELSE 'cpi_' || substr(pack_id, 5, 18) || printf('%04d', item_number) END) VIRTUAL NOT NULL,
	`amount_minor` integer NOT NULL,
	`unit` text NOT NULL,
	`matches` text DEFAULT '[]' NOT NULL,
	`priority` integer DEFAULT 100 NOT NULL,
	PRIMARY KEY(`app_id`, `pack_id`, `position`),
	FOREIGN KEY (`app_id`,`pack_id`) REFERENCES `credit_packs`(`app_id`,`id`) ON UPDATE no action ON DELETE no action,
	CONSTRAINT "credit_pack_items_amount_positive" CHECK("credit_pack_items"."amount_minor" > 0)
) STRICT, WITHOUT ROWID;
--> statement-breakpoint
CREATE TABLE `credit_packs` (
	`app_id` text NOT NULL,
	`id` text NOT NULL,
	`pack_number` integer NOT NULL,
	`last_item_number` integer DEFAULT 0 NOT NULL,
	`name` text NOT NULL,
	`name_key` text NOT NULL,
	`default_expiry_days` integer,
	`unit` text,
	`matches` text DEFAULT '[]' NOT NULL,
	`priority` integer DEFAULT 100 NOT NULL,
	`created_at_ms` integer NOT NULL,
	`archived_at_ms` integer,
	`version` integer DEFAULT 1 NOT NULL,
	PRIMARY KEY(`app_id`, `id`),
	FOREIGN KEY (`app_id`) REFERENCES `apps`(`id`) ON UPDATE no action ON DELETE no action
) STRICT, WITHOUT ROWID;
--> statement-breakpoint
CREATE UNIQUE INDEX `credit_packs_number` ON `credit_packs` (`app_id`,`pack_number`);--> statement-breakpoint
CREATE UNIQUE INDEX `credit_packs_name_key` ON `credit_packs` (`app_id`,`name_key`) WHERE archived_at_ms IS NULL;--> statement-breakpoint
CREATE TABLE `recurring_grants` (
	`account_id` integer NOT NULL,
	`ordinal` integer NOT NULL,
	`environment_id` integer NOT NULL,
	`id` text NOT NULL,
	`pack_id` text NOT NULL,
	`pack_name` text NOT NULL,
	`quantity` text,
	`every` text NOT NULL,
	`anchor_ms` integer NOT NULL,
	`time_zone` text NOT NULL,
	`anchor_local_ms` integer NOT NULL,
	`utc_offset_ms` integer NOT NULL,
	`ends_at_ms` integer,
	`rollover_periods` integer,
	`id_seed` text NOT NULL,
	`state` text NOT NULL,
	`reason` text,
	`last_n` integer NOT NULL,
	`final_n` integer,
	`next_at_ms` integer,
	`counted_balances` integer NOT NULL,
	`created_at_ms` integer NOT NULL,
	`request_hash` text NOT NULL,
	PRIMARY KEY(`account_id`, `ordinal`),
	CONSTRAINT "recurring_grants_every" CHECK("recurring_grants"."every" IN ('day', 'week', 'month', 'year')),
	CONSTRAINT "recurring_grants_state" CHECK("recurring_grants"."state" IN ('active', 'suspended', 'ended')),
	CONSTRAINT "recurring_grants_reason" CHECK(("recurring_grants"."reason" IS NOT NULL) = ("recurring_grants"."state" = 'suspended')),
	CONSTRAINT "recurring_grants_next" CHECK(("recurring_grants"."next_at_ms" IS NOT NULL) = ("recurring_grants"."state" = 'active')),
	CONSTRAINT "recurring_grants_rollover" CHECK("recurring_grants"."rollover_periods" IS NULL OR "recurring_grants"."rollover_periods" BETWEEN 0 AND 12)
) STRICT, WITHOUT ROWID;
--> statement-breakpoint
CREATE UNIQUE INDEX `recurring_grants_id` ON `recurring_grants` (`environment_id`,`id`);--> statement-breakpoint
CREATE INDEX `recurring_grants_pack` ON `recurring_grants` (`environment_id`,`pack_id`) WHERE state = 'active';--> statement-breakpoint
CREATE INDEX `recurring_grants_suspended` ON `recurring_grants` (`environment_id`,`id`) WHERE state = 'suspended';--> statement-breakpoint
CREATE INDEX `recurring_grants_due` ON `recurring_grants` (`account_id`,`next_at_ms`) WHERE next_at_ms IS NOT NULL;--> statement-breakpoint
CREATE TABLE `money_days` (
	`environment_id` integer NOT NULL,
	`day` integer NOT NULL,
	`currency` text NOT NULL,
	`captured` integer NOT NULL,
	`refunded` integer NOT NULL,
	`withheld` integer NOT NULL,
	PRIMARY KEY(`environment_id`, `day`, `currency`)
) STRICT, WITHOUT ROWID;
--> statement-breakpoint
CREATE TABLE `payer_users` (
	`environment_id` integer NOT NULL,
	`user_id` text NOT NULL,
	`customer` text NOT NULL,
	PRIMARY KEY(`environment_id`, `user_id`, `customer`)
) STRICT, WITHOUT ROWID;
--> statement-breakpoint
CREATE INDEX `payer_users_customer` ON `payer_users` (`environment_id`,`customer`);--> statement-breakpoint
CREATE TABLE `payment_events` (
	`environment_id` integer NOT NULL,
	`payment_id` text NOT NULL,
	`event_id` text NOT NULL,
	`type` text NOT NULL,
	`at_seconds` integer NOT NULL,
	`outcome` text NOT NULL,
	PRIMARY KEY(`environment_id`, `payment_id`, `event_id`)
) STRICT, WITHOUT ROWID;
--> statement-breakpoint
CREATE TABLE `payment_facts` (
	`environment_id` integer NOT NULL,
	`payment_id` text NOT NULL,
	`kind` text NOT NULL,
	`id` text NOT NULL,
	`at_seconds` integer NOT NULL,
	`user_id` text,
	`data` text NOT NULL,
	PRIMARY KEY(`environment_id`, `payment_id`, `kind`, `id`)
) STRICT;
--> statement-breakpoint
CREATE INDEX `payment_facts_user` ON `payment_facts` (`environment_id`,`user_id`) WHERE user_id IS NOT NULL;--> statement-breakpoint
CREATE TABLE `payment_grants` (
	`balance_id` text PRIMARY KEY NOT NULL,
	`environment_id` integer NOT NULL,
	`payment_id` text NOT NULL,
	`account_id` integer NOT NULL,
	`due_minor` integer NOT NULL,
	`clawed_back_minor` integer NOT NULL,
	`operator_steps` integer DEFAULT 0 NOT NULL,
	`is_revoked` integer NOT NULL,
	`is_surplus` integer NOT NULL,
	CONSTRAINT "payment_grants_taken" CHECK("payment_grants"."clawed_back_minor" >= 0 AND "payment_grants"."due_minor" >= 0),
	CONSTRAINT "payment_grants_flags" CHECK("payment_grants"."is_revoked" IN (0, 1) AND "payment_grants"."is_surplus" IN (0, 1))
) STRICT, WITHOUT ROWID;
--> statement-breakpoint
CREATE INDEX `payment_grants_payment` ON `payment_grants` (`environment_id`,`payment_id`);--> statement-breakpoint
CREATE TABLE `payment_names` (
	`environment_id` integer NOT NULL,
	`name` text NOT NULL,
	`payment_id` text NOT NULL,
	PRIMARY KEY(`environment_id`, `name`)
) STRICT, WITHOUT ROWID;
--> statement-breakpoint
CREATE INDEX `payment_names_payment` ON `payment_names` (`environment_id`,`payment_id`);--> statement-breakpoint
CREATE TABLE `payments` (
	`environment_id` integer NOT NULL,
	`id` text NOT NULL,
	`status` text NOT NULL,
	`reason` text,
	`customer` text,
	`settled_by` text,
	`notify_at_ms` integer,
	`version` integer DEFAULT 1 NOT NULL,
	`written_by` text NOT NULL,
	`currency` text,
	`captured` integer DEFAULT 0 NOT NULL,
	`refunded` integer DEFAULT 0 NOT NULL,
	`withheld` integer DEFAULT 0 NOT NULL,
	`created_at_ms` integer NOT NULL,
	PRIMARY KEY(`environment_id`, `id`),
	CONSTRAINT "payments_status" CHECK("payments"."status" = 'unmatched' AND "payments"."reason" IS NOT NULL OR "payments"."status" = 'granted' AND "payments"."reason" = 'carry' OR "payments"."status" IN ('granted', 'waiting') AND ("payments"."reason" IS NULL OR "payments"."status" = 'granted' AND "payments"."reason" = 'covered_by_credit') AND "payments"."notify_at_ms" IS NULL)
) STRICT, WITHOUT ROWID;
--> statement-breakpoint
CREATE INDEX `payments_created` ON `payments` (`environment_id`,`created_at_ms`,`id`);--> statement-breakpoint
CREATE INDEX `payments_status` ON `payments` (`environment_id`,`status`,`created_at_ms`,`id`);--> statement-breakpoint
CREATE INDEX `payments_refunded` ON `payments` (`environment_id`,`created_at_ms`,`id`) WHERE refunded > 0;--> statement-breakpoint
CREATE INDEX `payments_disputed` ON `payments` (`environment_id`,`created_at_ms`,`id`) WHERE withheld > 0;--> statement-breakpoint
CREATE INDEX `payments_settled` ON `payments` (`environment_id`,`created_at_ms`,`id`) WHERE settled_by IS NOT NULL;--> statement-breakpoint
CREATE INDEX `payments_customer` ON `payments` (`environment_id`,`customer`) WHERE customer IS NOT NULL;--> statement-breakpoint
CREATE INDEX `payments_notify` ON `payments` (`notify_at_ms`) WHERE notify_at_ms IS NOT NULL;--> statement-breakpoint
CREATE TABLE `stripe_customers` (
	`environment_id` integer NOT NULL,
	`customer` text NOT NULL,
	`user_id` text NOT NULL,
	`at_seconds` integer NOT NULL,
	PRIMARY KEY(`environment_id`, `customer`)
) STRICT, WITHOUT ROWID;
--> statement-breakpoint
CREATE INDEX `stripe_customers_user` ON `stripe_customers` (`environment_id`,`user_id`);--> statement-breakpoint
CREATE TABLE `stripe_log` (
	`environment_id` integer NOT NULL,
	`event_id` text NOT NULL,
	`type` text NOT NULL,
	`at_ms` integer NOT NULL,
	`ordinal` integer NOT NULL,
	`outcome` text NOT NULL,
	`reason` text,
	`object_id` text,
	`requested_pack` text,
	`requested_user` text,
	`hint` text,
	`payment_key` text,
	PRIMARY KEY(`environment_id`, `event_id`),
	CONSTRAINT "stripe_log_outcome" CHECK("stripe_log"."outcome" = 'granted' OR "stripe_log"."outcome" = 'taken' OR "stripe_log"."outcome" = 'restored' OR "stripe_log"."outcome" = 'remembered' OR "stripe_log"."outcome" IN ('unmatched', 'ignored') AND "stripe_log"."reason" IS NOT NULL),
	CONSTRAINT "stripe_log_user_of_ignored" CHECK("stripe_log"."requested_user" IS NULL OR "stripe_log"."outcome" <> 'ignored')
) STRICT, WITHOUT ROWID;
--> statement-breakpoint
CREATE INDEX `stripe_log_at` ON `stripe_log` (`environment_id`,`outcome`,`at_ms`);--> statement-breakpoint
CREATE INDEX `stripe_log_user` ON `stripe_log` (`environment_id`,`requested_user`) WHERE requested_user IS NOT NULL;--> statement-breakpoint
CREATE TABLE `stripe_payers` (
	`environment_id` integer NOT NULL,
	`customer` text NOT NULL,
	`id` text NOT NULL,
	`version` integer NOT NULL,
	`carries` text NOT NULL,
	`prices` text NOT NULL,
	`trials` text NOT NULL,
	`coupon_until` integer NOT NULL,
	PRIMARY KEY(`environment_id`, `customer`)
) STRICT, WITHOUT ROWID;
--> statement-breakpoint
CREATE TABLE `stripe_settings` (
	`environment_id` integer PRIMARY KEY NOT NULL,
	`setting` text,
	`rejected_at_ms` integer,
	`rejected_reason` text
) STRICT;
--> statement-breakpoint
CREATE TABLE `analytics_events` (
	`environment_id` integer NOT NULL,
	`distinct_id` text NOT NULL,
	`seq` integer NOT NULL,
	`uuid` text NOT NULL,
	`event` text NOT NULL,
	`timestamp_ms` integer NOT NULL,
	`received_at_ms` integer NOT NULL,
	`ahead_ms` integer,
	`is_verified` integer DEFAULT false NOT NULL,
	`properties` text NOT NULL,
	`replaced_by` integer,
	`replaced_at_ms` integer,
	PRIMARY KEY(`environment_id`, `distinct_id`, `seq`),
	CONSTRAINT "analytics_events_replaced_whole" CHECK(("analytics_events"."replaced_by" IS NULL) = ("analytics_events"."replaced_at_ms" IS NULL))
) STRICT;
--> statement-breakpoint
CREATE UNIQUE INDEX `analytics_events_uuid` ON `analytics_events` (`environment_id`,`uuid`,`distinct_id`,`is_verified`);--> statement-breakpoint
CREATE INDEX `analytics_events_replaced` ON `analytics_events` (`replaced_at_ms`) WHERE replaced_at_ms IS NOT NULL;--> statement-breakpoint
CREATE TABLE `consent_log` (
	`environment_id` integer NOT NULL,
	`distinct_id` text NOT NULL,
	`seq` integer NOT NULL,
	`id` text NOT NULL,
	`purpose` text NOT NULL,
	`decision` text NOT NULL,
	`method` text,
	`notice_version` text,
	`source` text,
	`gpc` integer,
	`is_device` integer DEFAULT false NOT NULL,
	`day_place` integer,
	`occurred_at_ms` integer NOT NULL,
	`received_at_ms` integer NOT NULL,
	PRIMARY KEY(`environment_id`, `distinct_id`, `seq`),
	CONSTRAINT "consent_log_decision" CHECK("consent_log"."decision" IN ('granted', 'denied', 'withdrawn'))
) STRICT, WITHOUT ROWID;
--> statement-breakpoint
CREATE INDEX `consent_log_of_user` ON `consent_log` (`environment_id`,`distinct_id`) WHERE is_device = 0;--> statement-breakpoint
CREATE INDEX `consent_log_public` ON `consent_log` (`environment_id`,`distinct_id`,`seq`) WHERE day_place IS NOT NULL;--> statement-breakpoint
CREATE TABLE `distinct_ids` (
	`environment_id` integer NOT NULL,
	`distinct_id` text NOT NULL,
	`first_seen_at_ms` integer NOT NULL,
	`last_seen_at_ms` integer NOT NULL,
	`event_count` integer DEFAULT 0 NOT NULL,
	`deleted_count` integer DEFAULT 0 NOT NULL,
	`replaced_count` integer DEFAULT 0 NOT NULL,
	`event_bytes` integer DEFAULT 0 NOT NULL,
	`day` integer,
	`day_events` integer DEFAULT 0 NOT NULL,
	`day_bytes` integer DEFAULT 0 NOT NULL,
	`is_device_form` integer NOT NULL,
	`is_sender` integer DEFAULT false NOT NULL,
	`is_identified` integer DEFAULT false NOT NULL,
	`is_user` integer DEFAULT false NOT NULL,
	`is_verified_user` integer DEFAULT false NOT NULL,
	`claimed_by` text,
	`claimed_via` text,
	`claimed_at_ms` integer,
	`claim_is_verified` integer DEFAULT false NOT NULL,
	`claims_made` integer DEFAULT 0 NOT NULL,
	`claims_day` integer,
	`day_claims` integer DEFAULT 0 NOT NULL,
	`claims_over_limit` integer DEFAULT 0 NOT NULL,
	`claim_version` integer DEFAULT 0 NOT NULL,
	`last_active_day` integer,
	PRIMARY KEY(`environment_id`, `distinct_id`),
	CONSTRAINT "distinct_ids_deleted_count" CHECK("distinct_ids"."deleted_count" BETWEEN 0 AND "distinct_ids"."event_count"),
	CONSTRAINT "distinct_ids_replaced_count" CHECK("distinct_ids"."replaced_count" BETWEEN 0 AND "distinct_ids"."event_count" - "distinct_ids"."deleted_count"),
	CONSTRAINT "distinct_ids_verified_user" CHECK("distinct_ids"."is_verified_user" <= "distinct_ids"."is_user"),
	CONSTRAINT "distinct_ids_claims_made" CHECK("distinct_ids"."claims_made" <= 1000 AND "distinct_ids"."day_claims" <= 100),
	CONSTRAINT "distinct_ids_claimed_by_another" CHECK("distinct_ids"."claimed_by" <> "distinct_ids"."distinct_id"),
	CONSTRAINT "distinct_ids_claim_whole" CHECK(iif("distinct_ids"."claimed_by" IS NULL, "distinct_ids"."claimed_via" IS NULL AND "distinct_ids"."claimed_at_ms" IS NULL AND "distinct_ids"."claim_is_verified" = 0, "distinct_ids"."claimed_via" IN ('identify', 'alias') AND "distinct_ids"."claimed_at_ms" IS NOT NULL))
) STRICT, WITHOUT ROWID;
--> statement-breakpoint
CREATE INDEX `distinct_ids_active` ON `distinct_ids` (`environment_id`,`last_active_day`,`distinct_id`) WHERE last_active_day IS NOT NULL;--> statement-breakpoint
CREATE INDEX `distinct_ids_claimed_by` ON `distinct_ids` (`environment_id`,`claimed_by`,claim_is_verified DESC) WHERE claimed_by IS NOT NULL;--> statement-breakpoint
CREATE TABLE `export_audit` (
	`environment_id` integer NOT NULL,
	`distinct_id` text NOT NULL,
	`seq` integer NOT NULL,
	`id` text NOT NULL,
	`action` text NOT NULL,
	`token_hash` text NOT NULL,
	`key_id` text,
	`occurred_at_ms` integer NOT NULL,
	`expires_at_ms` integer,
	PRIMARY KEY(`environment_id`, `distinct_id`, `seq`),
	CONSTRAINT "export_audit_action" CHECK("export_audit"."action" IN ('minted', 'opened', 'completed', 'failed'))
) STRICT, WITHOUT ROWID;
--> statement-breakpoint
CREATE TABLE `id_properties` (
	`environment_id` integer NOT NULL,
	`distinct_id` text NOT NULL,
	`is_verified` integer DEFAULT false NOT NULL,
	`properties` text NOT NULL,
	`version` integer DEFAULT 1 NOT NULL,
	PRIMARY KEY(`environment_id`, `distinct_id`, `is_verified`)
) STRICT;
--> statement-breakpoint
CREATE INDEX `id_properties_email` ON `id_properties` (`environment_id`,lower(CASE WHEN json_valid(properties) THEN properties ->> '$.email' END),`is_verified`) WHERE length(CASE WHEN json_valid(properties) THEN properties ->> '$.email' END) <= 320;--> statement-breakpoint
CREATE TABLE `link_ends` (
	`environment_id` integer NOT NULL,
	`id_hash` text NOT NULL,
	`ended_at_ms` integer NOT NULL,
	PRIMARY KEY(`environment_id`, `id_hash`, `ended_at_ms`)
) STRICT, WITHOUT ROWID;
--> statement-breakpoint
CREATE INDEX `link_ends_ended` ON `link_ends` (`ended_at_ms`);--> statement-breakpoint
CREATE TABLE `user_notes` (
	`environment_id` integer NOT NULL,
	`user_id` text NOT NULL,
	`id` text NOT NULL,
	`text` text NOT NULL,
	`actor` text NOT NULL,
	`created_at_ms` integer NOT NULL,
	PRIMARY KEY(`environment_id`, `user_id`, `id`)
) STRICT, WITHOUT ROWID;
--> statement-breakpoint
CREATE TABLE `price_lists` (
	`environment_id` integer NOT NULL,
	`version` integer NOT NULL,
	`effective_at_ms` integer NOT NULL,
	`created_at_ms` integer NOT NULL,
	`note` text,
	`rules` text NOT NULL,
	`costs` text NOT NULL,
	`audit_entry_id` text NOT NULL,
	`is_deleted` integer DEFAULT false NOT NULL,
	PRIMARY KEY(`environment_id`, `version`),
	CONSTRAINT "price_lists_version" CHECK("price_lists"."version" BETWEEN 1 AND 10000)
) STRICT;
--> statement-breakpoint
CREATE INDEX `price_lists_effective` ON `price_lists` (`environment_id`,`effective_at_ms`,`version`) WHERE is_deleted = 0;--> statement-breakpoint
CREATE INDEX `price_lists_audit_entry` ON `price_lists` (`environment_id`,`audit_entry_id`);--> statement-breakpoint
CREATE TABLE `statement_lines` (
	`statement_id` text NOT NULL,
	`unit` text NOT NULL,
	`pack_id` text NOT NULL,
	`pack_name` text NOT NULL,
	`amounts` text NOT NULL,
	PRIMARY KEY(`statement_id`, `unit`, `pack_id`)
) STRICT, WITHOUT ROWID;
--> statement-breakpoint
CREATE TABLE `statements` (
	`environment_id` integer NOT NULL,
	`month` text NOT NULL,
	`id` text NOT NULL,
	`after_account_id` integer NOT NULL,
	`requested_at_ms` integer NOT NULL,
	`completed_at_ms` integer,
	PRIMARY KEY(`environment_id`, `month`),
	CONSTRAINT "statements_month" CHECK("statements"."month" GLOB '[0-9][0-9][0-9][0-9]-[0-9][0-9]')
) STRICT, WITHOUT ROWID;
--> statement-breakpoint
CREATE UNIQUE INDEX `statements_id` ON `statements` (`id`);--> statement-breakpoint
CREATE INDEX `statements_running` ON `statements` (`environment_id`,`month`) WHERE completed_at_ms IS NULL;--> statement-breakpoint
CREATE TABLE `admin_audit` (
	`app_id` text NOT NULL,
	`seq` integer NOT NULL,
	`id` text NOT NULL,
	`at_ms` integer NOT NULL,
	`actor` text NOT NULL,
	`action` text NOT NULL,
	`target` text NOT NULL,
	`details` text NOT NULL,
	`account_id` integer,
	PRIMARY KEY(`app_id`, `seq`)
) STRICT, WITHOUT ROWID;
--> statement-breakpoint
CREATE UNIQUE INDEX `admin_audit_id` ON `admin_audit` (`app_id`,`id`);--> statement-breakpoint
CREATE INDEX `admin_audit_target` ON `admin_audit` (`app_id`,`target`,`seq`);--> statement-breakpoint
CREATE INDEX `admin_audit_account` ON `admin_audit` (`account_id`,`seq`) WHERE account_id IS NOT NULL;--> statement-breakpoint
CREATE TABLE `admin_keys` (
	`hash` text PRIMARY KEY NOT NULL,
	`id` text NOT NULL,
	`hint` text NOT NULL,
	`name` text NOT NULL,
	`scopes` text NOT NULL,
	`apps` text,
	`modes` text,
	`created_at_ms` integer NOT NULL,
	`revoked_at_ms` integer
) STRICT, WITHOUT ROWID;
--> statement-breakpoint
CREATE UNIQUE INDEX `admin_keys_id` ON `admin_keys` (`id`);--> statement-breakpoint
CREATE TABLE `api_keys` (
	`hash` text PRIMARY KEY NOT NULL,
	`id` text NOT NULL,
	`environment_id` integer NOT NULL,
	`kind` text NOT NULL,
	`hint` text NOT NULL,
	`name` text,
	`created_at_ms` integer NOT NULL,
	`revoked_at_ms` integer,
	`last_used_day` integer,
	FOREIGN KEY (`environment_id`) REFERENCES `environments`(`id`) ON UPDATE no action ON DELETE no action,
	CONSTRAINT "api_keys_kind" CHECK("api_keys"."kind" IN ('secret', 'publishable', 'relay'))
) STRICT, WITHOUT ROWID;
--> statement-breakpoint
CREATE UNIQUE INDEX `api_keys_id` ON `api_keys` (`environment_id`,`id`);--> statement-breakpoint
CREATE INDEX `api_keys_created` ON `api_keys` (`environment_id`,`created_at_ms`,`id`);--> statement-breakpoint
CREATE TABLE `apps` (
	`id` text PRIMARY KEY NOT NULL,
	`name` text NOT NULL,
	`created_at_ms` integer NOT NULL
) STRICT, WITHOUT ROWID;
--> statement-breakpoint
CREATE TABLE `dashboard_sessions` (
	`id` text PRIMARY KEY NOT NULL,
	`actor` text NOT NULL,
	`ends_at_ms` integer NOT NULL
) STRICT, WITHOUT ROWID;
--> statement-breakpoint
CREATE INDEX `dashboard_sessions_ends` ON `dashboard_sessions` (`ends_at_ms`);--> statement-breakpoint
CREATE TABLE `environments` (
	`id` integer PRIMARY KEY NOT NULL,
	`app_id` text NOT NULL,
	`mode` text NOT NULL,
	`authors` text DEFAULT ' ' NOT NULL,
	`end_user_auth` text,
	`analytics_limits` text,
	`settings_snapshot` text,
	`unit_names` text,
	`test_balance_count` integer DEFAULT 0 NOT NULL,
	`test_balance_quota` integer DEFAULT 0 NOT NULL,
	FOREIGN KEY (`app_id`) REFERENCES `apps`(`id`) ON UPDATE no action ON DELETE no action,
	CONSTRAINT "environments_mode" CHECK("environments"."mode" IN ('live', 'test')),
	CONSTRAINT "environments_test_quota" CHECK("environments"."test_balance_count" <= "environments"."test_balance_quota"),
	CONSTRAINT "environments_clock" CHECK(settings_snapshot ->> '$.clock' IS NULL OR ("environments"."mode" = 'test' AND (settings_snapshot ->> '$.clock.aheadMs' BETWEEN 0 AND 315619200000 AND settings_snapshot ->> '$.clock.setMs' IS NOT NULL AND coalesce(settings_snapshot ->> '$.clock.atMs', 0) <= settings_snapshot ->> '$.clock.setMs') IS TRUE))
) STRICT;
--> statement-breakpoint
CREATE UNIQUE INDEX `environments_app_mode` ON `environments` (`app_id`,`mode`);--> statement-breakpoint
CREATE INDEX `environments_clock` ON `environments` (`id`) WHERE settings_snapshot ->> '$.clock' IS NOT NULL;--> statement-breakpoint
CREATE TABLE `large_properties` (
	`account_id` integer NOT NULL,
	`seq` integer NOT NULL,
	`properties` text NOT NULL,
	PRIMARY KEY(`account_id`, `seq`)
) STRICT;
--> statement-breakpoint
CREATE TABLE `reservations` (
	`account_id` integer NOT NULL,
	`reservation_number` integer NOT NULL,
	`environment_id` integer NOT NULL,
	`id` text NOT NULL,
	`state` text NOT NULL,
	`settled_seq` integer,
	`created_at_seq` integer DEFAULT 0 NOT NULL,
	`leg_count` integer GENERATED ALWAYS AS (json_array_length(legs)) STORED,
	`event` text NOT NULL,
	`model` text,
	`quantities` text NOT NULL,
	`meters` text,
	`price_version` integer,
	`cost_minor` integer,
	`legs` text NOT NULL,
	`counted` text,
	`member_number` integer,
	`is_charged` integer DEFAULT 0 NOT NULL,
	`on_expiry` text GENERATED ALWAYS AS (iif(is_charged, 'charge', 'return')) VIRTUAL NOT NULL,
	`created_at_ms` integer NOT NULL,
	`expires_at_ms` integer NOT NULL,
	`settled_at_ms` integer,
	`settled_event_seq` integer,
	`request_hash` text NOT NULL,
	PRIMARY KEY(`account_id`, `reservation_number`),
	CONSTRAINT "reservations_member_known" CHECK("reservations"."member_number" > 0),
	CONSTRAINT "reservations_on_expiry" CHECK("reservations"."is_charged" IN (0, 1)),
	CONSTRAINT "reservations_state" CHECK("reservations"."state" IN ('open', 'committed', 'released', 'expired'))
) STRICT, WITHOUT ROWID;
--> statement-breakpoint
CREATE UNIQUE INDEX `reservations_id` ON `reservations` (`environment_id`,`id`);--> statement-breakpoint
CREATE INDEX `reservations_open` ON `reservations` (`account_id`,`expires_at_ms`,`reservation_number`) WHERE state = 'open';--> statement-breakpoint
CREATE INDEX `reservations_committed` ON `reservations` (`account_id`,`reservation_number`) WHERE state = 'committed';--> statement-breakpoint
CREATE INDEX `reservations_released` ON `reservations` (`account_id`,`reservation_number`) WHERE state = 'released';--> statement-breakpoint
CREATE INDEX `reservations_expired` ON `reservations` (`account_id`,`reservation_number`) WHERE state = 'expired';--> statement-breakpoint
CREATE INDEX `reservations_member` ON `reservations` (`account_id`,`member_number`) WHERE member_number IS NOT NULL;--> statement-breakpoint
CREATE TABLE `usage_counters` (
	`environment_id` integer NOT NULL,
	`limit_id` text NOT NULL,
	`account_id` integer NOT NULL,
	`member_number` integer DEFAULT 0 NOT NULL,
	`end_ms` integer DEFAULT 0 NOT NULL,
	`used_minor` integer DEFAULT 0 NOT NULL,
	`reached_count` integer DEFAULT 0 NOT NULL,
	`has_override` integer DEFAULT false NOT NULL,
	`override_minor` integer,
	`amount_minor` integer DEFAULT 0 NOT NULL,
	`is_enforced` integer DEFAULT false NOT NULL,
	PRIMARY KEY(`environment_id`, `limit_id`, `account_id`, `member_number`),
	FOREIGN KEY (`environment_id`,`limit_id`) REFERENCES `usage_limits`(`environment_id`,`id`) ON UPDATE no action ON DELETE no action,
	CONSTRAINT "usage_counters_used" CHECK("usage_counters"."used_minor" BETWEEN 0 AND 9007199254740991),
	CONSTRAINT "usage_counters_override" CHECK(iif("usage_counters"."has_override", coalesce("usage_counters"."override_minor", 0) >= 0, "usage_counters"."override_minor" IS NULL))
) STRICT, WITHOUT ROWID;
--> statement-breakpoint
CREATE TABLE `usage_days` (
	`environment_id` integer NOT NULL,
	`day` integer NOT NULL,
	`account_id` integer NOT NULL,
	`event` text NOT NULL,
	`model` text NOT NULL,
	`member_number` integer DEFAULT 0 NOT NULL,
	`events` integer NOT NULL,
	`count_high` integer NOT NULL,
	`count_low` integer NOT NULL,
	`tokens_high` integer NOT NULL,
	`tokens_low` integer NOT NULL,
	`seconds_high` integer NOT NULL,
	`seconds_low` integer NOT NULL,
	`cents_high` integer NOT NULL,
	`cents_low` integer NOT NULL,
	`cost_high` integer DEFAULT 0 NOT NULL,
	`cost_low` integer DEFAULT 0 NOT NULL,
	`debited_high` integer DEFAULT 0 NOT NULL,
	`debited_low` integer DEFAULT 0 NOT NULL,
	`without_cost` integer DEFAULT 0 NOT NULL,
	`meters` text,
	PRIMARY KEY(`environment_id`, `day`, `account_id`, `event`, `model`, `member_number`)
) STRICT, WITHOUT ROWID;
--> statement-breakpoint
CREATE INDEX `usage_days_member` ON `usage_days` (`account_id`) WHERE member_number > 0;--> statement-breakpoint
CREATE TABLE `usage_events` (
	`account_id` integer NOT NULL,
	`seq` integer NOT NULL,
	`environment_id` integer NOT NULL,
	`event_id` text NOT NULL,
	`event` text NOT NULL,
	`model` text,
	`count_minor` integer,
	`tokens_minor` integer,
	`seconds_minor` integer,
	`cents_minor` integer,
	`meters` text,
	`price_version` integer,
	`cost_minor` integer,
	`properties` text,
	`large_properties_bytes` integer,
	`occurred_at_ms` integer NOT NULL,
	`received_after_ms` integer NOT NULL,
	`received_at_ms` integer GENERATED ALWAYS AS (occurred_at_ms + received_after_ms) VIRTUAL NOT NULL,
	`reservation_id` text,
	`request_hash` text NOT NULL,
	`debits` text NOT NULL,
	`uncovered` text,
	`counted` text,
	`member_number` integer,
	PRIMARY KEY(`account_id`, `seq`),
	CONSTRAINT "usage_events_member_known" CHECK("usage_events"."member_number" > 0),
	CONSTRAINT "usage_events_properties_once" CHECK("usage_events"."properties" IS NULL OR "usage_events"."large_properties_bytes" IS NULL)
) STRICT, WITHOUT ROWID;
--> statement-breakpoint
CREATE UNIQUE INDEX `usage_events_event_id` ON `usage_events` (`environment_id`,`event_id`);--> statement-breakpoint
CREATE INDEX `usage_events_occurred` ON `usage_events` (`account_id`,`occurred_at_ms`,`seq`);--> statement-breakpoint
CREATE INDEX `usage_events_member` ON `usage_events` (`account_id`,`member_number`,`occurred_at_ms`,`seq`) WHERE member_number IS NOT NULL;--> statement-breakpoint
CREATE TABLE `usage_limits` (
	`environment_id` integer NOT NULL,
	`id` text NOT NULL,
	`ordinal` integer NOT NULL,
	`name` text NOT NULL,
	`name_key` text NOT NULL,
	`matches` text NOT NULL,
	`unit` text NOT NULL,
	`amount_minor` integer NOT NULL,
	`every` text NOT NULL,
	`per` text DEFAULT 'user' NOT NULL,
	`time_zone` text,
	`utc_offset_ms` integer NOT NULL,
	`created_at_ms` integer NOT NULL,
	`is_deleted` integer DEFAULT false NOT NULL,
	PRIMARY KEY(`environment_id`, `id`),
	CONSTRAINT "usage_limits_amount" CHECK("usage_limits"."amount_minor" >= 0),
	CONSTRAINT "usage_limits_per" CHECK("usage_limits"."per" IN ('user', 'member')),
	CONSTRAINT "usage_limits_unit" CHECK("usage_limits"."unit" IN ('count', 'tokens', 'seconds', 'cents')),
	CONSTRAINT "usage_limits_every" CHECK("usage_limits"."every" IN ('minute', 'hour', 'day', 'week', 'month')),
	CONSTRAINT "usage_limits_time_zone" CHECK(("usage_limits"."time_zone" IS NULL) = ("usage_limits"."every" IN ('minute', 'hour')))
) STRICT, WITHOUT ROWID;
--> statement-breakpoint
CREATE UNIQUE INDEX `usage_limits_name_key` ON `usage_limits` (`environment_id`,`name_key`) WHERE is_deleted = 0;--> statement-breakpoint
CREATE INDEX `usage_limits_zone` ON `usage_limits` (`time_zone`,`utc_offset_ms`) WHERE is_deleted = 0 AND time_zone <> 'UTC';--> statement-breakpoint
CREATE TABLE `usage_to_sum` (
	`environment_id` integer NOT NULL,
	`account_id` integer NOT NULL,
	`seq` integer NOT NULL,
	`received_at_ms` integer NOT NULL,
	PRIMARY KEY(`environment_id`, `account_id`)
) STRICT, WITHOUT ROWID;
--> statement-breakpoint
CREATE TABLE `usage_totals` (
	`environment_id` integer NOT NULL,
	`day` integer NOT NULL,
	`event` text NOT NULL,
	`model` text NOT NULL,
	`events` integer NOT NULL,
	`count_high` integer NOT NULL,
	`count_low` integer NOT NULL,
	`tokens_high` integer NOT NULL,
	`tokens_low` integer NOT NULL,
	`seconds_high` integer NOT NULL,
	`seconds_low` integer NOT NULL,
	`cents_high` integer NOT NULL,
	`cents_low` integer NOT NULL,
	`cost_high` integer DEFAULT 0 NOT NULL,
	`cost_low` integer DEFAULT 0 NOT NULL,
	`debited_high` integer DEFAULT 0 NOT NULL,
	`debited_low` integer DEFAULT 0 NOT NULL,
	`without_cost` integer DEFAULT 0 NOT NULL,
	`meters` text,
	PRIMARY KEY(`environment_id`, `day`, `event`, `model`)
) STRICT, WITHOUT ROWID;
--> statement-breakpoint
CREATE TABLE `alert_states` (
	`environment_id` integer NOT NULL,
	`alert_id` text NOT NULL,
	`account_id` integer NOT NULL,
	PRIMARY KEY(`environment_id`, `alert_id`, `account_id`)
) STRICT, WITHOUT ROWID;
--> statement-breakpoint
CREATE TABLE `alerts` (
	`environment_id` integer NOT NULL,
	`id` text NOT NULL,
	`name` text NOT NULL,
	`unit` text NOT NULL,
	`event` text,
	`amount_minor` integer,
	`percent_thousandths` integer,
	`created_at_ms` integer NOT NULL,
	PRIMARY KEY(`environment_id`, `id`),
	CONSTRAINT "alerts_below" CHECK(iif("alerts"."amount_minor" IS NULL, "alerts"."percent_thousandths" BETWEEN 1 AND 100000, "alerts"."amount_minor" > 0 AND "alerts"."percent_thousandths" IS NULL) IS TRUE)
) STRICT, WITHOUT ROWID;
--> statement-breakpoint
CREATE TABLE `balance_expiries` (
	`environment_id` integer NOT NULL,
	`expires_at_ms` integer NOT NULL,
	`account_id` integer NOT NULL,
	`grant_seq` integer NOT NULL,
	PRIMARY KEY(`environment_id`, `expires_at_ms`, `account_id`, `grant_seq`)
) STRICT, WITHOUT ROWID;
--> statement-breakpoint
CREATE TABLE `expiry_notices` (
	`environment_id` integer NOT NULL,
	`days` integer NOT NULL,
	`since_ms` integer NOT NULL,
	`done_expires_at_ms` integer DEFAULT 0 NOT NULL,
	`done_account_id` integer DEFAULT 0 NOT NULL,
	`done_grant_seq` integer DEFAULT 0 NOT NULL,
	PRIMARY KEY(`environment_id`, `days`)
) STRICT, WITHOUT ROWID;
--> statement-breakpoint
CREATE TABLE `webhook_deliveries` (
	`endpoint_id` text NOT NULL,
	`message_id` text NOT NULL,
	`status` text NOT NULL,
	`tries` integer DEFAULT 0 NOT NULL,
	`next_attempt_at_ms` integer NOT NULL,
	`due_at_ms` integer NOT NULL,
	`attempts` text DEFAULT '[]' NOT NULL,
	PRIMARY KEY(`endpoint_id`, `message_id`),
	CONSTRAINT "webhook_deliveries_status" CHECK("webhook_deliveries"."status" IN ('pending', 'delivered', 'failed'))
) STRICT, WITHOUT ROWID;
--> statement-breakpoint
CREATE INDEX `webhook_deliveries_due` ON `webhook_deliveries` (`endpoint_id`,`due_at_ms`) WHERE status = 'pending';--> statement-breakpoint
CREATE TABLE `webhook_endpoints` (
	`id` text PRIMARY KEY NOT NULL,
	`environment_id` integer NOT NULL,
	`url` text NOT NULL,
	`types` text,
	`wants_exports` integer DEFAULT false NOT NULL,
	`description` text,
	`is_enabled` integer DEFAULT true NOT NULL,
	`secret` text NOT NULL,
	`previous_secret` text,
	`previous_until_ms` integer,
	`failing_since_ms` integer,
	`off_from_ms` integer,
	`off_until_ms` integer,
	`created_at_ms` integer NOT NULL,
	FOREIGN KEY (`environment_id`) REFERENCES `environments`(`id`) ON UPDATE no action ON DELETE no action
) STRICT, WITHOUT ROWID;
--> statement-breakpoint
CREATE INDEX `webhook_endpoints_environment` ON `webhook_endpoints` (`environment_id`,`created_at_ms`,`id`);--> statement-breakpoint
CREATE TABLE `webhook_messages` (
	`id` text PRIMARY KEY NOT NULL,
	`environment_id` integer NOT NULL,
	`type` text NOT NULL,
	`at_ms` integer NOT NULL,
	`subject` text,
	`data` text NOT NULL
) STRICT, WITHOUT ROWID;
--> statement-breakpoint
CREATE INDEX `webhook_messages_subject` ON `webhook_messages` (`environment_id`,`subject`) WHERE subject IS NOT NULL;--> statement-breakpoint
CREATE INDEX `webhook_messages_member` ON `webhook_messages` (`environment_id`,data ->> 'memberId') WHERE data ->> 'memberId' IS NOT NULL;