import { and, asc, eq, sql } from "drizzle-orm";
import { type analyticsEvents, type consentLog, personDistinctIds, persons } from "../db/schema.ts";
import { rows } from "../db/statement.ts";
import { iso } from "../lib/time.ts";
import type { Ctx } from "../runtime.ts";
import { presentConsent } from "./consent.ts";

/** How many of a person's ids are looked at, and how many of the newest rows of each id. */
const IDS_MAX = 50;
const ROWS_OF_ID = 20;

type EventRow = Pick<
  typeof analyticsEvents.$inferSelect,
  "uuid" | "event" | "distinctId" | "timestampMs" | "receivedAtMs" | "properties"
>;

/**
 * A person for people to look at: who they are, and the newest of what they did and said. Whatever is held, it costs at
 * most `IDS_MAX` ids and `ROWS_OF_ID` rows of each.
 */
export async function profile(ctx: Ctx, distinctId: string) {
  const environmentId = ctx.environment.id;
  const personId = sql`(
    SELECT person_id FROM person_distinct_ids WHERE environment_id = ${environmentId} AND distinct_id = ${distinctId})`;
  const ofPerson = sql`environment_id = ${environmentId} AND person_id IS NOT NULL AND person_id = ${personId}`;
  // The id asked for is looked at too where it belongs to nobody.
  const ids = sql`
    SELECT ${distinctId} AS id UNION SELECT id FROM (
      SELECT distinct_id AS id FROM person_distinct_ids WHERE ${ofPerson} LIMIT ${IDS_MAX})`;
  const [[person], distinctIds, events, consents] = await ctx.db.batch([
    ctx.db
      .select()
      .from(persons)
      .where(and(eq(persons.environmentId, environmentId), eq(persons.id, personId))),
    ctx.db
      .select()
      .from(personDistinctIds)
      .where(ofPerson)
      .orderBy(asc(personDistinctIds.personId))
      .limit(IDS_MAX + 1),
    rows<EventRow>(
      ctx.db,
      sql`
      SELECT e.uuid AS uuid, e.event AS event, e.distinct_id AS distinctId, e.timestamp_ms AS timestampMs,
        e.received_at_ms AS receivedAtMs, e.properties AS properties
      FROM (${ids}) AS i
      CROSS JOIN person_distinct_ids AS d ON d.environment_id = ${environmentId} AND d.distinct_id = i.id
      CROSS JOIN analytics_events AS e
        ON e.environment_id = ${environmentId} AND e.distinct_id = i.id AND e.seq > d.event_count - ${ROWS_OF_ID}
      ORDER BY e.received_at_ms DESC, e.seq DESC LIMIT ${ROWS_OF_ID}`,
    ),
    rows<typeof consentLog.$inferSelect>(
      ctx.db,
      sql`
      SELECT c.environment_id AS environmentId, c.distinct_id AS distinctId, c.seq AS seq, c.id AS id,
        c.purpose AS purpose, c.decision AS decision, c.method AS method, c.notice_version AS noticeVersion,
        c.source AS source, c.gpc AS gpc, c.occurred_at_ms AS occurredAtMs, c.received_at_ms AS receivedAtMs
      FROM (${ids}) AS i
      CROSS JOIN consent_log AS c
        ON c.environment_id = ${environmentId} AND c.distinct_id = i.id AND c.seq > (
          SELECT seq FROM consent_log
          WHERE environment_id = ${environmentId} AND distinct_id = i.id ORDER BY seq DESC LIMIT 1
        ) - ${ROWS_OF_ID}
      ORDER BY c.received_at_ms DESC, c.seq DESC LIMIT ${ROWS_OF_ID}`,
    ),
  ]);
  return {
    person:
      person === undefined
        ? null
        : {
            personId: person.id,
            properties: person.properties,
            isIdentified: person.isIdentified,
            createdAt: iso(person.createdAtMs),
            lastSeenAt: iso(person.lastSeenAtMs),
          },
    distinctIds: distinctIds.slice(0, IDS_MAX).map(({ distinctId: id, via, linkedAtMs, eventCount }) => ({
      distinctId: id,
      via,
      linkedAt: linkedAtMs === null ? null : iso(linkedAtMs),
      eventCount,
    })),
    isCut: distinctIds.length > IDS_MAX,
    events: events.map(({ timestampMs, receivedAtMs, ...event }) => ({
      ...event,
      timestamp: iso(timestampMs),
      receivedAt: iso(receivedAtMs),
    })),
    consents: consents.map(presentConsent),
  };
}

export type Profile = Awaited<ReturnType<typeof profile>>;
