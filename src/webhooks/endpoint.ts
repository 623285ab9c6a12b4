import { sealSecret } from "../auth/stored-secret.ts";
import { requireApp } from "../catalog/apps/app.ts";
import { clockSql } from "../db/clock.ts";
import { databaseIndexOf } from "../db/databases.ts";
import { all, fragment, type RowOf, select, statement } from "../db/sql.ts";
import { webhookEndpoints } from "../db/tables.ts";
import { invalid, PurserError } from "../errors.ts";
import { sha256 } from "../lib/hash.ts";
import { iso } from "../lib/time.ts";
import type { AdminCtx, Environment, Mode, SystemCtx } from "../runtime.ts";
import type { WebhookOutput } from "./responses.ts";

const columns = {
  id: webhookEndpoints.id,
  environmentId: webhookEndpoints.environmentId,
  url: webhookEndpoints.url,
  types: webhookEndpoints.types,
  description: webhookEndpoints.description,
  createdAtMs: webhookEndpoints.createdAtMs,
  failingSinceMs: webhookEndpoints.failingSinceMs,
};
/** SQL: an `EndpointRow`, of `webhook_endpoints AS w` in `environments AS e`. */
export const endpointColumns = fragment`${select(columns, "w")}, w.is_enabled AS "isEnabled", e.app_id AS "appId",
  e.mode AS "mode", ${clockSql("e.features")} AS "clock"`;
export type EndpointRow = RowOf<typeof columns> & {
  readonly isEnabled: 0 | 1;
  readonly appId: string;
  readonly mode: Mode;
  readonly clock: string | null;
};

const selectEndpoint = statement<{ appId: string; webhookId: string }, EndpointRow>`
  SELECT ${endpointColumns} FROM webhook_endpoints AS w CROSS JOIN environments AS e ON e.id = w.environment_id
  WHERE w.id = :webhookId AND e.app_id = :appId`;

/** An application's endpoint. Throws `not_found`. */
export async function requireEndpoint(root: SystemCtx, appId: string, webhookId: string): Promise<EndpointRow> {
  const [row] = await all(root.db, selectEndpoint({ appId, webhookId }));
  if (row !== undefined) return row;
  await requireApp(root, appId);
  throw new PurserError("not_found", "The application has no such endpoint.", { param: "webhookId" });
}

/** The same, where a message is to be sent to it. Throws `invalid_request` when it is off. */
export async function requireEnabledEndpoint(root: SystemCtx, appId: string, webhookId: string): Promise<EndpointRow> {
  const row = await requireEndpoint(root, appId, webhookId);
  if (row.isEnabled === 1) return row;
  throw invalid("webhookId", "The endpoint is off. Switch it on first, with `isEnabled`.");
}

export function environmentOf({ environmentId, appId, mode }: EndpointRow): Environment {
  return { id: environmentId, appId, mode, database: databaseIndexOf(appId) ?? 0 };
}

/** An endpoint as the API returns it. */
export function presentEndpoint(row: EndpointRow): WebhookOutput {
  return {
    webhookId: row.id,
    mode: row.mode,
    url: row.url,
    // JSON that Purser wrote from a list of texts.
    types: row.types === null ? null : (JSON.parse(row.types) as string[]),
    description: row.description,
    isEnabled: row.isEnabled === 1,
    createdAt: iso(row.createdAtMs),
  };
}

/** A new secret, and how it is stored. Throws `secrets_unavailable`. */
export async function makeSecret(
  admin: AdminCtx,
  environment: Pick<Environment, "appId" | "mode">,
): Promise<{ readonly secret: string; readonly sealed: string }> {
  // A hash of more random bits than it has itself, as base64.
  const hash = await sha256(admin.newId("") + admin.newId(""));
  const secret = `whsec_${hash.replaceAll("-", "+").replaceAll("_", "/")}=`;
  return { secret, sealed: await sealSecret(admin, { purpose: "webhook", environment }, secret) };
}

const enabled = fragment`(
  SELECT json_group_array(json_object('id', id, 'types', json(types), 'exports', wants_exports) ORDER BY id)
  FROM webhook_endpoints WHERE environment_id = environments.id AND is_enabled = 1
)`;

/** Tells the endpoints that are on to those who write. It belongs in the batch that changes them. `ids`: environments. */
export const syncEndpoints = statement<{ ids: string }>`
  UPDATE environments SET features = nullif(iif(${enabled} = '[]',
    json_remove(coalesce(features, '{}'), '$.webhooks'),
    json_set(coalesce(features, '{}'), '$.webhooks', json(${enabled}))), '{}')
  WHERE id IN (SELECT value FROM json_each(:ids))`;
