import { eq, lte, not, type Placeholder, type SQL, sql } from "drizzle-orm";
import { alias, type SQLiteColumn } from "drizzle-orm/sqlite-core";
import {
  asInteger,
  assignments,
  computed,
  drizzle,
  fields,
  hasRow,
  names,
  query,
  read,
  returning,
  scalar,
  type ValueOf,
} from "../db/query.ts";
import { webhookDeliveries, webhookEndpoints, webhookMessages } from "../db/schema.ts";
import { all, batch, type Db } from "../db/sql.ts";
import { DAY_MS, iso } from "../lib/time.ts";
import type { CronCtx, CronPart, TenantCtx } from "../runtime.ts";
import { messageIdAt } from "./outbox.ts";

const KEPT_MS = 30 * DAY_MS;
const MESSAGES_A_STEP = 500;
/** For each database. */
const STEPS_A_RUN = 10;
const MESSAGE_QUERIES_A_STEP = 3;

const selectStep = query((value: ValueOf<{ before: string; limit: number }>) => {
  const { id } = webhookMessages;
  const page = alias(webhookMessages, "page");
  const found = computed({ last: sql<string | null>`max(${page.id})`, messages: sql<number>`count(*)` });
  const oldest = sql`SELECT ${id} FROM ${webhookMessages} WHERE ${id} < ${value("before")} ORDER BY ${id} LIMIT ${asInteger(value("limit"))}`;
  return read(found, (list) => sql`SELECT ${list} FROM (${oldest}) AS ${page}`);
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

/** Deletes messages after 30 days, with their attempts (H8), the oldest first. */
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

const DELIVERIES_A_STEP = 1_000;
/** For a request. The cron does the rest. */
const REQUEST_STEPS_MAX = 20;

/** Whether an endpoint is enabled. */
const isOn = (id: SQL) =>
  hasRow(webhookEndpoints, sql`${webhookEndpoints.id} = ${id} AND ${webhookEndpoints.isEnabled} = 1`);

/** Fails some pending deliveries of disabled or deleted endpoints. `ids`: the endpoints. */
export const failPending = query((value: ValueOf<{ ids: string }>) => {
  const { endpointId, messageId, status } = webhookDeliveries;
  return returning(
    computed({ isFailed: sql<1>`1` }),
    (list) => sql`
      UPDATE ${webhookDeliveries} SET ${assignments(webhookDeliveries, { status: sql`'failed'` })}
      WHERE (${names(endpointId, messageId)}) IN (
        SELECT ${endpointId}, ${messageId} FROM json_each(${value("ids")}) AS j
        CROSS JOIN ${webhookDeliveries} INDEXED BY webhook_deliveries_due ON ${endpointId} = j.value AND ${status} = 'pending'
        WHERE ${not(isOn(sql`j.value`))} LIMIT ${DELIVERIES_A_STEP}
      ) RETURNING ${list}`,
  );
});

/** Repeats `failPending` while `mayGoOn`. Returns whether nothing is left. */
export async function failRest(db: Db, ids: readonly string[], mayGoOn = upTo(REQUEST_STEPS_MAX)): Promise<boolean> {
  const values = { ids: JSON.stringify(ids) };
  while (mayGoOn()) {
    if ((await all(db, failPending(values))).length < DELIVERIES_A_STEP) return true;
  }
  return false;
}

function upTo(steps: number): () => boolean {
  let left = steps;
  return () => left-- > 0;
}

/** The next endpoint, by id, with pending deliveries. */
export const nextWaiting = (after: SQL | Placeholder | SQLiteColumn) => {
  const { endpointId, status } = webhookDeliveries;
  return sql`(
    SELECT ${endpointId} FROM ${webhookDeliveries} INDEXED BY webhook_deliveries_due
    WHERE ${status} = 'pending' AND ${endpointId} > ${after} ORDER BY ${endpointId} LIMIT 1
  )`;
};

/** Disabled or deleted endpoints with pending deliveries. */
export const selectOff = query(() => {
  const waiting = alias(webhookDeliveries, "waiting");
  return read(
    fields(waiting, { id: "endpointId" }),
    (list) => sql`
      WITH RECURSIVE ${waiting} (${names(webhookDeliveries.endpointId)}) AS (
        SELECT ${nextWaiting(sql`''`)}
        UNION ALL SELECT ${nextWaiting(waiting.endpointId)} FROM ${waiting} WHERE ${waiting.endpointId} IS NOT NULL
      )
      SELECT ${list} FROM ${waiting} WHERE ${waiting.endpointId} IS NOT NULL AND ${not(isOn(sql`${waiting.endpointId}`))} LIMIT 20`,
  );
});

/** The most pending deliveries that are counted for an endpoint. */
export const countedDeliveriesMax = 1_000;

const selectLag = query((value: ValueOf<{ environmentId: number }>) => {
  const { id, environmentId, createdAtMs } = webhookEndpoints;
  const { endpointId, messageId, status } = webhookDeliveries;
  const oldest = drizzle
    .select(fields(webhookMessages, "atMs"))
    .from(webhookMessages)
    .where(eq(webhookMessages.id, sql`waiting ->> 1`));
  const waiting = sql`(
    SELECT json_array(count(*), min(${messageId})) FROM (
      SELECT ${messageId} FROM ${webhookDeliveries} INDEXED BY webhook_deliveries_due
      WHERE ${endpointId} = ${id} AND ${status} = 'pending' LIMIT ${countedDeliveriesMax + 1}
    ) AS ${webhookDeliveries}
  )`;
  return read(
    {
      ...fields(webhookEndpoints, { webhookId: "id", url: "url", isEnabled: "isEnabled" }),
      ...computed({ waiting: sql<number>`waiting ->> 0`, oldestAtMs: scalar(oldest) }),
    },
    (list) => sql`
      SELECT ${list} FROM (
        SELECT ${webhookEndpoints}.*, ${waiting} AS waiting FROM ${webhookEndpoints}
        WHERE ${environmentId} = ${value("environmentId")} ORDER BY ${createdAtMs}, ${id}
      ) AS ${webhookEndpoints}`,
  );
});

/** The number of pending messages for each endpoint, and the time of the oldest, which its id begins with. */
export async function readLag(ctx: TenantCtx) {
  const rows = await all(ctx.db, selectLag({ environmentId: ctx.environment.id }));
  return rows.map(({ oldestAtMs, ...row }) => ({
    ...row,
    oldestAt: oldestAtMs === null ? null : iso(oldestAtMs),
  }));
}
