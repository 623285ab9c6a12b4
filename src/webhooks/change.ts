import { and, eq, or, sql } from "drizzle-orm";
import type { SQLiteColumn } from "drizzle-orm/sqlite-core";
import { type ActKey, actIsLatest, insertAct, newAct } from "../catalog/audit/audit-statement.ts";
import { assignments, hasRow, query, type ValueOf } from "../db/query.ts";
import { webhookEndpoints } from "../db/schema.ts";
import { batch } from "../db/sql.ts";
import { temporarilyUnavailable } from "../errors.ts";
import type { AdminCtx } from "../runtime.ts";
import { presentEndpoint, requireEndpoint, syncEndpoints } from "./endpoint.ts";
import { failPending, failRest } from "./fail-pending.ts";
import { wantsType } from "./message.ts";
import type { WebhookOutput } from "./responses.ts";
import type { ChangeWebhookInput } from "./schemas.ts";

type Change = { webhookId: string; change: string };

/** A column after the change, which is JSON with the fields that were sent. */
const next = (value: ValueOf<Change>, field: string, column: SQLiteColumn) =>
  sql`iif(json_type(${value("change")}, ${`$.${field}`}) IS NULL, ${column}, ${value("change")} ->> ${field})`;

const { url, types, wantsExports, description, isEnabled } = webhookEndpoints;
const CHANGEABLE = { url, types, wantsExports, description, isEnabled };

const ofEndpoint = (value: ValueOf<{ webhookId: string }>) => eq(webhookEndpoints.id, value("webhookId"));
const differs = (value: ValueOf<Change>) =>
  or(...Object.entries(CHANGEABLE).map(([field, column]) => sql`${column} IS NOT ${next(value, field, column)}`));

const audit = insertAct<Change>((value) => hasRow(webhookEndpoints, and(ofEndpoint(value), differs(value))));
const updateEndpoint = query((value: ValueOf<Change & ActKey>) => {
  const changed = Object.fromEntries(
    Object.entries(CHANGEABLE).map(([field, column]) => [field, next(value, field, column)]),
  );
  return sql`UPDATE ${webhookEndpoints} SET ${assignments(webhookEndpoints, { ...changed, failingSinceMs: sql`NULL` })}
    WHERE ${and(ofEndpoint(value), actIsLatest(value))}`;
});

/**
 * Changes the fields of an endpoint that are given (H1). Throws `not_found`, and `temporarily_unavailable` when it is to be switched on
 * while very much that was pending when it was switched off has still to fail.
 */
export async function changeWebhook(
  admin: AdminCtx,
  appId: string,
  webhookId: string,
  input: ChangeWebhookInput,
): Promise<WebhookOutput> {
  const before = await requireEndpoint(admin, appId, webhookId);
  if (input.isEnabled === true && !before.isEnabled && !(await failRest(admin.db, [webhookId]))) {
    throw temporarilyUnavailable("What was pending for the endpoint is still being given up; try again in a minute.");
  }
  const change = JSON.stringify({
    ...input,
    ...(input.types === undefined
      ? {}
      : { types: input.types && JSON.stringify(input.types), wantsExports: wantsType(input.types, "person.exported") }),
  });
  const details = { mode: before.mode, changed: Object.keys(input) };
  const act = newAct(admin, { appId, action: "webhook.changed", target: webhookId, details });
  await batch(admin.db, [
    audit({ ...act, webhookId, change }),
    updateEndpoint({ ...act, webhookId, change }),
    failPending({ ids: JSON.stringify([webhookId]) }),
    syncEndpoints({ ids: JSON.stringify([before.environmentId]) }),
  ]);
  if (input.isEnabled === false) await failRest(admin.db, [webhookId]);
  return presentEndpoint(await requireEndpoint(admin, appId, webhookId));
}
