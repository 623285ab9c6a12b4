import { and, eq, ne, not, or, sql } from "drizzle-orm";
import { requireEnvironment } from "../catalog/apps.ts";
import { type AuditEntryKey, auditEntryIsLatest, insertAuditEntry, newAuditEntry } from "../catalog/audit.ts";
import {
  asInteger,
  assignments,
  changedColumns,
  computed,
  drizzle,
  hasRow,
  insertFrom,
  query,
  type ValueOf,
} from "../db/query.ts";
import { environments, webhookEndpoints } from "../db/schema.ts";
import { timesOf } from "../db/settings-snapshot.ts";
import { all, batch } from "../db/sql.ts";
import { PurserError, temporarilyUnavailable } from "../errors.ts";
import { DAY_MS } from "../lib/time.ts";
import type { AdminCtx, Mode, SystemCtx } from "../runtime.ts";
import {
  type EndpointRow,
  endpointFields,
  failAllPending,
  failPending,
  makeSecret,
  presentEndpoint,
  requireEndpoint,
  selectEndpoint,
  syncEndpoints,
  type WebhookOutput,
} from "./endpoint.ts";
import { wantsType } from "./outbox.ts";

export interface NewSecretOutput extends WebhookOutput {
  readonly secret: string;
}

export interface CreateWebhookInput {
  readonly mode: Mode;
  readonly url: string;
  readonly types?: string[] | null | undefined;
  readonly description?: string | null | undefined;
}

export interface ChangeWebhookInput {
  readonly url?: string | undefined;
  readonly types?: string[] | null | undefined;
  readonly description?: string | null | undefined;
  readonly isEnabled?: boolean | undefined;
}

export interface ListWebhooksOutput {
  readonly webhooks: WebhookOutput[];
}

const ENDPOINTS_MAX = 10;

type EndpointIdKey = { environmentId: number; webhookId: string };

// The second condition makes a repeated batch insert nothing.
const mayAddEndpoint = (value: ValueOf<EndpointIdKey>) => {
  const { environmentId, id } = webhookEndpoints;
  const ofEnvironment = eq(environmentId, value("environmentId"));
  const count = drizzle
    .select(computed({ count: sql<number>`count(*)` }))
    .from(webhookEndpoints)
    .where(ofEnvironment);
  return sql`${count} < ${ENDPOINTS_MAX} AND ${not(hasRow(webhookEndpoints, eq(id, value("webhookId"))))}`;
};

type NewEndpoint = EndpointIdKey & {
  url: string;
  types: readonly string[] | null;
  wantsExports: boolean;
  description: string | null;
  sealed: string;
  nowMs: number;
};

const auditEndpointCreated = insertAuditEntry<EndpointIdKey>(mayAddEndpoint);
const insertEndpoint = query((value: ValueOf<NewEndpoint>) =>
  insertFrom(
    webhookEndpoints,
    {
      id: value("webhookId"),
      environmentId: value("environmentId"),
      url: value("url"),
      types: value("types", webhookEndpoints.types),
      wantsExports: value("wantsExports", webhookEndpoints.wantsExports),
      description: value("description"),
      secret: value("sealed"),
      createdAtMs: value("nowMs"),
    },
    sql`WHERE ${mayAddEndpoint(value)}`,
  ),
);
/** Creates an endpoint (H1). Throws `not_found`, `secrets_unavailable`, and `invalid_request` when there are ten already. */
export async function createWebhook(
  admin: AdminCtx,
  appId: string,
  { mode, url, types = null, description = null }: CreateWebhookInput,
): Promise<NewSecretOutput> {
  const environment = await requireEnvironment(admin, appId, mode);
  const { secret, sealed } = await makeSecret(admin, environment);
  const key = { environmentId: environment.id, webhookId: admin.newId("whk_") };
  const entry = newAuditEntry(admin, { appId, action: "webhook.created", target: key.webhookId, details: { mode } });
  const row = {
    ...{ ...key, url, description, sealed, nowMs: timesOf(environment.clock, admin).now() },
    types,
    wantsExports: wantsType(types, "person.exported"),
  };
  const [, , , [created]] = await batch(admin.db, [
    auditEndpointCreated({ ...entry, ...key }),
    insertEndpoint(row),
    syncEndpoints({ ids: JSON.stringify([environment.id]) }),
    selectEndpoint({ appId, webhookId: key.webhookId }),
  ]);
  if (created !== undefined) return { ...presentEndpoint(admin, created), secret };
  throw new PurserError("invalid_request", `An environment may have ${ENDPOINTS_MAX} endpoints. Delete one first.`, {
    details: { limit: ENDPOINTS_MAX },
  });
}

type EndpointChange = { webhookId: string; change: string };

const { url, types, wantsExports, description, isEnabled, offFromMs, offUntilMs } = webhookEndpoints;
const CHANGEABLE = { url, types, wantsExports, description, isEnabled };

const ofEndpoint = (value: ValueOf<{ webhookId: string }>) => eq(webhookEndpoints.id, value("webhookId"));
const differs = (value: ValueOf<EndpointChange>) => {
  const changed = changedColumns(value("change"), CHANGEABLE);
  const names = Object.keys(CHANGEABLE) as (keyof typeof CHANGEABLE)[];
  return or(...names.map((name) => sql`${CHANGEABLE[name]} IS NOT ${changed[name]}`));
};

const auditChanged = insertAuditEntry<EndpointChange>((value) =>
  hasRow(webhookEndpoints, and(ofEndpoint(value), differs(value))),
);
const updateEndpoint = query((value: ValueOf<EndpointChange & AuditEntryKey & { atMs: number }>) => {
  const changed = changedColumns(value("change"), CHANGEABLE);
  const isOn = changed.isEnabled;
  const [goesOff, goesOn] = [sql`${isEnabled} AND NOT ${isOn}`, sql`NOT ${isEnabled} AND ${isOn}`];
  const off = {
    offFromMs: sql`iif(${goesOff}, ${asInteger(value("atMs"))}, ${offFromMs})`,
    offUntilMs: sql`iif(${goesOff}, NULL, iif(${goesOn}, ${asInteger(value("atMs"))}, ${offUntilMs}))`,
  };
  return sql`UPDATE ${webhookEndpoints} SET ${assignments(webhookEndpoints, { ...changed, ...off, failingSinceMs: sql`NULL` })}
    WHERE ${and(ofEndpoint(value), auditEntryIsLatest(value))}`;
});

/**
 * Changes the given fields of an endpoint (H1). Throws `not_found`, and `temporarily_unavailable` when it is to be enabled
 * while too many deliveries from before it was disabled are still pending.
 */
export async function changeWebhook(
  admin: AdminCtx,
  before: EndpointRow,
  input: ChangeWebhookInput,
): Promise<WebhookOutput> {
  const { id: webhookId, appId } = before;
  if (input.isEnabled === true && !before.isEnabled && !(await failAllPending(admin.db, [webhookId]))) {
    throw temporarilyUnavailable(
      "Earlier deliveries of the endpoint are still being marked as failed. Try again in a minute.",
    );
  }
  const change = JSON.stringify({
    ...input,
    ...(input.types === undefined
      ? {}
      : { types: input.types && JSON.stringify(input.types), wantsExports: wantsType(input.types, "person.exported") }),
  });
  const details = { mode: before.mode, changed: Object.keys(input) };
  const entry = newAuditEntry(admin, { appId, action: "webhook.changed", target: webhookId, details });
  await batch(admin.db, [
    auditChanged({ ...entry, webhookId, change }),
    updateEndpoint({ ...entry, webhookId, change }),
    failPending({ ids: JSON.stringify([webhookId]) }),
    syncEndpoints({ ids: JSON.stringify([before.environmentId]) }),
  ]);
  if (input.isEnabled === false) await failAllPending(admin.db, [webhookId]);
  return presentEndpoint(admin, await requireEndpoint(admin, appId, webhookId));
}

const auditDeleted = insertAuditEntry<{ webhookId: string }>((value) => hasRow(webhookEndpoints, ofEndpoint(value)));
const deleteEndpoint = query((value: ValueOf<{ webhookId: string }>) =>
  drizzle.delete(webhookEndpoints).where(ofEndpoint(value)),
);

/** Deletes an endpoint, and returns its last state. Its pending messages are not sent. Throws `not_found`. */
export async function deleteWebhook(admin: AdminCtx, row: EndpointRow): Promise<WebhookOutput> {
  const { id: webhookId, appId } = row;
  const entry = newAuditEntry(admin, {
    appId,
    action: "webhook.deleted",
    target: webhookId,
    details: { mode: row.mode },
  });
  await batch(admin.db, [
    auditDeleted({ ...entry, webhookId }),
    deleteEndpoint({ webhookId }),
    failPending({ ids: JSON.stringify([webhookId]) }),
    syncEndpoints({ ids: JSON.stringify([row.environmentId]) }),
  ]);
  await failAllPending(admin.db, [webhookId]);
  return presentEndpoint(admin, row);
}

const selectEndpoints = query((value: ValueOf<{ environmentId: number }>) =>
  drizzle
    .select(endpointFields())
    .from(environments)
    .crossJoin(webhookEndpoints)
    .where(and(eq(environments.id, value("environmentId")), eq(webhookEndpoints.environmentId, environments.id)))
    .orderBy(webhookEndpoints.createdAtMs, webhookEndpoints.id),
);

/** Returns the endpoints of one mode, oldest first. Throws `not_found`. */
export async function listWebhooks(root: SystemCtx, appId: string, mode: Mode): Promise<ListWebhooksOutput> {
  const { id: environmentId } = await requireEnvironment(root, appId, mode);
  return {
    webhooks: (await all(root.db, selectEndpoints({ environmentId }))).map((row) => presentEndpoint(root, row)),
  };
}

const auditRotated = insertAuditEntry<{ webhookId: string }>((value) => hasRow(webhookEndpoints, ofEndpoint(value)));
// A repeated batch recognises its own secret.
const updateSecret = query((value: ValueOf<AuditEntryKey & { webhookId: string; sealed: string; untilMs: number }>) => {
  const { id, secret, previousUntilMs } = webhookEndpoints;
  return drizzle
    .update(webhookEndpoints)
    .set({
      previousSecret: sql`${secret}`,
      previousUntilMs: value("untilMs", previousUntilMs),
      secret: value("sealed", secret),
    })
    .where(and(eq(id, value("webhookId")), ne(secret, value("sealed")), auditEntryIsLatest(value)));
});

/** Gives an endpoint a new secret. For a day the previous secret signs too. Throws `not_found`, `secrets_unavailable`. */
export async function rotateSecret(admin: AdminCtx, row: EndpointRow): Promise<NewSecretOutput> {
  const { id: webhookId, appId } = row;
  const { secret, sealed } = await makeSecret(admin, row);
  const entry = newAuditEntry(admin, {
    appId,
    action: "webhook.rotated",
    target: webhookId,
    details: { mode: row.mode },
  });
  await batch(admin.db, [
    auditRotated({ ...entry, webhookId }),
    updateSecret({ ...entry, webhookId, sealed, untilMs: entry.atMs + DAY_MS }),
  ]);
  return { ...presentEndpoint(admin, await requireEndpoint(admin, appId, webhookId)), secret };
}
