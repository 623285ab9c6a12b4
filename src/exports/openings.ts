import { sql } from "drizzle-orm";
import type { exportAudit } from "../db/schema.ts";
import { rows } from "../db/statement.ts";
import { iso } from "../lib/time.ts";
import type { Ctx } from "../runtime.ts";

const ROWS_MAX = 50;

type AuditRow = typeof exportAudit.$inferSelect;

/** Who asked for and opened exports of these ids, newest first: at most `ROWS_MAX` of each id are looked at. */
export async function openings(ctx: Ctx, distinctIds: readonly string[]) {
  const environmentId = ctx.environment.id;
  const found = await rows<Pick<AuditRow, "distinctId" | "action" | "tokenHash" | "keyId" | "occurredAtMs">>(
    ctx.db,
    sql`
    SELECT a.distinct_id AS distinctId, a.action AS action, a.token_hash AS tokenHash, a.key_id AS keyId,
      a.occurred_at_ms AS occurredAtMs
    FROM json_each(${JSON.stringify(distinctIds)}) AS i
    CROSS JOIN export_audit AS a
      ON a.environment_id = ${environmentId} AND a.distinct_id = i.value AND a.seq > (
        SELECT seq FROM export_audit
        WHERE environment_id = ${environmentId} AND distinct_id = i.value ORDER BY seq DESC LIMIT 1
      ) - ${ROWS_MAX}
    ORDER BY a.occurred_at_ms DESC, a.seq DESC LIMIT ${ROWS_MAX}`,
  );
  return found.map(({ occurredAtMs, ...row }) => ({ ...row, occurredAt: iso(occurredAtMs) }));
}
