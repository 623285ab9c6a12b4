import { sql } from "drizzle-orm";
import { alias } from "drizzle-orm/sqlite-core";
import { assignments, fields, names, query, returning, type ValueOf } from "../db/query.ts";
import { webhookDeliveries, webhookEndpoints } from "../db/schema.ts";
import { all, type Db } from "../db/sql.ts";
import type { CronCtx, CronPart, SystemCtx } from "../runtime.ts";
import { attemptAgain, attemptAll } from "./attempt.ts";
import { failRest, nextWaiting, selectOff } from "./fail-pending.ts";
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

type Round = { start: string; excluded: string; nowMs: number; leaseMs: number; limit: number };

/** Leases a round of due deliveries: of each endpoint one, then a second, and so on; those that fail come after the others. */
const leaseRound = query((value: ValueOf<Round>) => {
  const [d, w] = [webhookDeliveries, webhookEndpoints];
  const waiting = alias(d, "waiting");
  const due = sql`
    SELECT ${d.messageId} FROM ${d} INDEXED BY webhook_deliveries_due
    WHERE ${d.endpointId} = ${waiting.endpointId} AND ${d.status} = 'pending' AND ${d.dueAtMs} <= ${value("nowMs")}
    ORDER BY ${d.dueAtMs} LIMIT ${value("limit")}`;
  const ranked = sql`
    SELECT ${d}.*, coalesce(${w.failingSinceMs}, 0) > 0 AS fails,
      row_number() OVER (PARTITION BY ${d.endpointId} ORDER BY ${d.dueAtMs}, ${d.messageId}) AS place
    FROM ${waiting} CROSS JOIN ${w} ON ${w.id} = ${waiting.endpointId} AND ${w.isEnabled} = 1
    CROSS JOIN ${d} ON ${d.endpointId} = ${w.id} AND ${d.messageId} IN (${due})
    WHERE ${w.id} NOT IN (SELECT value FROM json_each(${value("excluded")}))`;
  return returning(
    fields(d, "endpointId", "messageId"),
    (list) => sql`
      WITH RECURSIVE ${waiting} (${names(d.endpointId)}) AS (
        SELECT ${nextWaiting(value("start"))}
        UNION ALL SELECT ${nextWaiting(waiting.endpointId)} FROM ${waiting} WHERE ${waiting.endpointId} IS NOT NULL LIMIT 200
      )
      UPDATE ${d} SET ${assignments(d, { dueAtMs: value("leaseMs") })}
      WHERE (${names(d.endpointId, d.messageId)}) IN (
        SELECT ${d.endpointId}, ${d.messageId} FROM (${ranked}) AS ${d} ORDER BY place, fails LIMIT ${value("limit")}
      )
      RETURNING ${list}`,
  );
});

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
    // Wrap around.
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
