import { all, type Db, fragment, statement } from "../db/sql.ts";
import type { CronCtx, CronPart, SystemCtx } from "../runtime.ts";
import { attemptAgain, attemptAll } from "./attempt.ts";
import { failRest, selectOff } from "./fail-pending.ts";
import { type Leased, readLeased } from "./leased.ts";
import { LEASE_MS } from "./outbox.ts";
import type { Outcome } from "./record.ts";

/** As many as are attempted at a time, so that no lease ends before its attempt. */
const ROUND = 6;
/** To lease a round, and to record it. */
const QUERIES_A_ROUND = 6;
const QUERIES_A_RECORD = 4;
/** An endpoint whose failed attempts took so long together waits for the next run. */
const FAILED_MS_MAX = 10_000;

const nextEndpoint = (after: string): string => fragment`(
  SELECT endpoint_id FROM webhook_deliveries INDEXED BY webhook_deliveries_due
  WHERE status = 'pending' AND endpoint_id > ${after} ORDER BY endpoint_id LIMIT 1
)`;

/** Leases a round of due deliveries: of each endpoint one, then a second, and so on; those that fail come after the others. */
const leaseRound = statement<
  { start: string; excluded: string; nowMs: number; leaseMs: number; limit: number },
  { endpointId: string; messageId: string }
>`
  WITH RECURSIVE waiting (endpoint_id) AS (
    SELECT ${nextEndpoint(":start")}
    UNION ALL SELECT ${nextEndpoint("waiting.endpoint_id")} FROM waiting WHERE waiting.endpoint_id IS NOT NULL LIMIT 200
  )
  UPDATE webhook_deliveries SET due_at_ms = CAST(:leaseMs AS INTEGER)
  WHERE (endpoint_id, message_id) IN (
    SELECT endpoint_id, message_id FROM (
      SELECT d.endpoint_id, d.message_id, coalesce(w.failing_since_ms, 0) > 0 AS is_failing,
        row_number() OVER (PARTITION BY d.endpoint_id ORDER BY d.due_at_ms, d.message_id) AS place
      FROM waiting CROSS JOIN webhook_endpoints AS w ON w.id = waiting.endpoint_id AND w.is_enabled = 1
      CROSS JOIN webhook_deliveries AS d ON d.endpoint_id = w.id AND d.message_id IN (
        SELECT message_id FROM webhook_deliveries INDEXED BY webhook_deliveries_due
        WHERE endpoint_id = waiting.endpoint_id AND status = 'pending' AND due_at_ms <= CAST(:nowMs AS INTEGER)
        ORDER BY due_at_ms LIMIT CAST(:limit AS INTEGER)
      )
      WHERE w.id NOT IN (SELECT value FROM json_each(:excluded))
    ) ORDER BY place, is_failing LIMIT CAST(:limit AS INTEGER)
  )
  RETURNING endpoint_id AS endpointId, message_id AS messageId`;

/**
 * Attempts the deliveries that are due (H4), of the endpoints in turn, from one at random: as many as a run's queries and time
 * allow. Before that, what is pending for endpoints that were switched off fails.
 */
export async function deliverDue(root: CronCtx): Promise<readonly unknown[]> {
  const { db, allowance } = root;
  const failed: Outcome[] = [];
  const off = (await all(db, selectOff({}))).map(({ id }) => id);
  if (off.length > 0) await failRest(db, off, () => allowance.has(QUERIES_A_ROUND + QUERIES_A_RECORD));
  let start = root.newId("whk_");
  while (root.now() <= allowance.untilMs) {
    const again = failed.filter((outcome) => outcome.again !== undefined).length + ROUND;
    if (!allowance.has(QUERIES_A_ROUND + Math.ceil(again / ROUND) * QUERIES_A_RECORD)) break;
    const round = await leaseSome(root, db, { start, excluded: slowOf(failed) }, ROUND);
    if (round.length === 0 && start === "") break;
    // Round the end, to the endpoints before the first.
    if (round.length === 0) start = "";
    failed.push(...(await attemptAll(root, db, round, allowance.untilMs)));
  }
  await attemptAgain(root, db, failed, allowance.untilMs);
  return [];
}

export const deliveriesPart: CronPart = {
  code: "messages_not_sent",
  weight: 8,
  queriesOfStep: 2 * (QUERIES_A_ROUND + QUERIES_A_RECORD),
  work: deliverDue,
};

/** The endpoints whose failed attempts took too long. */
function slowOf(failed: readonly Outcome[]): string[] {
  const took = new Map<string, number>();
  for (const { endpointId, attempt } of failed) took.set(endpointId, (took.get(endpointId) ?? 0) + attempt.durationMs);
  return [...took].filter(([, ms]) => ms >= FAILED_MS_MAX).map(([id]) => id);
}

async function leaseSome(
  root: SystemCtx,
  db: Db,
  { start, excluded }: { start: string; excluded: readonly string[] },
  limit: number,
): Promise<readonly Leased[]> {
  const nowMs = root.now();
  const values = { start, excluded: JSON.stringify(excluded), nowMs, leaseMs: nowMs + LEASE_MS, limit };
  const keys = await all(db, leaseRound(values));
  if (keys.length === 0) return [];
  return readLeased(root, db, keys);
}
