/** What the Worker's database holds of people, for tests that speak to it from outside. */

export interface StoredEvent {
  readonly uuid: string;
  readonly event: string;
  readonly distinctId: string;
  readonly timestampMs: number;
  readonly properties: Record<string, unknown>;
}

/** The events under some distinct ids, in order of arrival, id after id. */
export async function eventsIn(db: D1Database, environmentId: number, ids: readonly string[]): Promise<StoredEvent[]> {
  const { results } = await db
    .prepare(
      `SELECT uuid, event, distinct_id AS distinctId, timestamp_ms AS timestampMs, properties FROM analytics_events
       WHERE environment_id = ? AND distinct_id IN (SELECT value FROM json_each(?)) ORDER BY distinct_id, seq`,
    )
    .bind(environmentId, JSON.stringify(ids))
    .all<Omit<StoredEvent, "properties"> & { properties: string }>();
  return results.map((row) => ({ ...row, properties: JSON.parse(row.properties) }));
}

export interface StoredPerson {
  readonly isIdentified: boolean;
  readonly properties: Record<string, unknown>;
  /** Sorted. */
  readonly distinctIds: readonly string[];
}

/** The person whom a distinct id belongs to; null where it belongs to nobody. */
export async function personIn(
  db: D1Database,
  environmentId: number,
  distinctId: string,
): Promise<StoredPerson | null> {
  const row = await db
    .prepare(
      `SELECT p.is_identified AS isIdentified, p.properties, json_group_array(d.distinct_id) AS ids
       FROM persons AS p JOIN person_distinct_ids AS d ON d.environment_id = p.environment_id AND d.person_id = p.id
       WHERE p.environment_id = ?1 AND p.id = (
         SELECT person_id FROM person_distinct_ids WHERE environment_id = ?1 AND distinct_id = ?2)
       GROUP BY p.id`,
    )
    .bind(environmentId, distinctId)
    .first<{ isIdentified: number; properties: string; ids: string }>();
  if (row === null) return null;
  return {
    isIdentified: row.isIdentified === 1,
    properties: JSON.parse(row.properties),
    distinctIds: JSON.parse(row.ids).sort(),
  };
}
