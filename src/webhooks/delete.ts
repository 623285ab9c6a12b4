import { auditStatement, newAct } from "../catalog/audit/audit-statement.ts";
import { batch, statement } from "../db/sql.ts";
import type { AdminCtx } from "../runtime.ts";
import { presentEndpoint, requireEndpoint, syncEndpoints } from "./endpoint.ts";
import { failPending, failRest } from "./fail-pending.ts";
import type { WebhookOutput } from "./responses.ts";

const audit = auditStatement<{ webhookId: string }>("EXISTS (SELECT 1 FROM webhook_endpoints WHERE id = :webhookId)");
const deleteEndpoint = statement<{ webhookId: string }>`DELETE FROM webhook_endpoints WHERE id = :webhookId`;

/** Deletes an endpoint, and answers it as it was. What was pending for it is not sent. Throws `not_found`. */
export async function deleteWebhook(admin: AdminCtx, appId: string, webhookId: string): Promise<WebhookOutput> {
  const row = await requireEndpoint(admin, appId, webhookId);
  const act = newAct(admin, { appId, action: "webhook.deleted", target: webhookId, details: { mode: row.mode } });
  await batch(admin.db, [
    audit({ ...act, webhookId }),
    deleteEndpoint({ webhookId }),
    failPending({ ids: JSON.stringify([webhookId]) }),
    syncEndpoints({ ids: JSON.stringify([row.environmentId]) }),
  ]);
  await failRest(admin.db, [webhookId]);
  return presentEndpoint(row);
}
