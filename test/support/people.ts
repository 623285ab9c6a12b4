import { env } from "cloudflare:workers";
import type { ExportDocument } from "../../src/api/exports/export-document.ts";
import type { Client, TestApp } from "./world.ts";

export interface SentEvent {
  readonly event: string;
  readonly distinct_id: unknown;
  readonly properties?: unknown;
  readonly uuid?: string;
  readonly [key: string]: unknown;
}

/** PostHog's responses to events that are stored, and to events above a limit. */
export const OK = { status: 1 };
export const LIMITED = { status: 1, quota_limited: ["events"] };

/** The id of a device, by number. */
export const device = (n: number | string): string => `0194685f-8a3c-7d11-9f2b-${`${n}`.padStart(12, "0")}`;
export const seen = (id: string, properties: object = {}): SentEvent => ({
  event: "seen",
  distinct_id: id,
  properties,
});
/** The event by which `id` claims `other`. */
export const identify = (id: string, other?: string, properties: object = {}): SentEvent => ({
  event: "$identify",
  distinct_id: id,
  properties: { ...properties, ...(other === undefined ? {} : { $anon_distinct_id: other }) },
});

/** Sends events like posthog-node. Throws unless all are accepted. */
export async function send(call: Client, key: string, batch: readonly SentEvent[]): Promise<void> {
  const answer = await call("POST", "/batch/", { body: { api_key: key, batch } });
  if (answer.status !== 200 || answer.body.refused !== undefined) {
    throw new Error(`/batch/ answered ${answer.status}: ${JSON.stringify(answer.body)}`);
  }
}

export interface StoredEvent {
  readonly seq: number;
  readonly uuid: string;
  readonly event: string;
  readonly distinctId: string;
  readonly timestampMs: number;
  readonly properties: string;
}

/** The events stored under a distinct id, in order of arrival. */
export async function eventsOf(app: TestApp, distinctId: string): Promise<StoredEvent[]> {
  const { results } = await env.DB.prepare(
    `SELECT seq, uuid, event, distinct_id AS distinctId, timestamp_ms AS timestampMs, properties FROM analytics_events
     WHERE environment_id = ? AND distinct_id = ? ORDER BY seq`,
  )
    .bind(app.environments.live.id, distinctId)
    .all<StoredEvent>();
  return results;
}

/** The stored record of a distinct id. Null if there is none. */
export interface StoredId {
  readonly distinctId: string;
  readonly firstSeenAtMs: number;
  readonly lastSeenAtMs: number;
  readonly eventCount: number;
  readonly eventBytes: number;
  readonly isDeviceForm: 0 | 1;
  readonly isSender: 0 | 1;
  readonly isIdentified: 0 | 1;
  readonly claimedBy: string | null;
  readonly via: string | null;
  readonly claimedAtMs: number | null;
  readonly isVerified: 0 | 1;
  readonly version: number;
  readonly isVerifiedUser: 0 | 1;
  readonly replacedCount: number;
  /** JSON, by secret keys and by other keys. Null if none was ever set. */
  readonly verifiedProperties: string | null;
  readonly properties: string | null;
}

const SELECT_IDS = `SELECT d.distinct_id AS distinctId, first_seen_at_ms AS firstSeenAtMs, last_seen_at_ms AS lastSeenAtMs,
    event_count AS eventCount, event_bytes AS eventBytes, is_device_form AS isDeviceForm, is_sender AS isSender,
    is_identified AS isIdentified, claimed_by AS claimedBy, claimed_via AS via, claimed_at_ms AS claimedAtMs,
    claim_is_verified AS isVerified, claim_version AS version, is_verified_user AS isVerifiedUser,
    replaced_count AS replacedCount, v.properties AS verifiedProperties, p.properties AS properties
  FROM distinct_ids AS d
  LEFT JOIN id_properties AS v ON v.environment_id = d.environment_id AND v.distinct_id = d.distinct_id AND v.is_verified = 1
  LEFT JOIN id_properties AS p ON p.environment_id = d.environment_id AND p.distinct_id = d.distinct_id AND p.is_verified = 0
  WHERE d.environment_id = ?`;

/** All stored records of an environment's ids, by id. */
export async function idsOf(app: TestApp, mode: "live" | "test" = "live"): Promise<StoredId[]> {
  const { results } = await env.DB.prepare(`${SELECT_IDS} ORDER BY d.distinct_id`)
    .bind(app.environments[mode].id)
    .all<StoredId>();
  return results;
}

/** The stored record of one id. */
export async function idOf(app: TestApp, distinctId: string): Promise<StoredId | null> {
  return env.DB.prepare(`${SELECT_IDS} AND d.distinct_id = ?`).bind(app.environments.live.id, distinctId).first();
}

/** The claims, as `claimed < claimer`, with `!` for a verified claim. */
export async function claimsOf(app: TestApp): Promise<string[]> {
  const { results } = await env.DB.prepare(
    `SELECT distinct_id || ' < ' || claimed_by || iif(claim_is_verified, '!', '') AS claim FROM distinct_ids
     WHERE environment_id = ? AND claimed_by IS NOT NULL ORDER BY distinct_id`,
  )
    .bind(app.environments.live.id)
    .all<{ claim: string }>();
  return results.map(({ claim }) => claim);
}

/** The export document of a person. */
export async function exportOf(call: Client, app: TestApp, distinctId: string): Promise<ExportDocument> {
  const minted = await call("POST", "/api/v1/export-person", { key: app.keys.sk_live, body: { distinctId } });
  const answer = await call("GET", minted.body.downloadUrl);
  if (answer.status !== 200) throw new Error(`The download got ${answer.status}.`);
  return answer.body;
}

/** The ids of a person in the export document. */
export async function personIds(call: Client, app: TestApp, distinctId: string): Promise<string[]> {
  const { person } = await exportOf(call, app, distinctId);
  return person?.distinctIds.map((row) => row.distinctId) ?? [];
}
