import { auditStatement, isThisAct, newAct } from "../catalog/audit/audit-statement.ts";
import { timesOf } from "../db/clock.ts";
import { batch, nowMsSql, statement } from "../db/sql.ts";
import type { AdminCtx } from "../runtime.ts";
import { environmentOf, requireEnabledEndpoint } from "./endpoint.ts";
import { messageIdAt } from "./message.ts";
import { deliver, noteMessages } from "./outbox.ts";
import type { SentOutput } from "./responses.ts";

const audit = auditStatement();
const insertTest = statement<
  { messageId: string; environmentId: number; nowMs: number; appId: string; actId: string; atMs: number },
  { id: string }
>`
  INSERT INTO webhook_messages (id, environment_id, type, at_ms, data)
  SELECT :messageId, CAST(:environmentId AS INTEGER), 'purser.test', ${nowMsSql}, '{}' WHERE ${isThisAct}
  ON CONFLICT (id) DO NOTHING RETURNING id`;

/** Sends `purser.test` to an endpoint, whatever its types. Throws `not_found`, and `invalid_request` when it is off. */
export async function sendTest(admin: AdminCtx, appId: string, webhookId: string): Promise<SentOutput> {
  const row = await requireEnabledEndpoint(admin, appId, webhookId);
  const ctx = { ...admin, ...timesOf(row.clock, admin), environment: environmentOf(row) };
  const act = newAct(admin, { appId, action: "webhook.tested", target: webhookId, details: { mode: row.mode } });
  const messageId = admin.newId(messageIdAt(act.atMs));
  const [, written] = await batch(admin.db, [
    audit(act),
    insertTest({ ...act, messageId, environmentId: row.environmentId, nowMs: ctx.now() }),
    ...deliver(ctx, [{ type: "purser.test", id: messageId, endpointIds: [webhookId] }]),
  ] as const);
  noteMessages(ctx, written);
  return { messageId };
}
