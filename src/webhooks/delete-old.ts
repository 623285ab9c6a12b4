import { all, batch, statement } from "../db/sql.ts";
import { DAY_MS } from "../lib/time.ts";
import type { CronCtx, CronPart } from "../runtime.ts";
import { messageIdAt } from "./message.ts";

const KEPT_MS = 30 * DAY_MS;
const MESSAGES_A_STEP = 500;
/** Of each database. */
const STEPS_A_RUN = 10;
const QUERIES_A_STEP = 3;

type Step = { last: string };

const selectStep = statement<{ before: string; limit: number }, { last: string | null; messages: number }>`
  SELECT max(id) AS last, count(*) AS messages FROM (
    SELECT id FROM webhook_messages WHERE id < :before ORDER BY id LIMIT CAST(:limit AS INTEGER)
  )`;
const deleteDeliveries = statement<Step>`
  WITH RECURSIVE endpoints (id) AS (
    SELECT min(endpoint_id) FROM webhook_deliveries
    UNION ALL SELECT (SELECT min(endpoint_id) FROM webhook_deliveries WHERE endpoint_id > endpoints.id)
    FROM endpoints WHERE endpoints.id IS NOT NULL
  )
  DELETE FROM webhook_deliveries WHERE (endpoint_id, message_id) IN (
    SELECT d.endpoint_id, d.message_id FROM endpoints
    CROSS JOIN webhook_deliveries AS d ON d.endpoint_id = endpoints.id AND d.message_id <= :last
  )`;
const deleteMessages = statement<Step>`DELETE FROM webhook_messages WHERE id <= :last`;

/** Deletes messages after 30 days, with their attempts (H8), the oldest first. */
export async function deleteOldMessages(
  { db, now, allowance }: CronCtx,
  { steps, messages } = { steps: STEPS_A_RUN, messages: MESSAGES_A_STEP },
): Promise<readonly unknown[]> {
  const before = messageIdAt(now() - KEPT_MS);
  for (let n = 0; n < steps; n++) {
    const [step] = await all(db, selectStep({ before, limit: messages }));
    const last = step?.last ?? null;
    if (last === null || !allowance.has(QUERIES_A_STEP)) break;
    await batch(db, [deleteDeliveries({ last }), deleteMessages({ last })]);
    if ((step?.messages ?? 0) < messages) break;
  }
  return [];
}

export const oldMessagesPart: CronPart = {
  code: "messages_not_deleted",
  weight: 1,
  queriesOfStep: QUERIES_A_STEP + 1,
  work: deleteOldMessages,
};
