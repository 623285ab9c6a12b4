import { auditStatement, isLatest, newAct } from "../catalog/audit/audit-statement.ts";
import { batch, fragment, statement } from "../db/sql.ts";
import { temporarilyUnavailable } from "../errors.ts";
import type { AdminCtx } from "../runtime.ts";
import { presentEndpoint, requireEndpoint, syncEndpoints } from "./endpoint.ts";
import { failPending, failRest } from "./fail-pending.ts";
import { wantsType } from "./message.ts";
import type { WebhookOutput } from "./responses.ts";
import type { ChangeWebhookInput } from "./schemas.ts";

/** SQL: a column after the change, which is JSON with the fields that were sent. */
const next = (field: string, column: string): string =>
  fragment`iif(json_type(:change, '$.${field}') IS NULL, ${column}, :change ->> '${field}')`;

const changed = {
  url: next("url", "url"),
  types: next("types", "types"),
  wants_exports: next("wantsExports", "wants_exports"),
  description: next("description", "description"),
  is_enabled: next("isEnabled", "is_enabled"),
};
const entries = Object.entries(changed);
const differs = entries.map(([column, value]) => `${column} IS NOT ${value}`).join(" OR ");

type Change = { webhookId: string; change: string };

const audit = auditStatement<Change>(`EXISTS (SELECT 1 FROM webhook_endpoints WHERE id = :webhookId AND (${differs}))`);
const updateEndpoint = statement<Change & { appId: string; actId: string }>`
  UPDATE webhook_endpoints SET ${entries.map(([column, value]) => `${column} = ${value}`).join(", ")}, failing_since_ms = NULL
  WHERE id = :webhookId AND ${isLatest}`;

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
  const { environmentId, mode, isEnabled } = await requireEndpoint(admin, appId, webhookId);
  const { types } = input;
  if (input.isEnabled === true && isEnabled === 0 && !(await failRest(admin.db, [webhookId]))) {
    throw temporarilyUnavailable("What was pending for the endpoint is still being given up; try again in a minute.");
  }
  const change = JSON.stringify({
    ...input,
    ...(types === undefined
      ? {}
      : { types: types && JSON.stringify(types), wantsExports: wantsType(types, "person.exported") }),
  });
  const details = { mode, changed: Object.keys(input) };
  const act = newAct(admin, { appId, action: "webhook.changed", target: webhookId, details });
  await batch(admin.db, [
    audit({ ...act, webhookId, change }),
    updateEndpoint({ ...act, webhookId, change }),
    failPending({ ids: JSON.stringify([webhookId]) }),
    syncEndpoints({ ids: JSON.stringify([environmentId]) }),
  ]);
  if (input.isEnabled === false) await failRest(admin.db, [webhookId]);
  return presentEndpoint(await requireEndpoint(admin, appId, webhookId));
}
