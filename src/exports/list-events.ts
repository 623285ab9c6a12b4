import type { exportAudit } from "../db/schema.ts";
import { all, statement } from "../db/sql.ts";
import { iso } from "../lib/time.ts";
import type { TenantCtx } from "../runtime.ts";

const ROWS_MAX = 50;

type ExportEvent = Pick<
  typeof exportAudit.$inferSelect,
  "distinctId" | "action" | "tokenHash" | "keyId" | "occurredAtMs"
>;

const newestOfIds = statement<{ environmentId: number; ids: string }, ExportEvent>`
  SELECT a.distinct_id AS distinctId, a.action AS action, a.token_hash AS tokenHash, a.key_id AS keyId,
    a.occurred_at_ms AS occurredAtMs
  FROM json_each(:ids) AS i
  CROSS JOIN export_audit AS a
    ON a.environment_id = :environmentId AND a.distinct_id = i.value AND a.seq > (
      SELECT seq FROM export_audit
      WHERE environment_id = :environmentId AND distinct_id = i.value ORDER BY seq DESC LIMIT 1
    ) - ${`${ROWS_MAX}`}
  ORDER BY a.occurred_at_ms DESC, a.seq DESC LIMIT ${`${ROWS_MAX}`}`;

/** The export history of these ids, newest first. It reads at most `ROWS_MAX` rows of each id. */
export async function listExportEvents(ctx: TenantCtx, distinctIds: readonly string[]) {
  const values = { environmentId: ctx.environment.id, ids: JSON.stringify(distinctIds) };
  const found = await all(ctx.db, newestOfIds(values));
  return found.map(({ occurredAtMs, ...row }) => ({ ...row, occurredAt: iso(occurredAtMs) }));
}
