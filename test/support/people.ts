import { env } from "cloudflare:workers";
import { findPerson } from "./find-person.ts";
import type { Client, TestApp } from "./world.ts";
import { Clock, makeCtx } from "./world.ts";

export interface SentEvent {
  readonly event: string;
  readonly distinct_id: unknown;
  readonly properties?: unknown;
  readonly uuid?: string;
  readonly [key: string]: unknown;
}

/** Sends events as posthog-node does, and expects that they are taken. */
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

/** The UUIDs of all events that belong to whoever owns a distinct id; none where nobody does (P3). */
export async function personEventUuids(app: TestApp, distinctId: string): Promise<string[]> {
  const { distinctIds } = await findPerson(makeCtx(app.environments.live, new Clock()), distinctId);
  const { results } = await env.DB.prepare(
    `SELECT uuid FROM analytics_events
     WHERE environment_id = ? AND distinct_id IN (SELECT value FROM json_each(?)) ORDER BY uuid`,
  )
    .bind(app.environments.live.id, JSON.stringify(distinctIds.map((row) => row.distinctId)))
    .all<{ uuid: string }>();
  return results.map((row) => row.uuid);
}

/** The document that a person's link downloads. */
export async function exportOf(call: Client, app: TestApp, distinctId: string): Promise<ExportedDocument> {
  const minted = await call("POST", "/api/v1/export-person", { key: app.keys.sk_live, body: { distinctId } });
  const answer = await call("GET", minted.body.downloadUrl);
  if (answer.status !== 200) throw new Error(`the download answered ${answer.status}`);
  return answer.body;
}

export interface ExportedDocument {
  readonly person: { readonly isIdentified: boolean; readonly distinctIds: readonly unknown[] } | null;
  readonly events: { readonly analytics: readonly { readonly uuid: string; readonly properties: unknown }[] };
  readonly consentLog: readonly { readonly consentId: string }[];
}

export async function personOf(app: TestApp, distinctId: string) {
  return findPerson(makeCtx(app.environments.live, new Clock()), distinctId);
}
