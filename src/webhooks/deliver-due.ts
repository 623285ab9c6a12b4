import { sql } from "drizzle-orm";
import { alias } from "drizzle-orm/sqlite-core";
import { asInteger, assignments, fields, names, query, returning, type ValueOf } from "../db/query.ts";
import { webhookDeliveries, webhookEndpoints } from "../db/schema.ts";
import { all, type Db } from "../db/sql.ts";
import type { CronCtx, CronPart, Outbox, SystemCtx } from "../runtime.ts";
import { type Leased, openDeliveries, readLeased, release } from "./attempt.ts";
import { failRest, nextWaiting, selectOff } from "./delete-old.ts";
import { FIRST_ATTEMPTS_MAX, LEASE_MS } from "./outbox.ts";

/** The platform ends an invocation 30 seconds after its response, and an attempt takes up to 10. */
const BEGIN_WITHIN_MS = 18_000;

/**
 * Makes the first attempts of an invocation's oldest twenty messages after its response (H4). Its other messages are due
 * immediately, and the cron attempts them.
 */
export async function makeFirstAttempts(root: SystemCtx, outbox: Outbox): Promise<void> {
  const pool = openDeliveries(root, root.now() + BEGIN_WITHIN_MS);
  const byDatabase = Map.groupBy(outbox, ({ database }) => database);
  let left = FIRST_ATTEMPTS_MAX;
  for (const { index, db } of root.databases) {
    const own = byDatabase.get(index) ?? [];
    if (own.length === 0) continue;
    const found = await readLeased(root, db, own.slice(0, left), left + 1);
    const ours = found.slice(0, left);
    if (own.length > left || found.length > left) await release(root, db, own, ours);
    left -= ours.length;
    pool.add(db, ours);
  }
  await pool.done();
}

/** How many deliveries are leased at a time: few enough to be started before their lease ends. */
const ROUND = 10;
/** The queries to lease a round, and to record an attempt, usually together with others. */
const QUERIES_A_LEASE = 2;
const QUERIES_A_RECORD = 2;
const QUERIES_A_ROUND = QUERIES_A_LEASE + ROUND * QUERIES_A_RECORD;

type Round = { start: string; excluded: string; nowMs: number; leaseMs: number; limit: number };

/** Leases a round of due deliveries: one of each endpoint, then a second, and so on. Failing endpoints come last. */
const leaseRound = query((value: ValueOf<Round>) => {
  const [d, w] = [webhookDeliveries, webhookEndpoints];
  const waiting = alias(d, "waiting");
  const due = sql`
    SELECT ${d.messageId} FROM ${d} INDEXED BY webhook_deliveries_due
    WHERE ${d.endpointId} = ${waiting.endpointId} AND ${d.status} = 'pending' AND ${d.dueAtMs} <= ${value("nowMs")}
    ORDER BY ${d.dueAtMs} LIMIT ${asInteger(value("limit"))}`;
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
        SELECT ${d.endpointId}, ${d.messageId} FROM (${ranked}) AS ${d} ORDER BY place, fails LIMIT ${asInteger(value("limit"))}
      )
      RETURNING ${list}`,
  );
});

/**
 * Attempts due deliveries (H4), endpoint by endpoint in turn, starting with a random one, as far as a run's queries and time allow.
 * First it fails the pending deliveries of disabled endpoints.
 */
export async function deliverDue(root: CronCtx): Promise<readonly unknown[]> {
  const { db, allowance } = root;
  const off = (await all(db, selectOff({}))).map(({ id }) => id);
  if (off.length > 0) await failRest(db, off, () => allowance.has(QUERIES_A_ROUND));
  const pool = openDeliveries(root, allowance.untilMs);
  let start = root.newId("whk_");
  while (root.now() <= allowance.untilMs && allowance.has(QUERIES_A_ROUND + pool.size() * QUERIES_A_RECORD)) {
    const round = await leaseSome(root, db, { start, excluded: pool.busy() }, ROUND);
    if (round.length === 0 && start === "") {
      if (pool.size() === 0) break;
      // Busy endpoints were left out of the round, so they may have more due deliveries.
      await pool.changed();
      continue;
    }
    // Wrap around.
    if (round.length === 0) start = "";
    pool.add(db, round);
    await pool.room();
  }
  await pool.done();
  return [];
}

export const deliveriesPart: CronPart = {
  code: "messages_not_sent",
  weight: 8,
  queriesOfStep: QUERIES_A_ROUND + 1,
  work: deliverDue,
};

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
