import type { SQL } from "drizzle-orm";
import type { Db } from "./client.ts";

/**
 * A statement of plain SQL that answers rows, fit for `db.batch`. Drizzle 0.45's own `db.all(sql…)` has no prepared
 * statement for the batch to bind parameters to; it is given one here. Alias every column to the field of `Row`.
 */
export function rows<Row>(db: Db, query: SQL) {
  const raw = db.all<Row>(query);
  return Object.assign(raw, { stmt: db.$client.prepare(raw.getQuery().sql) });
}

/** A statement of plain SQL that writes, fit for `db.batch`. */
export function write(db: Db, query: SQL) {
  const raw = db.run(query);
  return Object.assign(raw, { stmt: db.$client.prepare(raw.getQuery().sql) });
}
