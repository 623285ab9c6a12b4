import { auditStatement, newAct } from "../audit/audit-statement.ts";
import { timesOf } from "../db/clock.ts";
import { batch } from "../db/sql.ts";
import type { AdminCtx } from "../runtime.ts";
import { environmentOf, requireEnabledEndpoint } from "./endpoint.ts";
import { messageIdAt } from "./message.ts";
import { messageWrites, noteMessages } from "./outbox.ts";
import type { SentOutput } from "./responses.ts";

const audit = auditStatement();

/** Sends `purser.test` to an endpoint, whatever its types. Throws `not_found`, and `invalid_request` when it is off. */
export async function sendTest(admin: AdminCtx, appId: string, webhookId: string): Promise<SentOutput> {
  const row = await requireEnabledEndpoint(admin, appId, webhookId);
  const ctx = { ...admin, ...timesOf(row.clock, admin), environment: environmentOf(row) };
  const act = newAct(admin, { appId, action: "webhook.tested", target: webhookId, details: { mode: row.mode } });
  const messageId = admin.newId(messageIdAt(act.atMs));
  const messages = [{ type: "purser.test", subject: null, data: {}, id: messageId, endpointIds: [webhookId] } as const];
  await batch(admin.db, [audit(act), ...messageWrites(ctx, messages, ctx.now())]);
  noteMessages(ctx, messages);
  return { messageId };
}
