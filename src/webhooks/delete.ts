import { eq } from "drizzle-orm";
import { insertAct, newAct } from "../catalog/audit/audit-statement.ts";
import { drizzle, hasRow, query, type ValueOf } from "../db/query.ts";
import { webhookEndpoints } from "../db/schema.ts";
import { batch } from "../db/sql.ts";
import type { AdminCtx } from "../runtime.ts";
import { presentEndpoint, requireEndpoint, syncEndpoints } from "./endpoint.ts";
import { failPending, failRest } from "./fail-pending.ts";
import type { WebhookOutput } from "./responses.ts";

const ofEndpoint = (value: ValueOf<{ webhookId: string }>) => eq(webhookEndpoints.id, value("webhookId"));
const audit = insertAct<{ webhookId: string }>((value) => hasRow(webhookEndpoints, ofEndpoint(value)));
const deleteEndpoint = query((value: ValueOf<{ webhookId: string }>) =>
  drizzle.delete(webhookEndpoints).where(ofEndpoint(value)),
);

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
