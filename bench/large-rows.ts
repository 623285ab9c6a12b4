/**
 * What large rows of one tenant cost another's inserts, by table and layout (docs/benchmarks.md): `npm run bench:rows`. SQLite
 * alone, with D1's page size: 600 large rows of a tenant, then small rows of new ids of another, whose keys come after them.
 */
import { readFileSync } from "node:fs";
import { join } from "node:path";
import { DatabaseSync } from "node:sqlite";

const LARGE_ROWS = 600;
const SMALL_ROWS = 5_000;
const ROUNDS = 3;
const tables = readFileSync(join(import.meta.dirname, "../drizzle/0000_all_tables.sql"), "utf8").split(
  "--> statement-breakpoint",
);

interface Case {
  readonly table: string;
  readonly largeBytes: number;
  /** A row of a tenant with a body of so many bytes. */
  readonly insert: string;
}

/** `?1` is the tenant, `?2` the row's number, `?3` the body. */
const CASES: readonly Case[] = [
  {
    table: "analytics_events",
    largeBytes: 256 * 1_024,
    insert: `INSERT INTO analytics_events (environment_id, distinct_id, seq, uuid, event, timestamp_ms, received_at_ms, properties)
      VALUES (?1, 'id ' || ?2, 1, 'u' || ?1 || ' ' || ?2, 'e', 1, 1, ?3)`,
  },
  {
    table: "id_properties",
    largeBytes: 64 * 1_024,
    insert: "INSERT INTO id_properties (environment_id, distinct_id, properties) VALUES (?1, 'id ' || ?2, ?3)",
  },
  {
    // Larger properties are in a table of their own.
    table: "usage_events",
    largeBytes: 1_024,
    insert: `INSERT INTO usage_events (account_id, occurred_by_ms, seq, environment_id, event_id, event, count_steps, properties,
      occurred_at_ms, received_at_ms, request_hash, debits)
      VALUES (1000 * ?1 + ?2 % 1000, ?2, ?2, ?1, 'e' || ?1 || ' ' || ?2, 'e', 1, ?3, 1, 1, 'hash', '[]')`,
  },
  {
    table: "large_properties",
    largeBytes: 900_000,
    insert:
      "INSERT INTO large_properties (account_id, occurred_by_ms, seq, properties) VALUES (1000 * ?1 + ?2 % 1000, ?2, ?2, ?3)",
  },
  {
    table: "consent_log",
    largeBytes: 1_000,
    insert: `INSERT INTO consent_log (environment_id, distinct_id, seq, id, purpose, decision, occurred_at_ms, received_at_ms)
      VALUES (?1, 'id ' || ?2, 1, 'con_' || ?2, ?3, 'denied', 1, 1)`,
  },
  {
    table: "credit_ledger",
    largeBytes: 8_000,
    insert: `INSERT INTO credit_ledger (account_id, seq, balance_id, pack_id, unit, delta_steps, balance_after_steps, reason,
      cause, written_by, occurred_at_ms, note) VALUES (1000 * ?1 + ?2 % 1000, ?2, 'crb_1', 'cpk_1', 'count', 1, 1, 'grant', 'grant', 'cron', 1, ?3)`,
  },
];

/** Microseconds for a small row, after `large` rows of another tenant. */
function measure({ table, insert, largeBytes }: Case, withoutRowid: boolean, large: number): number {
  const db = new DatabaseSync(":memory:");
  db.exec("PRAGMA page_size = 4096; PRAGMA foreign_keys = OFF");
  const layout = withoutRowid ? ") STRICT, WITHOUT ROWID" : ") STRICT";
  for (const sql of tables) {
    if (sql.includes(`\`${table}\``)) db.exec(sql.replace(/\) STRICT(, WITHOUT ROWID)?/, layout));
  }
  const row = db.prepare(insert);
  const body = JSON.stringify("x".repeat(largeBytes));
  db.exec("BEGIN");
  for (let n = 1; n <= large; n++) row.run(1, n, body);
  const startedMs = performance.now();
  for (let n = 1; n <= SMALL_ROWS; n++) row.run(2, n, '""');
  const spentMs = performance.now() - startedMs;
  db.exec("COMMIT");
  db.close();
  return (spentMs * 1_000) / SMALL_ROWS;
}

const median = (values: readonly number[]): number => values.toSorted((a, b) => a - b)[values.length >> 1] ?? 0;
const rounds = (work: () => number): number => median(Array.from({ length: ROUNDS }, work));

console.log("Microseconds for a small row of another tenant: alone, and after 600 large ones.");
for (const each of CASES) {
  for (const withoutRowid of [true, false]) {
    const alone = rounds(() => measure(each, withoutRowid, 0));
    const after = rounds(() => measure(each, withoutRowid, LARGE_ROWS));
    const layout = withoutRowid ? "WITHOUT ROWID" : "with rowids";
    const bytes = `${Math.round(each.largeBytes / 1_000)} kB`;
    console.log(
      `${each.table.padEnd(17)} ${bytes.padStart(7)} ${layout.padEnd(14)} ${alone.toFixed(1).padStart(6)} ${after.toFixed(1).padStart(7)}  × ${(after / alone).toFixed(1)}`,
    );
  }
}
