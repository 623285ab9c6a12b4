import { and, eq, sql } from "drizzle-orm";
import { asInteger, hasRow, insertFrom, query, type ValueOf } from "../../db/query.ts";
import { environments, webhookDeliveries, webhookMessages } from "../../db/schema.ts";
import { batch } from "../../db/sql.ts";
import { PurserError } from "../../errors.ts";
import { rememberPerObject } from "../../lib/bounded-memory.ts";
import { DAY_MS } from "../../lib/time.ts";
import type { TenantCtx } from "../../runtime.ts";
import type { MessageData } from "../../webhooks/message-data.ts";
import { deliveryTimes, messageIdAt, newDelivery, noteMessages, ON_REPEAT } from "../../webhooks/outbox.ts";
import { wantingEndpoints } from "../../webhooks/wanting-endpoints.ts";

/** This file writes `price.missing`: once a day for each event and model, the first 100 of the environment (PR4). */

const MESSAGES_A_DAY_MAX = 100;

/** Begins the subject of a message. No id contains a control character, so an erasure never finds it. */
const SUBJECT_MARK = "\u0001";

type MissingValues = {
  environmentId: number;
  nowMs: number;
  messageId: string;
  day: number;
  subject: string;
  data: string;
};

const insertMissing = query((value: ValueOf<MissingValues>) => {
  const { environmentId, atMs, subject } = webhookMessages;
  const message = {
    id: value("messageId"),
    environmentId: environments.id,
    type: sql`'price.missing'`,
    atMs: asInteger(value("nowMs")),
    subject: value("subject"),
    data: value("data"),
  };
  const isOfDay = and(eq(environmentId, value("environmentId")), sql`${atMs} / 86400000 = ${value("day")}`);
  const isSame = hasRow(webhookMessages, and(isOfDay, eq(subject, value("subject"))));
  const ofDay = sql`SELECT count(*) FROM ${webhookMessages} WHERE ${isOfDay} AND ${subject} >= char(1) AND ${subject} < char(2)`;
  const from = sql`FROM ${wantingEndpoints(value, "price.missing")} WHERE NOT ${isSame} AND (${ofDay}) < ${MESSAGES_A_DAY_MAX} LIMIT 1`;
  return insertFrom(webhookMessages, message, from);
});
const insertMissingDeliveries = query((value: ValueOf<MissingValues & { atMs: number; dueAtMs: number }>) => {
  const delivery = { endpointId: sql`w.value ->> 'id'`, messageId: webhookMessages.id, ...newDelivery(value) };
  const written = sql`CROSS JOIN ${webhookMessages} ON ${webhookMessages.id} = ${value("messageId")} WHERE true`;
  const from = sql`FROM ${wantingEndpoints(value, "price.missing")} ${written}`;
  return sql`${insertFrom(webhookDeliveries, delivery, from)} ${ON_REPEAT}`;
});

/** The day, environment and subject of the messages that this isolate has written. It only saves repeated writes. */
const announcedOf = rememberPerObject(() => new Set<string>());
const ANNOUNCED_MAX = 1_000;

/**
 * Writes the messages of rejections for want of a price, after them. Other rejections are ignored. A failed write is not repeated: the
 * next rejection of the day writes the message.
 */
export async function announceMissingPrices(ctx: TenantCtx, rejections: readonly unknown[]): Promise<void> {
  const missing = rejections.filter(
    (error): error is PurserError => error instanceof PurserError && error.code === "price_not_found",
  );
  if (missing.length === 0) return;
  const announced = announcedOf(ctx.isolate);
  const nowMs = ctx.now();
  const day = Math.floor(nowMs / DAY_MS);
  const found = new Map<string, Parameters<typeof insertMissingDeliveries>[0]>();
  for (const { details } of missing) {
    // `priceNotFound` makes these details.
    const { event, model, meters } = details as unknown as MessageData["price.missing"];
    const subject = `${SUBJECT_MARK}${JSON.stringify([event, model])}`;
    const key = `${day} ${ctx.environment.appId} ${ctx.environment.mode} ${subject}`;
    if (announced.has(key) || found.has(key)) continue;
    const messageId = ctx.newId(messageIdAt(ctx.realNow()));
    const data = JSON.stringify({ event, model, meters });
    const values = { environmentId: ctx.environment.id, nowMs, messageId, day, subject, data };
    found.set(key, { ...values, ...deliveryTimes(ctx) });
  }
  if (found.size === 0) return;
  try {
    await batch(
      ctx.db,
      [...found.values()].flatMap((values) => [insertMissing(values), insertMissingDeliveries(values)]),
    );
    if (announced.size >= ANNOUNCED_MAX) announced.clear();
    for (const key of found.keys()) announced.add(key);
    noteMessages(
      ctx,
      [...found.values()].map(({ messageId: id }) => ({ id })),
    );
  } catch {
    console.warn(JSON.stringify({ level: "warn", message: "price.missing was not written" }));
  }
}
