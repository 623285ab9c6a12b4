import { applyD1Migrations } from "cloudflare:test";
import { env } from "cloudflare:workers";
import { enforceD1Limits } from "./d1-limits.ts";
import { rememberEarlierRows } from "./invariants.ts";

enforceD1Limits(env.DB);

/** The files of one workerd share its databases. */
const workerd = globalThis as { hasMigrated?: true };

for (const db of [env.DB, env.SPARE]) {
  if (workerd.hasMigrated !== true) await applyD1Migrations(db, env.TEST_MIGRATIONS);
  // Some tests use negative ids of environments. This row makes SQLite continue from a positive id.
  await db.batch([
    db.prepare("INSERT OR IGNORE INTO apps (id, name, created_at_ms) VALUES ('app_first', 'First', 0)"),
    db.prepare(
      `INSERT INTO environments (id, app_id, mode) SELECT 1, 'app_first', 'live'
       WHERE NOT EXISTS (SELECT 1 FROM environments WHERE id > 0)`,
    ),
    // Open reservations of earlier files would become due, and may be too many for one run of the cron.
    db.prepare("UPDATE reservations SET expires_at_ms = 9000000000000000 WHERE state = 'open'"),
    db.prepare("DELETE FROM balance_expiries"),
    // The cron would report the payments of earlier files, and send their messages.
    db.prepare("UPDATE payments SET notify_at_ms = NULL WHERE notify_at_ms IS NOT NULL"),
    db.prepare("DELETE FROM webhook_deliveries"),
  ]);
}
workerd.hasMigrated = true;

await rememberEarlierRows();
