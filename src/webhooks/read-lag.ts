import { eq, sql } from "drizzle-orm";
import { computed, drizzle, fields, query, read, scalar, type ValueOf } from "../db/query.ts";
import { webhookDeliveries, webhookEndpoints, webhookMessages } from "../db/schema.ts";
import { all } from "../db/sql.ts";
import { iso } from "../lib/time.ts";
import type { TenantCtx } from "../runtime.ts";

/** Of an endpoint at most this many waiting deliveries are counted. */
export const countedDeliveriesMax = 1_000;

const selectLag = query((value: ValueOf<{ environmentId: number }>) => {
  const { id, environmentId, createdAtMs } = webhookEndpoints;
  const { endpointId, messageId, status } = webhookDeliveries;
  const oldest = drizzle
    .select(fields(webhookMessages, "atMs"))
    .from(webhookMessages)
    .where(eq(webhookMessages.id, sql`waiting ->> 1`));
  const waiting = sql`(
    SELECT json_array(count(*), min(${messageId})) FROM (
      SELECT ${messageId} FROM ${webhookDeliveries} INDEXED BY webhook_deliveries_due
      WHERE ${endpointId} = ${id} AND ${status} = 'pending' LIMIT ${countedDeliveriesMax + 1}
    ) AS ${webhookDeliveries}
  )`;
  return read(
    {
      ...fields(webhookEndpoints, { webhookId: "id", url: "url", isEnabled: "isEnabled" }),
      ...computed({ waiting: sql<number>`waiting ->> 0`, oldestAtMs: scalar(oldest) }),
    },
    (list) => sql`
      SELECT ${list} FROM (
        SELECT ${webhookEndpoints}.*, ${waiting} AS waiting FROM ${webhookEndpoints}
        WHERE ${environmentId} = ${value("environmentId")} ORDER BY ${createdAtMs}, ${id}
      ) AS ${webhookEndpoints}`,
  );
});

/** How many messages wait for each endpoint, and since when the oldest does: ids of messages begin with their time. */
export async function readLag(ctx: TenantCtx) {
  const rows = await all(ctx.db, selectLag({ environmentId: ctx.environment.id }));
  return rows.map(({ oldestAtMs, ...row }) => ({
    ...row,
    oldestAt: oldestAtMs === null ? null : iso(oldestAtMs),
  }));
}
