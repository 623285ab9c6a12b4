import { all, fragment, statement } from "../db/sql.ts";
import { invalidCursor } from "../errors.ts";
import { decodeTextCursor, encodeTextCursor } from "../lib/cursor.ts";
import { iso } from "../lib/time.ts";
import type { SystemCtx } from "../runtime.ts";
import { requireEndpoint } from "./endpoint.ts";
import { type MessageRow, messageText } from "./message-text.ts";
import type { Attempt, ListDeliveriesOutput, Message } from "./responses.ts";
import type { ListDeliveriesInput } from "./schemas.ts";

interface DeliveryRow extends MessageRow {
  readonly status: "pending" | "delivered" | "failed";
  readonly nextAttemptAtMs: number;
  readonly attempts: string;
}

/** What is pending for an endpoint that is off is about to fail. */
const status = fragment`iif(d.status = 'pending' AND :isEnabled = 0, 'failed', d.status)`;

const selectDeliveries = statement<
  { webhookId: string; before: string; status: string | null; isEnabled: number; limit: number },
  Omit<DeliveryRow, "appId" | "mode">
>`
  SELECT m.id AS id, m.type AS type, m.at_ms AS atMs, m.data AS data, ${status} AS status,
    d.next_attempt_at_ms AS nextAttemptAtMs, d.attempts AS attempts
  FROM webhook_deliveries AS d CROSS JOIN webhook_messages AS m ON m.id = d.message_id
  WHERE d.endpoint_id = :webhookId AND d.message_id < :before AND (:status IS NULL OR ${status} = :status)
  ORDER BY d.message_id DESC LIMIT CAST(:limit AS INTEGER)`;

/** After every id of a message. */
const END = "n";

/** What was sent to an endpoint, newest first (H8). Throws `not_found`, and `invalid_request` for another list's cursor. */
export async function listDeliveries(
  root: SystemCtx,
  appId: string,
  webhookId: string,
  { status: wanted, limit, cursor }: ListDeliveriesInput,
): Promise<ListDeliveriesOutput> {
  const { mode, isEnabled } = await requireEndpoint(root, appId, webhookId);
  const scope = ["deliveries", webhookId, wanted ?? ""];
  const before = cursor === undefined ? END : decodeTextCursor(cursor, scope);
  if (before === null) throw invalidCursor();
  const rows = await all(
    root.db,
    selectDeliveries({ webhookId, before, status: wanted ?? null, isEnabled, limit: limit + 1 }),
  );
  const page = rows.slice(0, limit);
  const last = page.at(-1);
  return {
    deliveries: page.map((row) => ({
      messageId: row.id,
      type: row.type,
      timestamp: iso(row.atMs),
      status: row.status,
      nextAttemptAt: row.status === "pending" ? iso(row.nextAttemptAtMs) : null,
      // Both are JSON that Purser wrote.
      message: JSON.parse(messageText({ ...row, appId, mode })) as Message,
      attempts: JSON.parse(row.attempts) as Attempt[],
    })),
    nextCursor: last === undefined || rows.length <= limit ? null : encodeTextCursor(last.id, scope),
  };
}
