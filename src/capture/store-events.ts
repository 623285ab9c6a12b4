import { constraintOf } from "../db/constraint.ts";
import { retryOnConflict } from "../db/retry-on-conflict.ts";
import { batch, nowMsSql, type Statement, statement } from "../db/sql.ts";
import { PurserError } from "../errors.ts";
import { jsonChunks } from "../lib/json.ts";
import { guardOfKnown, readPeopleFirst, rememberPeople } from "../people/memory.ts";
import { needsStoredPeople } from "../people/person-event.ts";
import { noStoredPeople, type PeopleChange, planPeople } from "../people/plan-people.ts";
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

/** A link is planned on stored ids, which may be long. So only so many are planned at a time. */
const LINKS_MAX = 1_000;

/** The most bytes of stored properties that one request may need. A client that sends half as many events needs less. */
const PROPERTIES_BYTES_MAX = 16 * 1024 * 1024;

/** What the parts of one request share. */
export class CaptureBudget {
  #bytes = PROPERTIES_BYTES_MAX;

  spend(bytes: number): void {
    this.#bytes -= bytes;
    if (this.#bytes >= 0) return;
    throw new PurserError(
      "payload_too_large",
      `The ids of these events have more than ${PROPERTIES_BYTES_MAX} bytes of properties. Send fewer events at a time.`,
    );
  }
}

/**
 * Stores events, each UUID once, and their changes to people (P2, P3): one batch, or several when they are about very much. A
 * repeated batch finds its UUIDs stored and changes nothing. Events without changes to people are written without a read.
 * Returns the warnings by UUID.
 */
export async function storeEvents(
  ctx: TenantCtx,
  events: readonly CapturedEvent[],
  budget: CaptureBudget,
): Promise<ReadonlyMap<string, string>> {
  const first = new Map<string, CapturedEvent>();
  for (const event of events) if (!first.has(event.uuid)) first.set(event.uuid, event);
  const warnings = new Map<string, string>();
  for (let rest = [...first.values()]; rest.length > 0; ) {
    let planned = noWarnings;
    const count = await retryOnConflict(peopleConflicts, ctx.newId(""), () =>
      storeSome(ctx, rest, budget, (latest) => {
        planned = latest;
      }),
    );
    for (const [uuid, warning] of planned) warnings.set(uuid, warning);
    rest = rest.slice(count);
  }
  return warnings;
}

/** Stores the first events, at least one, in one batch. Returns how many. `warn` is told what the plan warns of. */
async function storeSome(
  ctx: TenantCtx,
  rest: readonly CapturedEvent[],
  budget: CaptureBudget,
  warn: (warnings: ReadonlyMap<string, string>) => void,
): Promise<number> {
  const isVerified = ctx.caller.kind === "secret";
  const asked = withinLinks(rest);
  const nowMs = ctx.now();
  if (!asked.some(needsStoredPeople)) {
    await write(ctx, asked, planPeople(asked, noStoredPeople, isVerified), nowMs);
    return asked.length;
  }
  const guard = guardOfKnown(ctx, asked, nowMs);
  if (guard !== null) {
    await writeKnown(ctx, asked, guard, nowMs);
    return asked.length;
  }
  const { sent, newEvents, stored } = await readStored(ctx, asked, budget);
  // If an earlier attempt's answer was lost, its own events are stored now.
  if (newEvents.length === 0) return sent.length;
  const change = planPeople(newEvents, stored, isVerified);
  warn(change.warnings);
  await write(ctx, newEvents, change, nowMs);
  rememberPeople(ctx, change.settled, nowMs);
  return sent.length;
}

const noWarnings: ReadonlyMap<string, string> = new Map();

async function write(ctx: TenantCtx, events: readonly CapturedEvent[], change: PeopleChange, nowMs: number) {
  await batch(ctx.db, [...eventWrites(ctx, events, nowMs), ...peopleWrites(ctx, change, nowMs)]);
}

/** Writes events that change nothing about people, as long as `guard` holds. */
async function writeKnown(ctx: TenantCtx, events: readonly CapturedEvent[], guard: Statement, nowMs: number) {
  const plain = events.map((event) => ({ ...event, link: null, set: null, setOnce: null, unset: null, changes: "" }));
  const change = planPeople(plain, noStoredPeople, ctx.caller.kind === "secret");
  try {
    await batch(ctx.db, [guard, ...eventWrites(ctx, events, nowMs), ...peopleWrites(ctx, change, nowMs)]);
  } catch (error) {
    if (constraintOf(error) === "guard_people") readPeopleFirst(ctx, events, nowMs);
    throw error;
  }
}

function withinLinks(events: readonly CapturedEvent[]): readonly CapturedEvent[] {
  let links = 0;
  const end = events.findIndex(({ link }) => link !== null && ++links > LINKS_MAX);
  return end === -1 ? events : events.slice(0, end);
}

/** Reads in one trip which events are stored already, and all that the plan of the first of them needs. */
async function readStored(ctx: TenantCtx, asked: readonly CapturedEvent[], budget: CaptureBudget) {
  const environmentId = ctx.environment.id;
  const uuids = jsonChunks(asked.map(({ uuid }) => uuid));
  const reads: Statement<UuidRow | PeopleRow>[] = uuids.map((chunk) => selectUuids({ environmentId, uuids: chunk }));
  const results = await batch(ctx.db, [...reads, ...peopleReads(ctx, asked)]);
  const storedUuids = new Set<string>();
  const rows: PeopleRow[] = [];
  for (const row of results.flat()) {
    if ("uuid" in row) storedUuids.add(row.uuid);
    else rows.push(row);
  }
  const stored = storedPeople(rows);
  budget.spend(stored.properties.reduce((sum, { properties }) => sum + properties.length, 0));
  const end = asked.findIndex((event) => needsStoredPeople(event) && stored.unread.has(event.distinctId));
  const sent = end === -1 ? asked : asked.slice(0, end);
  return { sent, newEvents: sent.filter(({ uuid }) => !storedUuids.has(uuid)), stored };
}

function eventWrites(ctx: TenantCtx, events: readonly CapturedEvent[], nowMs: number): Statement[] {
  const isVerified = Number(ctx.caller.kind === "secret");
  const rows = events.map((event) => [event.uuid, event.event, event.distinctId, event.timestampMs, event.properties]);
  return jsonChunks(rows).map((chunk) =>
    insertEvents({ environmentId: ctx.environment.id, events: chunk, nowMs, isVerified }),
  );
}
