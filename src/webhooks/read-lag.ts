import { all, statement } from "../db/sql.ts";
import { iso } from "../lib/time.ts";
import type { TenantCtx } from "../runtime.ts";

/** Of an endpoint at most this many waiting deliveries are counted. */
export const countedDeliveriesMax = 1_000;

interface LagRow {
  readonly webhookId: string;
  readonly url: string;
  readonly isEnabled: 0 | 1;
  readonly waiting: number;
  readonly oldestAtMs: number | null;
}

const selectLag = statement<{ environmentId: number }, LagRow>`
  SELECT webhookId, url, isEnabled, waiting ->> 0 AS waiting, (
    SELECT at_ms FROM webhook_messages WHERE id = waiting ->> 1
  ) AS oldestAtMs
  FROM (
    SELECT w.id AS webhookId, w.url AS url, w.is_enabled AS isEnabled, (
      SELECT json_array(count(*), min(message_id)) FROM (
        SELECT message_id FROM webhook_deliveries INDEXED BY webhook_deliveries_due
        WHERE endpoint_id = w.id AND status = 'pending' LIMIT ${`${countedDeliveriesMax + 1}`}
      )
    ) AS waiting
    FROM webhook_endpoints AS w WHERE w.environment_id = :environmentId ORDER BY w.created_at_ms, w.id
  )`;

/** How many messages wait for each endpoint, and since when the oldest does: ids of messages begin with their time. */
export async function readLag(ctx: TenantCtx) {
  const rows = await all(ctx.db, selectLag({ environmentId: ctx.environment.id }));
  return rows.map(({ isEnabled, oldestAtMs, ...row }) => ({
    ...row,
    isEnabled: isEnabled === 1,
    oldestAt: oldestAtMs === null ? null : iso(oldestAtMs),
  }));
}
