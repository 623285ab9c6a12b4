import { requireEnvironment } from "../catalog/apps/app.ts";
import { all, statement } from "../db/sql.ts";
import type { Mode, SystemCtx } from "../runtime.ts";
import { type EndpointRow, endpointColumns, presentEndpoint } from "./endpoint.ts";
import type { ListWebhooksOutput } from "./responses.ts";

const selectEndpoints = statement<{ environmentId: number }, EndpointRow>`
  SELECT ${endpointColumns} FROM environments AS e CROSS JOIN webhook_endpoints AS w ON w.environment_id = e.id
  WHERE e.id = :environmentId ORDER BY w.created_at_ms, w.id`;

/** The endpoints of one mode, oldest first. Throws `not_found`. */
export async function listWebhooks(root: SystemCtx, appId: string, mode: Mode): Promise<ListWebhooksOutput> {
  const { id: environmentId } = await requireEnvironment(root, appId, mode);
  return { webhooks: (await all(root.db, selectEndpoints({ environmentId }))).map(presentEndpoint) };
}
