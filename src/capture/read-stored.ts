import { and, eq, sql } from "drizzle-orm";
import { analyticsEvents, personDistinctIds, persons } from "../db/schema.ts";
import { assert } from "../lib/assert.ts";
import { isJsonObject, jsonChunks, parseJson } from "../lib/json.ts";
import type { Known, Person } from "../people/person-graph.ts";
import type { Ctx } from "../runtime.ts";
import type { CapturedEvent } from "./event.ts";

/** What is stored about a request's events: which of them came before, and the people whom the others speak of. */
export interface Stored {
  readonly uuids: ReadonlySet<string>;
  readonly known: Known;
}

/** Reads all that a plan builds on, at one moment and in one trip. */
export async function readStored(ctx: Ctx, events: readonly CapturedEvent[]): Promise<Stored> {
  const ids = new Set<string>();
  for (const { distinctId, link } of events) {
    ids.add(distinctId);
    if (link !== null) ids.add(link.otherId);
  }
  const uuidReads = jsonChunks(events.map((event) => event.uuid)).map((json) => uuidsAmong(ctx, json));
  const idChunks = jsonChunks([...ids]);
  const linkReads = idChunks.map((json) => linksOf(ctx, json));
  const personReads = idChunks.map((json) => personsOf(ctx, json));
  const [first, ...others] = [...uuidReads, ...linkReads, ...personReads];
  assert(first !== undefined, "there is an event to read for");
  const results = await ctx.db.batch([first, ...others]);

  const uuids = new Set<string>();
  const links: { distinctId: string; personId: string | null }[] = [];
  // Two ids of one person in two chunks bring them twice.
  const people = new Map<string, Person>();
  for (const row of results.flat()) {
    if ("uuid" in row) uuids.add(row.uuid);
    else if ("distinctId" in row) links.push(row);
    else people.set(row.id, { ...row, properties: readProperties(row.properties) });
  }
  return { uuids, known: { persons: [...people.values()], links } };
}

function readProperties(text: string) {
  const properties = parseJson(text);
  assert(isJsonObject(properties), "a person's properties are a JSON object");
  return properties;
}

const among = (json: string) => sql`(SELECT value FROM json_each(${json}))`;

function uuidsAmong(ctx: Ctx, json: string) {
  return ctx.db
    .select({ uuid: analyticsEvents.uuid })
    .from(analyticsEvents)
    .where(and(eq(analyticsEvents.environmentId, ctx.environment.id), sql`${analyticsEvents.uuid} IN ${among(json)}`));
}

function linksOf(ctx: Ctx, json: string) {
  return ctx.db
    .select({ distinctId: personDistinctIds.distinctId, personId: personDistinctIds.personId })
    .from(personDistinctIds)
    .where(
      and(
        eq(personDistinctIds.environmentId, ctx.environment.id),
        sql`${personDistinctIds.distinctId} IN ${among(json)}`,
      ),
    );
}

function personsOf(ctx: Ctx, json: string) {
  const environmentId = ctx.environment.id;
  return ctx.db
    .select({
      id: persons.id,
      properties: persons.properties,
      isIdentified: persons.isIdentified,
      createdAtMs: persons.createdAtMs,
      lastSeenAtMs: persons.lastSeenAtMs,
      version: persons.version,
    })
    .from(persons)
    .where(
      and(
        eq(persons.environmentId, environmentId),
        sql`${persons.id} IN (
          SELECT person_id FROM person_distinct_ids
          WHERE environment_id = ${environmentId} AND distinct_id IN ${among(json)})`,
      ),
    );
}
