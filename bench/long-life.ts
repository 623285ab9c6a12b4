/** SQL that makes people with very much, for benchmarks. */

/** About 300 bytes of properties for an event, like a page view of posthog-js. */
const PROPERTIES = `'{"$current_url":"https://shop.example.com/products/' || i || '?ref=newsletter","$browser":"Firefox",' ||
  '"$browser_version":147,"$os":"Linux","$screen_height":1080,"$screen_width":1920,"$referrer":"$direct",' ||
  '"title":"Product ' || i || ' — Zoë’s shop","$session_id":"0194685f-8a3c-7d11-9f2b-' || printf('%012d', i) || '"}'`;

/** A person of so many analytics events. */
export async function fillEvents(
  db: D1Database,
  environmentId: number,
  distinctId: string,
  events: number,
): Promise<void> {
  await db
    .prepare(
      `INSERT INTO distinct_ids (environment_id, distinct_id, is_device_form, is_sender, is_identified, first_seen_at_ms,
         last_seen_at_ms, event_count, event_bytes)
       VALUES (CAST(? AS INTEGER), ?, 0, 1, 1, 1762161300000, 1762161300000, CAST(? AS INTEGER), CAST(? AS INTEGER))`,
    )
    .bind(environmentId, distinctId, events, events * 300)
    .run();
  for (let from = 1; from <= events; from += 50_000) {
    const to = Math.min(events, from + 49_999);
    await db
      .prepare(
        `INSERT INTO analytics_events (
           environment_id, distinct_id, seq, uuid, event, timestamp_ms, received_at_ms, properties
         )
         WITH RECURSIVE n(i) AS (SELECT ${from} UNION ALL SELECT i + 1 FROM n WHERE i < ${to})
         SELECT CAST(?1 AS INTEGER), ?2, i, printf('0194685f-8a3c-7d11-%04x-%012x', length(?2), i), '$pageview',
           1762161300000 + i * 1009, 1762161300200 + i * 1009, ${PROPERTIES}
         FROM n`,
      )
      .bind(environmentId, distinctId)
      .run();
  }
}

/** A person who claims many ids. The head of its export must fit into memory. */
export async function claimIds(db: D1Database, environmentId: number, distinctId: string, ids: number): Promise<void> {
  await db
    .prepare(
      `INSERT INTO distinct_ids (environment_id, distinct_id, is_device_form, is_sender, first_seen_at_ms, last_seen_at_ms)
       VALUES (CAST(? AS INTEGER), ?, 0, 1, 1, 1)`,
    )
    .bind(environmentId, distinctId)
    .run();
  for (let from = 1; from <= ids; from += 50_000) {
    await db
      .prepare(
        `INSERT INTO distinct_ids (environment_id, distinct_id, is_device_form, first_seen_at_ms, last_seen_at_ms, claimed_by,
           claimed_via, claimed_at_ms)
         WITH RECURSIVE n(i) AS (SELECT ${from} UNION ALL SELECT i + 1 FROM n WHERE i < ${Math.min(ids, from + 49_999)})
         SELECT CAST(?1 AS INTEGER), printf('%08x-0000-4000-8000-%012x', i, i), 1, 1, 1, ?2, 'alias', i FROM n`,
      )
      .bind(environmentId, distinctId)
      .run();
  }
}
