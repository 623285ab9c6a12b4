import { and, eq } from "drizzle-orm";
import { requireEnvironment } from "../catalog/apps/app.ts";
import { drizzle, query, type ValueOf } from "../db/query.ts";
import { environments, webhookEndpoints } from "../db/schema.ts";
import { all } from "../db/sql.ts";
import type { Mode, SystemCtx } from "../runtime.ts";
import { endpointFields, presentEndpoint } from "./endpoint.ts";
import type { ListWebhooksOutput } from "./responses.ts";

const selectEndpoints = query((value: ValueOf<{ environmentId: number }>) =>
  drizzle
    .select(endpointFields())
    .from(environments)
    .crossJoin(webhookEndpoints)
    .where(and(eq(environments.id, value("environmentId")), eq(webhookEndpoints.environmentId, environments.id)))
    .orderBy(webhookEndpoints.createdAtMs, webhookEndpoints.id),
);

/** The endpoints of one mode, oldest first. Throws `not_found`. */
export async function listWebhooks(root: SystemCtx, appId: string, mode: Mode): Promise<ListWebhooksOutput> {
  const { id: environmentId } = await requireEnvironment(root, appId, mode);
  return { webhooks: (await all(root.db, selectEndpoints({ environmentId }))).map(presentEndpoint) };
}
