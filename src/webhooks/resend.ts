import { auditStatement, isThisAct, newAct } from "../catalog/audit/audit-statement.ts";
import { batch, fragment, statement } from "../db/sql.ts";
import { PurserError } from "../errors.ts";
import type { AdminCtx } from "../runtime.ts";
import { environmentOf, requireEnabledEndpoint } from "./endpoint.ts";
import { LEASE_MS } from "./outbox.ts";
import type { SentOutput } from "./responses.ts";
import { TRIES_MAX } from "./schedule.ts";

/** SQL: whether nobody is attempting a delivery right now. */
export const isFree = fragment`NOT (status = 'pending' AND due_at_ms > next_attempt_at_ms AND due_at_ms > CAST(:nowMs AS INTEGER))`;

type Key = { webhookId: string; messageId: string };

const audit = auditStatement();
const selectDelivery = statement<Key, { found: 1 }>`
  SELECT 1 AS found FROM webhook_deliveries WHERE endpoint_id = :webhookId AND message_id = :messageId`;

/** One attempt, after which no more follow unless they would have anyway. Leased, because it is made behind the answer. */
const resendOne = statement<
  Key & { nowMs: number; dueAtMs: number; appId: string; actId: string; atMs: number },
  { isLeased: 1 }
>`
  UPDATE webhook_deliveries SET status = 'pending', tries = iif(status = 'pending', tries, ${String(TRIES_MAX - 1)}),
    next_attempt_at_ms = CAST(:nowMs AS INTEGER), due_at_ms = CAST(:dueAtMs AS INTEGER)
  WHERE endpoint_id = :webhookId AND message_id = :messageId AND ${isFree} AND ${isThisAct} RETURNING 1 AS isLeased`;

/** Attempts a delivery once more, behind the answer (H8). Throws `not_found`, and `invalid_request` for an endpoint that is off. */
export async function resendMessage(
  admin: AdminCtx,
  appId: string,
  webhookId: string,
  messageId: string,
): Promise<SentOutput> {
  const row = await requireEnabledEndpoint(admin, appId, webhookId);
  const key = { webhookId, messageId };
  const [[found]] = await batch(admin.db, [selectDelivery(key)]);
  if (found === undefined) {
    throw new PurserError("not_found", "The endpoint has no such message.", { param: "messageId" });
  }
  const details = { mode: row.mode, messageId };
  const act = newAct(admin, { appId, action: "webhook.resent", target: webhookId, details });
  const nowMs = act.atMs;
  const dueAtMs = admin.outbox === undefined ? nowMs : nowMs + LEASE_MS;
  const [, [leased]] = await batch(admin.db, [audit(act), resendOne({ ...act, ...key, nowMs, dueAtMs })] as const);
  const { database } = environmentOf(row);
  if (leased !== undefined) admin.outbox?.push({ database, messageId, endpointId: webhookId });
  return { messageId };
}
