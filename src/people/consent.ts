import { and, eq, sql } from "drizzle-orm";
import { consentLog } from "../db/schema.ts";
import { write } from "../db/statement.ts";
import { assert } from "../lib/assert.ts";
import { iso } from "../lib/time.ts";
import type { Ctx } from "../runtime.ts";
import type { ConsentEntry } from "./answers.ts";
import type { ConsentInput } from "./schemas.ts";

export type ConsentRow = typeof consentLog.$inferSelect;

/** Appends one decision to the consent log of a distinct id, known or not (P5). Nothing ever changes or removes it. */
export async function recordConsent(ctx: Ctx, input: ConsentInput): Promise<ConsentEntry> {
  const consentId = ctx.newId("con_");
  const receivedAtMs = ctx.now();
  const entry = { ...input, consentId, receivedAtMs, occurredAtMs: input.occurredAt ?? receivedAtMs };
  const ofId = and(
    eq(consentLog.environmentId, ctx.environment.id),
    eq(consentLog.distinctId, input.distinctId),
    eq(consentLog.id, consentId),
  );
  const [, found] = await ctx.db.batch([
    write(
      ctx.db,
      sql`
      INSERT INTO consent_log (
        environment_id, distinct_id, seq, id, purpose, decision, method, notice_version, source, gpc, occurred_at_ms,
        received_at_ms
      )
      SELECT CAST(${ctx.environment.id} AS INTEGER), value ->> 'distinctId', 1 + coalesce((
          SELECT seq FROM consent_log
          WHERE environment_id = ${ctx.environment.id} AND distinct_id = ${input.distinctId} ORDER BY seq DESC LIMIT 1
        ), 0), value ->> 'consentId', value ->> 'purpose', value ->> 'decision', value ->> 'method',
        value ->> 'noticeVersion', value ->> 'source', value ->> 'gpc', value ->> 'occurredAtMs',
        value ->> 'receivedAtMs'
      FROM json_each(${JSON.stringify([entry])})
      WHERE NOT EXISTS (SELECT 1 FROM consent_log WHERE ${ofId})`,
    ),
    ctx.db.select().from(consentLog).where(ofId),
  ]);
  const [row] = found;
  assert(row !== undefined, "a consent that was written is there");
  return presentConsent(row);
}

export function presentConsent(row: ConsentRow): ConsentEntry {
  return {
    consentId: row.id,
    distinctId: row.distinctId,
    purpose: row.purpose,
    decision: row.decision,
    method: row.method,
    noticeVersion: row.noticeVersion,
    source: row.source,
    gpc: row.gpc,
    occurredAt: iso(row.occurredAtMs),
    receivedAt: iso(row.receivedAtMs),
  };
}
