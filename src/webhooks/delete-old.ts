import { batch, fragment, statement } from "../db/sql.ts";
import { DAY_MS } from "../lib/time.ts";
import type { SystemCtx } from "../runtime.ts";
import { messageIdAt } from "./message.ts";

const KEPT_MS = 30 * DAY_MS;
const MESSAGES_A_RUN_MAX = "500";

/** The last message of a step. */
const bound = fragment`(
  SELECT max(id) FROM (SELECT id FROM webhook_messages WHERE id < :before ORDER BY id LIMIT ${MESSAGES_A_RUN_MAX})
)`;

const deleteDeliveries = statement<{ before: string }>`
  WITH RECURSIVE endpoints (id) AS (
    SELECT min(endpoint_id) FROM webhook_deliveries WHERE ${bound} IS NOT NULL
    UNION ALL SELECT (SELECT min(endpoint_id) FROM webhook_deliveries WHERE endpoint_id > endpoints.id)
    FROM endpoints WHERE endpoints.id IS NOT NULL
  )
  DELETE FROM webhook_deliveries WHERE (endpoint_id, message_id) IN (
    SELECT d.endpoint_id, d.message_id FROM endpoints
    CROSS JOIN webhook_deliveries AS d ON d.endpoint_id = endpoints.id AND d.message_id <= ${bound}
  )`;
const deleteMessages = statement<{ before: string }>`DELETE FROM webhook_messages WHERE id <= ${bound}`;

/** Deletes messages after 30 days, with their attempts (H8): a step in each database. Answers the errors of databases. */
export async function deleteOldMessages(root: SystemCtx): Promise<readonly unknown[]> {
  const failures: unknown[] = [];
  const before = messageIdAt(root.now() - KEPT_MS);
  for (const { db } of root.databases) {
    await batch(db, [deleteDeliveries({ before }), deleteMessages({ before })]).catch((error) => failures.push(error));
  }
  return failures;
}
