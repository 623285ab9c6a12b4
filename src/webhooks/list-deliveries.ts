import { batch, fragment, statement } from "../db/sql.ts";
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

/** A page of one status looks at so many deliveries, since no index has the status. */
export const lookedAtDeliveriesMax = 2_000;

type LookedAt = { webhookId: string; before: string; most: number };
const lookedAt = fragment`
  SELECT * FROM webhook_deliveries WHERE endpoint_id = :webhookId AND message_id < :before ORDER BY message_id DESC`;
const selectDeliveries = statement<
  LookedAt & { status: string | null; isEnabled: number; limit: number },
  Omit<DeliveryRow, "appId" | "mode">
>`
  SELECT m.id AS id, m.type AS type, m.at_ms AS atMs, m.data AS data, ${status} AS status,
    d.next_attempt_at_ms AS nextAttemptAtMs, d.attempts AS attempts
  FROM (${lookedAt} LIMIT CAST(:most AS INTEGER)) AS d CROSS JOIN webhook_messages AS m ON m.id = d.message_id
  WHERE :status IS NULL OR ${status} = :status
  ORDER BY d.message_id DESC LIMIT CAST(:limit AS INTEGER)`;
/** The last delivery that such a page looks at. */
const selectLast = statement<LookedAt, { id: string }>`
  SELECT message_id AS id FROM (${lookedAt} LIMIT 1 OFFSET CAST(:most AS INTEGER) - 1)`;

/** After every id of a message. */
const END = "n";

/**
 * What was sent to an endpoint, newest first (H8). A page of one status may have fewer than `limit`, or none, while others
 * follow. Throws `not_found`, and `invalid_request` for another list's cursor.
 */
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
  const values = { webhookId, before, most: wanted === undefined ? limit + 1 : lookedAtDeliveriesMax };
  const [rows, [lastSeen]] = await batch(root.db, [
    selectDeliveries({ ...values, status: wanted ?? null, isEnabled, limit: limit + 1 }),
    selectLast(values),
  ]);
  const page = rows.slice(0, limit);
  const last = rows.length > limit ? page.at(-1) : lastSeen;
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
    nextCursor: last === undefined ? null : encodeTextCursor(last.id, scope),
  };
}
