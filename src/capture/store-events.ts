import { retryOnConflict } from "../db/retry-on-conflict.ts";
import { batch, nowMsSql, type Statement, statement } from "../db/sql.ts";
import { jsonChunks } from "../lib/json.ts";
import { needsStoredPeople, noStoredPeople, planPeople } from "../people/plan-people.ts";
import { type PeopleRow, peopleReads, storedPeople } from "../people/read-people.ts";
import { peopleConflicts, peopleWrites } from "../people/write-people.ts";
import type { TenantCtx } from "../runtime.ts";
import type { CapturedEvent } from "./event.ts";

type UuidRow = { readonly uuid: string };

const selectUuids = statement<{ environmentId: number; uuids: string }, UuidRow>`
  SELECT e.uuid AS uuid FROM json_each(:uuids) AS i CROSS JOIN analytics_events AS e
  WHERE e.environment_id = :environmentId AND e.uuid = i.value`;

/** Appends events after the id's last seq, which the same statement reads. Skips an event whose UUID is stored. */
const insertEvents = statement<{ environmentId: number; events: string; nowMs: number; isVerified: number }>`
  INSERT INTO analytics_events (
    environment_id, distinct_id, seq, uuid, event, timestamp_ms, received_at_ms, is_verified, properties
  )
  SELECT CAST(:environmentId AS INTEGER), distinct_id, coalesce((
      SELECT seq FROM analytics_events AS last
      WHERE last.environment_id = :environmentId AND last.distinct_id = new_events.distinct_id
      ORDER BY seq DESC LIMIT 1
    ), 0) + row_number() OVER (PARTITION BY distinct_id ORDER BY position),
    value ->> 0, value ->> 1, value ->> 3, ${nowMsSql}, CAST(:isVerified AS INTEGER), value ->> 4
  FROM (
    SELECT key AS position, value, value ->> 2 AS distinct_id FROM json_each(:events)
    WHERE NOT EXISTS (
      SELECT 1 FROM analytics_events WHERE environment_id = :environmentId AND uuid = value ->> 0
    )
  ) AS new_events
  ORDER BY position`;

/**
 * Stores events, each UUID once, and their changes to people (P2, P3), in one batch. A repeated batch finds its UUIDs stored
 * and changes nothing. Events without changes to people are written without a read. Returns the warnings by UUID.
 */
export async function storeEvents(
  ctx: TenantCtx,
  events: readonly CapturedEvent[],
): Promise<ReadonlyMap<string, string>> {
  const first = new Map<string, CapturedEvent>();
  for (const event of events) if (!first.has(event.uuid)) first.set(event.uuid, event);
  const sent = [...first.values()];
  const isVerified = ctx.caller.kind === "secret";
  let warnings: ReadonlyMap<string, string> = new Map();
  await retryOnConflict(peopleConflicts, ctx.newId(""), async () => {
    const { newEvents, stored } = sent.some(needsStoredPeople)
      ? await readStored(ctx, sent)
      : { newEvents: sent, stored: noStoredPeople };
    // If an earlier attempt's answer was lost, its own events are stored now.
    if (newEvents.length === 0) return;
    const change = planPeople(newEvents, stored, isVerified);
    warnings = change.warnings;
    const nowMs = ctx.now();
    await batch(ctx.db, [...eventWrites(ctx, newEvents, nowMs, isVerified), ...peopleWrites(ctx, change, nowMs)]);
  });
  return warnings;
}

/** Reads in one trip which events are stored already, and all that the plan needs. */
async function readStored(ctx: TenantCtx, sent: readonly CapturedEvent[]) {
  const environmentId = ctx.environment.id;
  const uuids = jsonChunks(sent.map(({ uuid }) => uuid));
  const reads: Statement<UuidRow | PeopleRow>[] = uuids.map((chunk) => selectUuids({ environmentId, uuids: chunk }));
  const results = await batch(ctx.db, [...reads, ...peopleReads(ctx, sent)]);
  const storedUuids = new Set<string>();
  const rows: PeopleRow[] = [];
  for (const row of results.flat()) {
    if ("uuid" in row) storedUuids.add(row.uuid);
    else rows.push(row);
  }
  return { newEvents: sent.filter(({ uuid }) => !storedUuids.has(uuid)), stored: storedPeople(rows) };
}

function eventWrites(
  ctx: TenantCtx,
  events: readonly CapturedEvent[],
  nowMs: number,
  isVerified: boolean,
): Statement[] {
  const rows = events.map((event) => [event.uuid, event.event, event.distinctId, event.timestampMs, event.properties]);
  return jsonChunks(rows).map((chunk) =>
    insertEvents({ environmentId: ctx.environment.id, events: chunk, nowMs, isVerified: Number(isVerified) }),
  );
}
