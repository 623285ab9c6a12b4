import { sql } from "drizzle-orm";
import { write } from "../db/statement.ts";
import { jsonChunks } from "../lib/json.ts";
import type { IdentityChange } from "../people/identity.ts";
import type { Person } from "../people/person-graph.ts";
import type { Ctx } from "../runtime.ts";
import type { CapturedEvent } from "./event.ts";

/**
 * The statements that store events and what they change about people: one batch, all or nothing. The order matters:
 * an id may leave a person only when that person is gone (`person_distinct_ids_stay`).
 */
export function landing(ctx: Ctx, events: readonly CapturedEvent[], change: IdentityChange) {
  const nowMs = ctx.now();
  const ids = [...new Set(events.map((event) => event.distinctId))];
  const leaving = change.merged.map(({ from }) => from);
  const moves = change.merged.map(({ from, into }) => ({ from: from.id, into }));
  return [
    ...jsonChunks([...leaving, ...change.persons].map(personRow)).map((json) => writePersons(ctx, json)),
    ...jsonChunks(moves).map((json) => removeMerged(ctx, json)),
    ...jsonChunks(moves).map((json) => moveLinks(ctx, json, nowMs)),
    ...jsonChunks(change.links).map((json) => writeLinks(ctx, json, nowMs)),
    ...jsonChunks(ids).map((json) => knowIds(ctx, json)),
    ...jsonChunks(events.map(eventRow)).map((json) => insertEvents(ctx, json, nowMs)),
    ...jsonChunks(ids).flatMap((json) => [countEvents(ctx, json), seePersons(ctx, json, nowMs)]),
  ];
}

/** A list of rows travels as JSON: D1 binds 100 values at most, and JavaScript's numbers as REAL. */
const personRow = (person: Person) => ({
  ...person,
  properties: JSON.stringify(person.properties),
  isIdentified: person.isIdentified ? 1 : 0,
  version: person.version + 1,
});

const eventRow = ({ uuid, event, distinctId, timestampMs, properties }: CapturedEvent) => ({
  uuid,
  event,
  distinctId,
  timestampMs,
  properties,
});

/** `persons_version` refuses the whole batch where a person is not as it was read. */
function writePersons(ctx: Ctx, json: string) {
  return write(
    ctx.db,
    sql`
    INSERT INTO persons (
      environment_id, id, properties, is_identified, created_at_ms, last_seen_at_ms, version
    )
    SELECT CAST(${ctx.environment.id} AS INTEGER), value ->> 'id', value ->> 'properties', value ->> 'isIdentified',
      value ->> 'createdAtMs', value ->> 'lastSeenAtMs', value ->> 'version'
    FROM json_each(${json}) WHERE true
    ON CONFLICT (environment_id, id) DO UPDATE SET properties = excluded.properties,
      is_identified = excluded.is_identified, created_at_ms = excluded.created_at_ms,
      last_seen_at_ms = max(last_seen_at_ms, excluded.last_seen_at_ms), version = excluded.version`,
  );
}

function removeMerged(ctx: Ctx, json: string) {
  return write(
    ctx.db,
    sql`
    DELETE FROM persons
    WHERE environment_id = ${ctx.environment.id} AND id IN (SELECT value ->> 'from' FROM json_each(${json}))`,
  );
}

/** All ids of those who were merged, also such as came to them after they were read. */
function moveLinks(ctx: Ctx, json: string, nowMs: number) {
  return write(
    ctx.db,
    sql`
    UPDATE person_distinct_ids
    SET person_id = move.value ->> 'into', via = 'merge', linked_at_ms = CAST(${nowMs} AS INTEGER)
    FROM json_each(${json}) AS move
    WHERE environment_id = ${ctx.environment.id} AND person_id = move.value ->> 'from' AND person_id IS NOT NULL`,
  );
}

function writeLinks(ctx: Ctx, json: string, nowMs: number) {
  return write(
    ctx.db,
    sql`
    INSERT INTO person_distinct_ids (environment_id, distinct_id, person_id, via, linked_at_ms, event_count)
    SELECT CAST(${ctx.environment.id} AS INTEGER), value ->> 'distinctId', value ->> 'personId', value ->> 'via',
      CAST(${nowMs} AS INTEGER), 0
    FROM json_each(${json}) WHERE true
    ON CONFLICT (environment_id, distinct_id) DO UPDATE SET person_id = excluded.person_id, via = excluded.via,
      linked_at_ms = excluded.linked_at_ms
    WHERE person_id IS NOT excluded.person_id`,
  );
}

/** A row for every id that sends, also where it belongs to nobody. */
function knowIds(ctx: Ctx, json: string) {
  return write(
    ctx.db,
    sql`
    INSERT INTO person_distinct_ids (environment_id, distinct_id, event_count)
    SELECT CAST(${ctx.environment.id} AS INTEGER), sender.value, 0 FROM json_each(${json}) AS sender
    WHERE NOT EXISTS (
      SELECT 1 FROM person_distinct_ids
      WHERE environment_id = ${ctx.environment.id} AND distinct_id = sender.value
    )`,
  );
}

/** Events go on from the id's last seq, read as they are written; one whose UUID is stored already is passed over. */
function insertEvents(ctx: Ctx, json: string, nowMs: number) {
  const environmentId = ctx.environment.id;
  return write(
    ctx.db,
    sql`
    INSERT INTO analytics_events (
      environment_id, distinct_id, seq, uuid, event, timestamp_ms, received_at_ms, properties
    )
    SELECT CAST(${environmentId} AS INTEGER), distinct_id, coalesce((
        SELECT seq FROM analytics_events AS last
        WHERE last.environment_id = ${environmentId} AND last.distinct_id = fresh.distinct_id
        ORDER BY seq DESC LIMIT 1
      ), 0) + row_number() OVER (PARTITION BY distinct_id ORDER BY position),
      value ->> 'uuid', value ->> 'event', value ->> 'timestampMs', CAST(${nowMs} AS INTEGER), value ->> 'properties'
    FROM (
      SELECT key AS position, value, value ->> 'distinctId' AS distinct_id FROM json_each(${json})
      WHERE NOT EXISTS (
        SELECT 1 FROM analytics_events WHERE environment_id = ${environmentId} AND uuid = value ->> 'uuid'
      )
    ) AS fresh
    ORDER BY position`,
  );
}

function countEvents(ctx: Ctx, json: string) {
  const environmentId = ctx.environment.id;
  return write(
    ctx.db,
    sql`
    UPDATE person_distinct_ids SET event_count = coalesce((
      SELECT seq FROM analytics_events AS last
      WHERE last.environment_id = ${environmentId} AND last.distinct_id = person_distinct_ids.distinct_id
      ORDER BY seq DESC LIMIT 1
    ), 0)
    WHERE environment_id = ${environmentId} AND distinct_id IN (SELECT value FROM json_each(${json}))`,
  );
}

/** Whose events came is seen now, however they were sent. No guard: the later time wins, whoever writes first. */
function seePersons(ctx: Ctx, json: string, nowMs: number) {
  const environmentId = ctx.environment.id;
  return write(
    ctx.db,
    sql`
    UPDATE persons SET last_seen_at_ms = CAST(${nowMs} AS INTEGER)
    WHERE environment_id = ${environmentId} AND last_seen_at_ms < ${nowMs} AND id IN (
      SELECT person_id FROM person_distinct_ids
      WHERE environment_id = ${environmentId} AND distinct_id IN (SELECT value FROM json_each(${json}))
    )`,
  );
}
