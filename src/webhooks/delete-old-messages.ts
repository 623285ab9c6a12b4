import { lte, sql } from "drizzle-orm";
import { alias } from "drizzle-orm/sqlite-core";
import { asInteger, computed, drizzle, names, query, read, type ValueOf } from "../db/query.ts";
import { webhookDeliveries, webhookMessages } from "../db/schema.ts";
import { all, batch } from "../db/sql.ts";
import { DAY_MS } from "../lib/time.ts";
import type { CronCtx, CronPart } from "../runtime.ts";
import { messageIdAt } from "./outbox.ts";

const KEPT_MS = 30 * DAY_MS;
const MESSAGES_A_STEP = 500;
/** For each database. */
const STEPS_A_RUN = 10;
const MESSAGE_QUERIES_A_STEP = 3;

const selectStep = query((value: ValueOf<{ before: string; limit: number }>) => {
  const { id } = webhookMessages;
  const page = alias(webhookMessages, "page");
  const selected = computed({ last: sql<string | null>`max(${page.id})`, messages: sql<number>`count(*)` });
  const oldest = sql`SELECT ${id} FROM ${webhookMessages} WHERE ${id} < ${value("before")} ORDER BY ${id} LIMIT ${asInteger(value("limit"))}`;
  return read(selected, (list) => sql`SELECT ${list} FROM (${oldest}) AS ${page}`);
});
const deleteDeliveries = query((value: ValueOf<{ last: string }>) => {
  const { endpointId, messageId } = webhookDeliveries;
  const endpoint = alias(webhookDeliveries, "endpoint");
  return sql`
    WITH RECURSIVE ${endpoint} (${names(endpointId)}) AS (
      SELECT min(${endpointId}) FROM ${webhookDeliveries}
      UNION ALL SELECT (SELECT min(${endpointId}) FROM ${webhookDeliveries} WHERE ${endpointId} > ${endpoint.endpointId})
      FROM ${endpoint} WHERE ${endpoint.endpointId} IS NOT NULL
    )
    DELETE FROM ${webhookDeliveries} WHERE (${names(endpointId, messageId)}) IN (
      SELECT ${endpointId}, ${messageId} FROM ${endpoint}
      CROSS JOIN ${webhookDeliveries} ON ${endpointId} = ${endpoint.endpointId} AND ${messageId} <= ${value("last")}
    )`;
});
const deleteMessages = query((value: ValueOf<{ last: string }>) =>
  drizzle.delete(webhookMessages).where(lte(webhookMessages.id, value("last"))),
);

/** Deletes messages that are older than 30 days, with their deliveries (H8), the oldest first. */
export async function deleteOldMessages(
  { db, now, allowance }: CronCtx,
  { steps, messages } = { steps: STEPS_A_RUN, messages: MESSAGES_A_STEP },
): Promise<readonly unknown[]> {
  const before = messageIdAt(now() - KEPT_MS);
  for (let n = 0; n < steps; n++) {
    const [step] = await all(db, selectStep({ before, limit: messages }));
    const last = step?.last ?? null;
    if (last === null || !allowance.has(MESSAGE_QUERIES_A_STEP)) break;
    await batch(db, [deleteDeliveries({ last }), deleteMessages({ last })]);
    if ((step?.messages ?? 0) < messages) break;
  }
  return [];
}

export const oldMessagesPart: CronPart = {
  code: "messages_not_deleted",
  weight: 1,
  queriesOfStep: MESSAGE_QUERIES_A_STEP + 1,
  work: deleteOldMessages,
};
