import { fragment, nowMsSql, type Statement, statement } from "../db/sql.ts";
import { jsonChunks } from "../lib/json.ts";
import type { TenantCtx } from "../runtime.ts";
import { daySql } from "./limits/analytics-limits.ts";
import { isCounted } from "./limits/count.ts";
import type { PeopleChange } from "./plan-people.ts";

/** A list of rows is sent as JSON, because D1 binds at most 100 values, and binds numbers as REAL. */
type Rows = { environmentId: number; rows: string };
type RowsAt = Rows & { nowMs: number };

/** The constraints that refuse the batch when something changed after it was read. */
export const peopleConflicts = new Set([
  "guard_people",
  "distinct_ids_claim_version",
  "distinct_ids_claims_made",
  "distinct_ids_no_circle",
  "id_properties_version",
] as const);

const writeProperties = statement<Rows>`
  INSERT INTO id_properties (environment_id, distinct_id, properties, version)
  SELECT CAST(:environmentId AS INTEGER), value ->> 0, value ->> 1, value ->> 2 FROM json_each(:rows) WHERE true
  ON CONFLICT (environment_id, distinct_id) DO UPDATE SET properties = excluded.properties, version = excluded.version`;

const lastSeq = fragment`SELECT seq FROM analytics_events AS e
  WHERE e.environment_id = :environmentId AND e.distinct_id = value ->> 0 ORDER BY seq DESC LIMIT 1`;
const countedSeq = fragment`SELECT event_count FROM distinct_ids AS d
  WHERE d.environment_id = :environmentId AND d.distinct_id = value ->> 0`;
const uncountedBytes = fragment`SELECT sum(octet_length(e.properties)) FROM analytics_events AS e
  WHERE e.environment_id = :environmentId AND e.distinct_id = value ->> 0 AND e.seq > coalesce((${countedSeq}), 0)`;

/**
 * Counts the new events of each id, so it comes after the events. It needs no guard, because these facts only grow. If it is
 * repeated, it finds nothing new: where claims are made, the batch fails on their versions.
 */
const upsertIds = statement<RowsAt & { isCounted: number }>`
  INSERT INTO distinct_ids (
    environment_id, distinct_id, is_device_form, is_sender, is_identified, first_seen_at_ms, last_seen_at_ms,
    event_count, event_bytes, claims_made, is_user, day, day_events, day_bytes
  )
  WITH new_rows AS MATERIALIZED (
    SELECT value, coalesce((${lastSeq}), (${countedSeq}), 0) AS events, coalesce((${uncountedBytes}), 0) AS bytes FROM json_each(:rows)
  )
  SELECT CAST(:environmentId AS INTEGER), value ->> 0, value ->> 1, value ->> 2, value ->> 3, ${nowMsSql},
    ${nowMsSql}, events, bytes, value ->> 4, value ->> 5, iif(:isCounted, ${daySql}, NULL), iif(:isCounted, events, 0),
    iif(:isCounted, bytes, 0)
  FROM new_rows WHERE true
  ON CONFLICT (environment_id, distinct_id) DO UPDATE SET is_sender = max(is_sender, excluded.is_sender),
    is_identified = max(is_identified, excluded.is_identified), is_user = max(is_user, excluded.is_user),
    last_seen_at_ms = max(last_seen_at_ms, iif(excluded.event_count > event_count, excluded.last_seen_at_ms, 0)),
    event_count = excluded.event_count, event_bytes = event_bytes + excluded.event_bytes,
    day = coalesce(excluded.day, day),
    day_events = iif(excluded.day IS NULL, day_events,
      iif(day = excluded.day, day_events, 0) + excluded.event_count - event_count),
    day_bytes = iif(excluded.day IS NULL, day_bytes, iif(day = excluded.day, day_bytes, 0) + excluded.event_bytes),
    claims_made = claims_made + excluded.claims_made
  WHERE excluded.event_count > event_count OR excluded.is_sender > is_sender OR excluded.is_identified > is_identified
    OR excluded.is_user > is_user OR excluded.claims_made > 0`;

/**
 * A row is [id, version, claimer, via, isVerified]. Its record exists. This is an upsert, because an UPDATE that joins a list
 * may read the whole list for each record.
 */
const changeClaims = statement<RowsAt>`
  INSERT INTO distinct_ids (
    environment_id, distinct_id, is_device_form, first_seen_at_ms, last_seen_at_ms, claimed_by, claimed_via,
    claimed_at_ms, claim_is_verified, claim_version
  )
  SELECT CAST(:environmentId AS INTEGER), value ->> 0, 0, ${nowMsSql}, ${nowMsSql},
    value ->> 2, value ->> 3, ${nowMsSql}, value ->> 4, value ->> 1
  FROM json_each(:rows) WHERE true
  ON CONFLICT (environment_id, distinct_id) DO UPDATE SET claimed_by = excluded.claimed_by,
    claimed_via = excluded.claimed_via, claimed_at_ms = excluded.claimed_at_ms,
    claim_is_verified = excluded.claim_is_verified, claim_version = excluded.claim_version`;

/** The statements that store the changes to people. They come after the statements of the events, in the same batch. */
export function peopleWrites(ctx: TenantCtx, change: PeopleChange, nowMs: number): Statement[] {
  const environmentId = ctx.environment.id;
  const properties = change.properties.map((row) => [row.distinctId, row.properties, row.version + 1]);
  const ids = change.ids.map((id) => [
    id.distinctId,
    Number(id.isDeviceForm),
    Number(id.isSender),
    Number(id.isIdentified),
    id.claimsMade,
    Number(id.isUser),
  ]);
  const made = change.changes.map(({ distinctId, claim, version }) => [
    ...[distinctId, version + 1, claim.by, claim.via, Number(claim.isVerified)],
  ]);
  return [
    ...jsonChunks(properties).map((rows) => writeProperties({ environmentId, rows })),
    ...jsonChunks(ids).map((rows) => upsertIds({ environmentId, rows, nowMs, isCounted: Number(isCounted(ctx)) })),
    ...jsonChunks(made).map((rows) => changeClaims({ environmentId, rows, nowMs })),
  ];
}
