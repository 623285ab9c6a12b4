import { all, type Db, fragment, statement } from "../db/sql.ts";

const DELIVERIES_A_STEP = 1_000;
/** Of a request. The cron goes on. */
const STEPS_MAX = 20;

/** SQL: whether an endpoint is on. */
const isOn = (id: string): string =>
  fragment`EXISTS (SELECT 1 FROM webhook_endpoints AS w WHERE w.id = ${id} AND w.is_enabled = 1)`;

/** What was pending for endpoints that are off, or gone, fails: a step of it. `ids`: endpoints. */
export const failPending = statement<{ ids: string }, { isFailed: 1 }>`
  UPDATE webhook_deliveries SET status = 'failed' WHERE (endpoint_id, message_id) IN (
    SELECT d.endpoint_id, d.message_id FROM json_each(:ids) AS j
    CROSS JOIN webhook_deliveries AS d INDEXED BY webhook_deliveries_due ON d.endpoint_id = j.value AND d.status = 'pending'
    WHERE NOT ${isOn("j.value")} LIMIT ${String(DELIVERIES_A_STEP)}
  ) RETURNING 1 AS isFailed`;

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

const next = (after: string): string => fragment`(
  SELECT endpoint_id FROM webhook_deliveries INDEXED BY webhook_deliveries_due
  WHERE status = 'pending' AND endpoint_id > ${after} ORDER BY endpoint_id LIMIT 1
)`;

/** Endpoints that are off, or gone, and for which something is pending. */
export const selectOff = statement<Record<never, never>, { id: string }>`
  WITH RECURSIVE waiting (id) AS (
    SELECT ${next("''")} UNION ALL SELECT ${next("waiting.id")} FROM waiting WHERE waiting.id IS NOT NULL
  )
  SELECT id FROM waiting WHERE id IS NOT NULL AND NOT ${isOn("waiting.id")} LIMIT 20`;
