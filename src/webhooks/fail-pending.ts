import { not, type Placeholder, type SQL, sql } from "drizzle-orm";
import { alias, type SQLiteColumn } from "drizzle-orm/sqlite-core";
import { assignments, computed, fields, hasRow, names, query, read, returning, type ValueOf } from "../db/query.ts";
import { webhookDeliveries, webhookEndpoints } from "../db/schema.ts";
import { all, type Db } from "../db/sql.ts";

const DELIVERIES_A_STEP = 1_000;
/** Of a request. The cron goes on. */
const STEPS_MAX = 20;

/** Whether an endpoint is on. */
const isOn = (id: SQL) =>
  hasRow(webhookEndpoints, sql`${webhookEndpoints.id} = ${id} AND ${webhookEndpoints.isEnabled} = 1`);

/** What was pending for endpoints that are off, or gone, fails: a step of it. `ids`: endpoints. */
export const failPending = query((value: ValueOf<{ ids: string }>) => {
  const { endpointId, messageId, status } = webhookDeliveries;
  return returning(
    computed({ isFailed: sql<1>`1` }),
    (list) => sql`
      UPDATE ${webhookDeliveries} SET ${assignments(webhookDeliveries, { status: sql`'failed'` })}
      WHERE (${names(endpointId, messageId)}) IN (
        SELECT ${endpointId}, ${messageId} FROM json_each(${value("ids")}) AS j
        CROSS JOIN ${webhookDeliveries} INDEXED BY webhook_deliveries_due ON ${endpointId} = j.value AND ${status} = 'pending'
        WHERE ${not(isOn(sql`j.value`))} LIMIT ${DELIVERIES_A_STEP}
      ) RETURNING ${list}`,
  );
});

/** Goes on with `failPending`, while `mayGoOn`. Answers whether nothing is left. */
export async function failRest(db: Db, ids: readonly string[], mayGoOn = upTo(STEPS_MAX)): Promise<boolean> {
  const values = { ids: JSON.stringify(ids) };
  while (mayGoOn()) {
    if ((await all(db, failPending(values))).length < DELIVERIES_A_STEP) return true;
  }
  return false;
}

function upTo(steps: number): () => boolean {
  let left = steps;
  return () => left-- > 0;
}

/** The first endpoint after another for which something is pending. */
export const nextWaiting = (after: SQL | Placeholder | SQLiteColumn) => {
  const { endpointId, status } = webhookDeliveries;
  return sql`(
    SELECT ${endpointId} FROM ${webhookDeliveries} INDEXED BY webhook_deliveries_due
    WHERE ${status} = 'pending' AND ${endpointId} > ${after} ORDER BY ${endpointId} LIMIT 1
  )`;
};

/** Endpoints that are off, or gone, and for which something is pending. */
export const selectOff = query(() => {
  const waiting = alias(webhookDeliveries, "waiting");
  return read(
    fields(waiting, { id: "endpointId" }),
    (list) => sql`
      WITH RECURSIVE ${waiting} (${names(webhookDeliveries.endpointId)}) AS (
        SELECT ${nextWaiting(sql`''`)}
        UNION ALL SELECT ${nextWaiting(waiting.endpointId)} FROM ${waiting} WHERE ${waiting.endpointId} IS NOT NULL
      )
      SELECT ${list} FROM ${waiting} WHERE ${waiting.endpointId} IS NOT NULL AND ${not(isOn(sql`${waiting.endpointId}`))} LIMIT 20`,
  );
});
