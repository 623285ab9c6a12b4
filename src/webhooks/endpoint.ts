import { and, eq, not, type Placeholder, type SQL, sql } from "drizzle-orm";
import { alias, type SQLiteColumn } from "drizzle-orm/sqlite-core";
import { maySeeUsers } from "../auth/scopes.ts";
import { sealSecret } from "../auth/secrets.ts";
import { requireApp } from "../catalog/apps.ts";
import {
  assignments,
  computed,
  drizzle,
  fields,
  hasRow,
  names,
  query,
  read,
  returning,
  type ValueOf,
} from "../db/query.ts";
import { environments, webhookDeliveries, webhookEndpoints } from "../db/schema.ts";
import { parseDatabaseIndex } from "../db/session.ts";
import { clockOf } from "../db/settings-snapshot.ts";
import { all, type Db, type StatementRow } from "../db/sql.ts";
import { invalid, PurserError } from "../errors.ts";
import { sha256 } from "../lib/encoding.ts";
import { DAY_MS, iso } from "../lib/time.ts";
import type { AdminCtx, Environment, Mode, SystemCtx } from "../runtime.ts";

export interface WebhookOutput {
  readonly webhookId: string;
  readonly mode: Mode;
  readonly url: string;
  readonly types: string[] | null;
  readonly description: string | null;
  readonly isEnabled: boolean;
  readonly createdAt: string;
}

/** The fields of an endpoint in its environment. */
export const endpointFields = () => ({
  ...fields(
    webhookEndpoints,
    "id",
    "environmentId",
    "url",
    "types",
    "description",
    "isEnabled",
    "createdAtMs",
    "failingSinceMs",
    "offFromMs",
    "offUntilMs",
  ),
  ...fields(environments, "appId", "mode"),
  ...computed({ clock: clockOf() }),
});

type EndpointKey = { appId: string; webhookId: string };
/** An application's endpoint. */
export const selectEndpoint = query((value: ValueOf<EndpointKey>) =>
  drizzle
    .select(endpointFields())
    .from(webhookEndpoints)
    .crossJoin(environments)
    .where(
      and(
        eq(webhookEndpoints.id, value("webhookId")),
        eq(environments.id, webhookEndpoints.environmentId),
        eq(environments.appId, value("appId")),
      ),
    ),
);
export type EndpointRow = StatementRow<typeof selectEndpoint>;

/** Returns an application's endpoint. Throws `not_found`. */
export async function requireEndpoint(root: SystemCtx, appId: string, webhookId: string): Promise<EndpointRow> {
  const [row] = await all(root.db, selectEndpoint({ appId, webhookId }));
  if (row !== undefined) return row;
  await requireApp(root, appId);
  throw new PurserError("not_found", "The application has no such endpoint.", { param: "webhookId" });
}

/** Throws `invalid_request` when the endpoint is disabled. */
export function assertEnabled({ isEnabled }: EndpointRow): void {
  if (isEnabled) return;
  throw invalid("webhookId", "The endpoint is disabled. Enable it first: set `isEnabled` to true.");
}

export function readEnvironment({ environmentId, appId, mode }: EndpointRow): Environment {
  return { id: environmentId, appId, mode, database: parseDatabaseIndex(appId) ?? 0 };
}

/**
 * An endpoint as the API returns it. Callers who may not read its messages see only the origin of its URL, which may have a
 * secret.
 */
export function presentEndpoint(root: Pick<SystemCtx, "rights">, row: EndpointRow): WebhookOutput {
  return {
    webhookId: row.id,
    mode: row.mode,
    url: maySeeUsers(root) ? row.url : new URL(row.url).origin,
    types: row.types === null ? null : [...row.types],
    description: row.description,
    isEnabled: row.isEnabled,
    createdAt: iso(row.createdAtMs),
  };
}

/** Returns a new secret, and its stored form. Throws `secrets_unavailable`. */
export async function makeSecret(
  admin: AdminCtx,
  environment: Pick<Environment, "appId" | "mode">,
): Promise<{ readonly secret: string; readonly sealed: string }> {
  // The secret is the base64 of a hash. The hashed characters have more random bits than the hash.
  const hash = await sha256(admin.newId("") + admin.newId(""));
  const secret = `whsec_${hash.replaceAll("-", "+").replaceAll("_", "/")}=`;
  return { secret, sealed: await sealSecret(admin, { purpose: "webhook", environment }, secret) };
}

const enabledEndpoints = () => {
  const { id, types, wantsExports, environmentId, isEnabled } = webhookEndpoints;
  return sql`(
    SELECT json_group_array(json_object('id', ${id}, 'types', json(${types}), 'exports', ${wantsExports}) ORDER BY ${id})
    FROM ${webhookEndpoints} WHERE ${environmentId} = ${environments.id} AND ${isEnabled} = 1
  )`;
};

/**
 * Copies the enabled endpoints into the settings snapshots of the environments `ids`. Send it in the batch that changes the endpoints.
 */
export const syncEndpoints = query((value: ValueOf<{ ids: string }>) => {
  const before = sql`coalesce(${environments.settingsSnapshot}, '{}')`;
  const settingsSnapshot = sql`nullif(iif(${enabledEndpoints()} = '[]', json_remove(${before}, '$.webhooks'),
    json_set(${before}, '$.webhooks', json(${enabledEndpoints()}))), '{}')`;
  return sql`UPDATE ${environments} SET ${assignments(environments, { settingsSnapshot })}
    WHERE ${environments.id} IN (SELECT value FROM json_each(${value("ids")}))`;
});

/** An endpoint that has failed for this long, or responds with 410, is disabled (H4). */
export const DISABLE_AFTER_MS = 5 * DAY_MS;

const DELIVERIES_A_STEP = 1_000;
/** The most steps in a request. The cron makes the remaining ones. */
const REQUEST_STEPS_MAX = 20;

/** SQL: whether an endpoint is enabled. */
const isEndpointEnabled = (id: SQL) =>
  hasRow(webhookEndpoints, sql`${webhookEndpoints.id} = ${id} AND ${webhookEndpoints.isEnabled} = 1`);

/** Fails up to `DELIVERIES_A_STEP` pending deliveries of disabled or deleted endpoints. `ids`: the endpoints. */
export const failPending = query((value: ValueOf<{ ids: string }>) => {
  const { endpointId, messageId, status } = webhookDeliveries;
  return returning(
    computed({ isFailed: sql<1>`1` }),
    (list) => sql`
      UPDATE ${webhookDeliveries} SET ${assignments(webhookDeliveries, { status: sql`'failed'` })}
      WHERE (${names(endpointId, messageId)}) IN (
        SELECT ${endpointId}, ${messageId} FROM json_each(${value("ids")}) AS j
        CROSS JOIN ${webhookDeliveries} INDEXED BY webhook_deliveries_due ON ${endpointId} = j.value AND ${status} = 'pending'
        WHERE ${not(isEndpointEnabled(sql`j.value`))} LIMIT ${DELIVERIES_A_STEP}
      ) RETURNING ${list}`,
  );
});

/** Repeats `failPending` while `mayContinue()` is true. Returns whether no pending deliveries are left. */
export async function failAllPending(
  db: Db,
  ids: readonly string[],
  mayContinue = upTo(REQUEST_STEPS_MAX),
): Promise<boolean> {
  const values = { ids: JSON.stringify(ids) };
  while (mayContinue()) {
    if ((await all(db, failPending(values))).length < DELIVERIES_A_STEP) return true;
  }
  return false;
}

function upTo(steps: number): () => boolean {
  let stepsLeft = steps;
  return () => stepsLeft-- > 0;
}

/** SQL: the next endpoint, by id, with pending deliveries. */
export const nextEndpointWithPending = (after: SQL | Placeholder | SQLiteColumn) => {
  const { endpointId, status } = webhookDeliveries;
  return sql`(
    SELECT ${endpointId} FROM ${webhookDeliveries} INDEXED BY webhook_deliveries_due
    WHERE ${status} = 'pending' AND ${endpointId} > ${after} ORDER BY ${endpointId} LIMIT 1
  )`;
};

/** Disabled or deleted endpoints with pending deliveries. */
export const selectDisabledWithPending = query(() => {
  const waiting = alias(webhookDeliveries, "waiting");
  return read(
    fields(waiting, { id: "endpointId" }),
    (list) => sql`
      WITH RECURSIVE ${waiting} (${names(webhookDeliveries.endpointId)}) AS (
        SELECT ${nextEndpointWithPending(sql`''`)}
        UNION ALL SELECT ${nextEndpointWithPending(waiting.endpointId)} FROM ${waiting} WHERE ${waiting.endpointId} IS NOT NULL
      )
      SELECT ${list} FROM ${waiting} WHERE ${waiting.endpointId} IS NOT NULL AND ${not(isEndpointEnabled(sql`${waiting.endpointId}`))} LIMIT 20`,
  );
});
