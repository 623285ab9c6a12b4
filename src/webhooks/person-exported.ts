import { fragment, nowMsSql, type Statement, statement } from "../db/sql.ts";
import type { Mode, TenantCtx } from "../runtime.ts";
import { messageIdAt } from "./message.ts";
import { intoDeliveries, intoMessages, LEASE_MS } from "./outbox.ts";

const wanting = fragment`FROM environments AS e CROSS JOIN json_each(e.features, '$.webhooks') AS w
  WHERE e.app_id = :appId AND e.mode = :mode AND w.value ->> 'exports'`;

type Values = { appId: string; mode: Mode; messageId: string };

const insertMessage = statement<Values & { nowMs: number; distinctId: string; action: string }, { id: string }>`
  ${intoMessages}
  SELECT :messageId, e.id, 'person.exported', ${nowMsSql}, :distinctId,
    json_object('distinctId', :distinctId, 'action', :action)
  ${wanting} LIMIT 1
  ON CONFLICT (id) DO NOTHING RETURNING id`;
const insertDeliveries = statement<Values & { atMs: number; dueAtMs: number }>`
  ${intoDeliveries}
  SELECT w.value ->> 'id', :messageId, 'pending', CAST(:atMs AS INTEGER), CAST(:dueAtMs AS INTEGER)
  ${wanting} ON CONFLICT (endpoint_id, message_id) DO NOTHING`;

/**
 * The statements that write and send `person.exported`, where an endpoint wants it: they find out themselves, because the
 * batch that they belong to is the first of its request. The first one's row says that it did.
 */
export function personExported(
  { now, realNow, newId, outbox }: Pick<TenantCtx, "now" | "realNow" | "newId" | "outbox">,
  { appId, mode, distinctId }: { readonly appId: string; readonly mode: Mode; readonly distinctId: string },
  action: "minted" | "opened",
): readonly [Statement<{ id: string }>, Statement] {
  const atMs = realNow();
  const values = { appId, mode, messageId: newId(messageIdAt(atMs)) };
  const dueAtMs = outbox === undefined ? atMs : atMs + LEASE_MS;
  return [
    insertMessage({ ...values, nowMs: now(), distinctId, action }),
    insertDeliveries({ ...values, atMs, dueAtMs }),
  ];
}
