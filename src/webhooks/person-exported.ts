import { fragment, nowMsSql, type Statement, statement } from "../db/sql.ts";
import type { Mode, Runtime } from "../runtime.ts";
import { messageIdAt } from "./message.ts";
import { LEASE_MS } from "./outbox.ts";

const wanting = fragment`FROM environments AS e CROSS JOIN json_each(e.features, '$.webhooks') AS w
  WHERE e.app_id = :appId AND e.mode = :mode AND w.value ->> 'exports'`;

type Values = { appId: string; mode: Mode; messageId: string; nowMs: number };

const insertMessage = statement<Values & { distinctId: string; action: string }, { id: string }>`
  INSERT INTO webhook_messages (id, environment_id, type, at_ms, subject, data)
  SELECT :messageId, e.id, 'person.exported', ${nowMsSql}, :distinctId,
    json_object('distinctId', :distinctId, 'action', :action)
  ${wanting} LIMIT 1
  ON CONFLICT (id) DO NOTHING RETURNING id`;
const insertDeliveries = statement<Values & { dueAtMs: number }>`
  INSERT INTO webhook_deliveries (endpoint_id, message_id, status, next_attempt_at_ms, due_at_ms)
  SELECT w.value ->> 'id', :messageId, 'pending', ${nowMsSql}, CAST(:dueAtMs AS INTEGER)
  ${wanting} ON CONFLICT (endpoint_id, message_id) DO NOTHING`;

/**
 * The statements that write and send `person.exported`, where an endpoint wants it: they find out themselves, because the
 * batch that they belong to is the first of its request. The first one's row says that it did.
 */
export function personExported(
  { now, newId, outbox }: Runtime,
  { appId, mode, distinctId }: { readonly appId: string; readonly mode: Mode; readonly distinctId: string },
  action: "minted" | "opened",
): readonly [Statement<{ id: string }>, Statement] {
  const nowMs = now();
  const values = { appId, mode, messageId: newId(messageIdAt(nowMs)), nowMs };
  const dueAtMs = outbox === undefined ? nowMs : nowMs + LEASE_MS;
  return [insertMessage({ ...values, distinctId, action }), insertDeliveries({ ...values, dueAtMs })];
}
