import { sql } from "drizzle-orm";
import { alias } from "drizzle-orm/sqlite-core";
import { asInteger, assignments, fields, names, query, read, returning, type ValueOf } from "../db/query.ts";
import { environments, webhookDeliveries, webhookEndpoints, webhookMessages } from "../db/schema.ts";
import { all, type Db, type RowsOf } from "../db/sql.ts";
import { jsonChunks } from "../lib/json.ts";
import type { SystemCtx } from "../runtime.ts";
import { nextEndpointWithPending } from "./endpoint.ts";
import { LEASE_MS } from "./outbox.ts";

/** The currently leased deliveries of some messages, in message order. */
const selectLeased = query((value: ValueOf<{ messageIds: string; nowMs: number; limit: number }>) => {
  const [m, e, w, d] = [webhookMessages, environments, webhookEndpoints, webhookDeliveries];
  return read(
    {
      ...fields(m, "id", "type", "atMs", "data", "environmentId"),
      ...fields(e, "appId", "mode"),
      ...fields(w, "url", "secret", "previousSecret", "previousUntilMs", "failingSinceMs"),
      ...fields(d, "endpointId", "tries", "dueAtMs"),
    },
    (list) => sql`
      SELECT ${list} FROM json_each(${value("messageIds")}) AS j CROSS JOIN ${m} ON ${m.id} = j.value
      CROSS JOIN ${e} ON ${e.id} = ${m.environmentId}
      CROSS JOIN ${w} ON ${w.environmentId} = ${e.id} AND ${w.isEnabled} = 1
      CROSS JOIN ${d} ON ${d.endpointId} = ${w.id} AND ${d.messageId} = ${m.id}
      WHERE ${d.status} = 'pending' AND ${d.dueAtMs} > ${value("nowMs")} ORDER BY j.key LIMIT ${asInteger(value("limit"))}`,
  );
});

/** A delivery that this invocation has leased. Its `dueAtMs` is the end of the lease. */
export type LeasedDelivery = RowsOf<[ReturnType<typeof selectLeased>]>[0][number];

/**
 * Selects deliveries of a message: to one endpoint, or to all endpoints without `endpointId`. With `dueAtMs`, only under that
 * lease.
 */
export interface DeliveryKey {
  readonly messageId: string;
  readonly endpointId?: string | undefined;
  readonly dueAtMs?: number;
}

/** Reads the selected deliveries that are leased and still pending. */
export async function readLeased(
  { now }: Pick<SystemCtx, "now">,
  db: Db,
  keys: readonly DeliveryKey[],
  limit = -1,
): Promise<readonly LeasedDelivery[]> {
  const messageIds = JSON.stringify([...new Set(keys.map(({ messageId }) => messageId))]);
  const leased = await all(db, selectLeased({ messageIds, nowMs: now(), limit }));
  return leased.filter(({ id, endpointId, dueAtMs }) =>
    keys.some(
      (key) =>
        key.messageId === id && (key.endpointId ?? endpointId) === endpointId && (key.dueAtMs ?? dueAtMs) === dueAtMs,
    ),
  );
}

const endLeasesExcept = query((value: ValueOf<{ keys: string; kept: string; nowMs: number }>) => {
  const [m, w, d] = [webhookMessages, webhookEndpoints, webhookDeliveries];
  const leasedDeliveries = sql`
    SELECT ${d.endpointId}, ${d.messageId} FROM json_each(${value("keys")}) AS j CROSS JOIN ${m} ON ${m.id} = j.value ->> 0
    CROSS JOIN ${w} ON ${w.environmentId} = ${m.environmentId} AND ${w.id} = coalesce(j.value ->> 1, ${w.id})
    CROSS JOIN ${d} ON ${d.endpointId} = ${w.id} AND ${d.messageId} = ${m.id}`;
  const kept = sql`SELECT k.value ->> 0, k.value ->> 1 FROM json_each(${value("kept")}) AS k`;
  return sql`UPDATE ${d} SET ${assignments(d, { dueAtMs: asInteger(value("nowMs")) })}
    WHERE (${names(d.endpointId, d.messageId)}) IN (${leasedDeliveries}) AND (${names(d.endpointId, d.messageId)}) NOT IN (${kept})
      AND ${d.status} = 'pending' AND ${d.dueAtMs} > ${value("nowMs")}`;
});

/** Ends the leases of deliveries that this invocation does not attempt, so that the cron attempts them. */
export async function releaseLeases(
  { now }: Pick<SystemCtx, "now">,
  db: Db,
  keys: readonly DeliveryKey[],
  kept: readonly LeasedDelivery[],
): Promise<void> {
  const keptText = JSON.stringify(kept.map(({ id, endpointId }) => [endpointId, id]));
  for (const keysText of jsonChunks(keys.map(({ messageId, endpointId }) => [messageId, endpointId ?? null])))
    await all(db, endLeasesExcept({ keys: keysText, kept: keptText, nowMs: now() }));
}

type Round = { start: string; excluded: string; nowMs: number; leaseMs: number; limit: number };

/** Leases a round of due deliveries: one of each endpoint, then a second of each, and so on. Failing endpoints come last. */
const leaseRoundOf = query((value: ValueOf<Round>) => {
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
        SELECT ${nextEndpointWithPending(value("start"))}
        UNION ALL SELECT ${nextEndpointWithPending(waiting.endpointId)} FROM ${waiting} WHERE ${waiting.endpointId} IS NOT NULL LIMIT 200
      )
      UPDATE ${d} SET ${assignments(d, { dueAtMs: value("leaseMs") })}
      WHERE (${names(d.endpointId, d.messageId)}) IN (
        SELECT ${d.endpointId}, ${d.messageId} FROM (${ranked}) AS ${d} ORDER BY place, fails LIMIT ${asInteger(value("limit"))}
      )
      RETURNING ${list}`,
  );
});

/** Leases a round of due deliveries, starting at the endpoint `start`, and reads them. */
export async function leaseRound(
  root: SystemCtx,
  db: Db,
  { start, excluded }: { start: string; excluded: readonly string[] },
  limit: number,
): Promise<readonly LeasedDelivery[]> {
  const nowMs = root.now();
  const values = { start, excluded: JSON.stringify(excluded), nowMs, leaseMs: nowMs + LEASE_MS, limit };
  const keys = await all(db, leaseRoundOf(values));
  if (keys.length === 0) return [];
  return readLeased(root, db, keys);
}
