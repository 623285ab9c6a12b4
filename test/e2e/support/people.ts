/** Reads people's data from the Worker's database, for tests outside of the Worker. */

export interface StoredEvent {
  readonly uuid: string;
  readonly event: string;
  readonly distinctId: string;
  readonly timestampMs: number;
  readonly properties: Record<string, unknown>;
}

/** Returns the events of these distinct ids, id by id, in order of arrival. */
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
  /** The id itself and the ids that it claims directly, sorted. */
  readonly distinctIds: readonly string[];
  /** The id that claims this one: `ana`, or `ana!` if the claim is verified. */
  readonly claimedBy: string | null;
}

/** The stored record of a distinct id; null while it has only personless events. */
export async function personIn(
  db: D1Database,
  environmentId: number,
  distinctId: string,
): Promise<StoredPerson | null> {
  const row = await db
    .prepare(
      `SELECT d.is_identified AS isIdentified, coalesce(p.properties, '{}') AS properties,
         d.claimed_by || iif(d.claim_is_verified = 1, '!', '') AS claimedBy, (
           SELECT json_group_array(c.distinct_id) FROM distinct_ids AS c
           WHERE c.environment_id = ?1 AND ?2 IN (c.distinct_id, c.claimed_by)) AS ids
       FROM distinct_ids AS d LEFT JOIN id_properties AS p
         ON p.environment_id = d.environment_id AND p.distinct_id = d.distinct_id AND p.is_verified = 0
       WHERE d.environment_id = ?1 AND d.distinct_id = ?2 AND (d.is_sender = 1 OR d.claimed_by IS NOT NULL)`,
    )
    .bind(environmentId, distinctId)
    .first<{ isIdentified: number; properties: string; ids: string; claimedBy: string | null }>();
  if (row === null) return null;
  return {
    isIdentified: row.isIdentified === 1,
    properties: JSON.parse(row.properties),
    distinctIds: JSON.parse(row.ids).sort(),
    claimedBy: row.claimedBy,
  };
}
