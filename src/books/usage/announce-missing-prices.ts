import { sql } from "drizzle-orm";
import { asInteger, insertFrom, query, type ValueOf } from "../../db/query.ts";
import { environments, webhookDeliveries, webhookMessages } from "../../db/schema.ts";
import { batch } from "../../db/sql.ts";
import { PurserError } from "../../errors.ts";
import { rememberPerObject } from "../../lib/bounded-memory.ts";
import { sha256, toBase62 } from "../../lib/encoding.ts";
import { DAY_MS } from "../../lib/time.ts";
import type { TenantCtx } from "../../runtime.ts";
import type { MessageData } from "../../webhooks/message-data.ts";
import { deliveryTimes, messageIdAt, newDelivery, noteMessages, ON_REPEAT } from "../../webhooks/outbox.ts";
import { wantingEndpoints } from "../../webhooks/wanting-endpoints.ts";

/** This file writes `price.missing`: once a day for each event and model, the first 100 of the environment (PR4). */

const MESSAGES_A_DAY_MAX = 100;

type MissingValues = { environmentId: number; nowMs: number; messageId: string; prefix: string; data: string };

const insertMissing = query((value: ValueOf<MissingValues>) => {
  const { id } = webhookMessages;
  const message = {
    id: value("messageId"),
    environmentId: environments.id,
    type: sql`'price.missing'`,
    atMs: asInteger(value("nowMs")),
    data: value("data"),
  };
  const ofDay = sql`SELECT count(*) FROM ${webhookMessages} WHERE ${id} > ${value("prefix")} AND ${id} < ${value("prefix")} || '~'`;
  const from = sql`FROM ${wantingEndpoints(value, "price.missing")} WHERE (${ofDay}) < ${MESSAGES_A_DAY_MAX} LIMIT 1`;
  return sql`${insertFrom(webhookMessages, message, from)} ${ON_REPEAT}`;
});
const insertMissingDeliveries = query((value: ValueOf<MissingValues & { atMs: number; dueAtMs: number }>) => {
  const delivery = { endpointId: sql`w.value ->> 'id'`, messageId: webhookMessages.id, ...newDelivery(value) };
  const written = sql`CROSS JOIN ${webhookMessages} ON ${webhookMessages.id} = ${value("messageId")} WHERE true`;
  const from = sql`FROM ${wantingEndpoints(value, "price.missing")} ${written}`;
  return sql`${insertFrom(webhookDeliveries, delivery, from)} ${ON_REPEAT}`;
});

/** The messages that this isolate has written. It only saves repeated writes. */
const announcedOf = rememberPerObject(() => new Set<string>());
const ANNOUNCED_MAX = 1_000;

/** Returns the id of a message: the same for an event and model on a day, so that the database takes one. */
async function missingId({ environment }: TenantCtx, dayMs: number, named: readonly unknown[]) {
  const prefix = `${messageIdAt(dayMs)}${toBase62(environment.id).padStart(8, "0")}`;
  const hash = (await sha256(JSON.stringify(named))).replaceAll("-", "0").replaceAll("_", "1");
  return { prefix, messageId: `${prefix}${hash.slice(0, 14)}` };
}

/**
 * Writes the messages of rejections for want of a price, after them. Other rejections are ignored. A failed write is not repeated: the
 * next rejection of the day writes the message.
 */
export async function announceMissingPrices(ctx: TenantCtx, rejections: readonly unknown[]): Promise<void> {
  const missing = rejections.filter((error) => error instanceof PurserError && error.code === "price_not_found");
  if (missing.length === 0) return;
  const announced = announcedOf(ctx.isolate);
  const dayMs = Math.floor(ctx.realNow() / DAY_MS) * DAY_MS;
  const found = new Map<string, Parameters<typeof insertMissingDeliveries>[0]>();
  for (const { details } of missing as PurserError[]) {
    // `priceNotFound` makes these details.
    const { event, model, meters } = details as unknown as MessageData["price.missing"];
    const { prefix, messageId } = await missingId(ctx, dayMs, [event, model]);
    if (announced.has(messageId)) continue;
    const data = JSON.stringify({ event, model, meters });
    const values = { environmentId: ctx.environment.id, nowMs: ctx.now(), messageId, prefix, data };
    if (!found.has(messageId)) found.set(messageId, { ...values, ...deliveryTimes(ctx) });
  }
  if (found.size === 0) return;
  try {
    await batch(
      ctx.db,
      [...found.values()].flatMap((values) => [insertMissing(values), insertMissingDeliveries(values)]),
    );
    if (announced.size >= ANNOUNCED_MAX) announced.clear();
    for (const id of found.keys()) announced.add(id);
    noteMessages(
      ctx,
      [...found.keys()].map((id) => ({ id })),
    );
  } catch {
    console.warn(JSON.stringify({ level: "warn", message: "price.missing was not written" }));
  }
}
