import { applyD1Migrations } from "cloudflare:test";
import { env } from "cloudflare:workers";
import { rememberWhatStands } from "./invariants.ts";

for (const db of [env.DB, env.SPARE]) {
  await applyD1Migrations(db, env.TEST_MIGRATIONS);
  // Some tests give their environments negative ids. SQLite counts on from the largest, which is no such one with this.
  await db.batch([
    db.prepare("INSERT OR IGNORE INTO apps (id, name, created_at_ms) VALUES ('app_first', 'First', 0)"),
    db.prepare(
      `INSERT INTO environments (id, app_id, mode) SELECT 1, 'app_first', 'live'
       WHERE NOT EXISTS (SELECT 1 FROM environments WHERE id > 0)`,
    ),
    // What files before this one left open would be due in its time, and there may be more of it than one run of the cron settles.
    db.prepare("UPDATE reservations SET expires_at_ms = 9000000000000000 WHERE state = 'open'"),
    db.prepare("DELETE FROM balance_expiries"),
  ]);
}

await rememberWhatStands();
