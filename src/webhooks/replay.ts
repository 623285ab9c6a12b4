import { auditStatement, isThisAct, newAct } from "../catalog/audit/audit-statement.ts";
import { batch, fragment, statement } from "../db/sql.ts";
import type { AdminCtx } from "../runtime.ts";
import { requireEnabledEndpoint } from "./endpoint.ts";
import { messageIdAt } from "./message.ts";
import { isFree } from "./resend.ts";
import type { ReplayOutput } from "./responses.ts";
import type { ReplayInput } from "./schemas.ts";

const REPLAY_MAX = 10_000;

const ofTime = fragment`SELECT message_id FROM webhook_deliveries
  WHERE endpoint_id = :webhookId AND message_id >= :from AND message_id < :to
  ORDER BY message_id LIMIT ${String(REPLAY_MAX)}`;

type Span = { webhookId: string; from: string; to: string };

const audit = auditStatement<Span>(`EXISTS (${ofTime})`);
const countSpan = statement<Span, { messages: number }>`SELECT count(*) AS messages FROM (${ofTime})`;
const replaySpan = statement<Span & { nowMs: number; appId: string; actId: string; atMs: number }>`
  UPDATE webhook_deliveries SET status = 'pending', tries = 0, next_attempt_at_ms = CAST(:nowMs AS INTEGER),
    due_at_ms = CAST(:nowMs AS INTEGER)
  WHERE endpoint_id = :webhookId AND message_id IN (${ofTime}) AND ${isFree} AND ${isThisAct}`;

/** Sends again what was written for an endpoint in a time, by the cron (H8). Throws what `resendMessage` throws. */
export async function replayMessages(
  admin: AdminCtx,
  appId: string,
  webhookId: string,
  { from, to = admin.now() }: ReplayInput,
): Promise<ReplayOutput> {
  const { mode } = await requireEnabledEndpoint(admin, appId, webhookId);
  const span = { webhookId, from: messageIdAt(from), to: messageIdAt(to) };
  const act = newAct(admin, { appId, action: "webhook.replayed", target: webhookId, details: { mode } });
  const [, [counted]] = await batch(admin.db, [
    audit({ ...act, ...span }),
    countSpan(span),
    replaySpan({ ...act, ...span, nowMs: act.atMs }),
  ]);
  return { messages: counted?.messages ?? 0 };
}
