import { sql } from "drizzle-orm";
import { computed, fields, query, read, type ValueOf } from "../db/query.ts";
import { webhookDeliveries, webhookEndpoints, webhookMessages } from "../db/schema.ts";
import { batch } from "../db/sql.ts";
import { invalidCursor } from "../errors.ts";
import { decodeTextCursor, encodeTextCursor } from "../lib/cursor.ts";
import { iso } from "../lib/time.ts";
import type { SystemCtx } from "../runtime.ts";
import { requireEndpoint } from "./endpoint.ts";
import { messageText } from "./message.ts";
import type { Attempt, ListDeliveriesOutput, Message } from "./responses.ts";
import type { ListDeliveriesInput } from "./schemas.ts";

/** How many deliveries a page of one status reads, because no index has the status. */
export const lookedAtDeliveriesMax = 2_000;

type LookedAt = { webhookId: string; before: string };
const lookedAt = (value: ValueOf<LookedAt>) => {
  const { endpointId, messageId } = webhookDeliveries;
  return sql`SELECT * FROM ${webhookDeliveries}
    WHERE ${endpointId} = ${value("webhookId")} AND ${messageId} < ${value("before")} ORDER BY ${messageId} DESC`;
};

type Wanted = LookedAt & { most: number; status: string | null; isEnabled: boolean; limit: number };
const selectDeliveries = query((value: ValueOf<Wanted>) => {
  const { messageId, status } = webhookDeliveries;
  // Pending deliveries of a disabled endpoint are shown as failed, because the cron will fail them.
  const shown = sql<
    typeof status._.data
  >`iif(${status} = 'pending' AND NOT ${value("isEnabled", webhookEndpoints.isEnabled)}, 'failed', ${status})`;
  return read(
    {
      ...fields(webhookMessages, "id", "type", "atMs", "data"),
      ...computed({ status: shown }),
      ...fields(webhookDeliveries, "nextAttemptAtMs", "attempts"),
    },
    (list) => sql`
      SELECT ${list} FROM (${lookedAt(value)} LIMIT ${value("most")}) AS ${webhookDeliveries}
      CROSS JOIN ${webhookMessages} ON ${webhookMessages.id} = ${messageId}
      WHERE coalesce(${shown} = ${value("status")}, 1) ORDER BY ${messageId} DESC LIMIT ${value("limit")}`,
  );
});
/** The last delivery that such a page reads. */
const selectLast = query((value: ValueOf<LookedAt & { others: number }>) =>
  read(
    fields(webhookDeliveries, { id: "messageId" }),
    (list) => sql`SELECT ${list} FROM (${lookedAt(value)} LIMIT 1 OFFSET ${value("others")}) AS ${webhookDeliveries}`,
  ),
);

/** Sorts after every message id. */
const END = "n";

/**
 * The messages to an endpoint, newest first (H8). A page of one status may have fewer than `limit` entries, even none, while more
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
  const most = wanted === undefined ? limit + 1 : lookedAtDeliveriesMax;
  const place = { webhookId, before };
  const [rows, [lastSeen]] = await batch(root.db, [
    selectDeliveries({ ...place, most, status: wanted ?? null, isEnabled, limit: limit + 1 }),
    selectLast({ ...place, others: most - 1 }),
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
      // Purser wrote both JSON texts.
      message: JSON.parse(messageText({ ...row, appId, mode })) as Message,
      attempts: JSON.parse(row.attempts) as Attempt[],
    })),
    nextCursor: last === undefined ? null : encodeTextCursor(last.id, scope),
  };
}
