import { type SQL, sql } from "drizzle-orm";
import { asInteger, insertFrom, query, type ValueOf } from "../db/query.ts";
import { webhookDeliveries, webhookMessages } from "../db/schema.ts";
import type { Statement } from "../db/sql.ts";
import type { Environment, TenantCtx } from "../runtime.ts";
import { endpointsOf, type MessageType, messageIdAt, wantsType } from "./message.ts";

/** What happened, to be told to the endpoints that want it (H2). */
export interface NewMessage {
  readonly type: MessageType;
  /** The user or the distinct id that it names. */
  readonly subject: string | null;
  readonly data: Readonly<Record<string, unknown>>;
}

/** A message with its id, for the endpoints that want it. */
export type Outgoing<Message extends Pick<NewMessage, "type">> = Message & {
  readonly id: string;
  readonly endpointIds: readonly string[];
};

/** Those of some messages that an endpoint wants, by the text of the environment's features. Usually none. */
export function wantedMessages<Message extends Pick<NewMessage, "type">>(
  ctx: TenantCtx,
  features: string | null,
  messages: () => readonly Message[],
): Outgoing<Message>[] {
  const endpoints = endpointsOf(features);
  if (endpoints.length === 0) return [];
  const prefix = messageIdAt(ctx.realNow());
  return messages().flatMap((message) => {
    const endpointIds = endpoints.filter(({ types }) => wantsType(types, message.type)).map(({ id }) => id);
    return endpointIds.length === 0 ? [] : [{ ...message, id: ctx.newId(prefix), endpointIds }];
  });
}

export type MessageValues = { environmentId: number; nowMs: number; messages: string };

/**
 * A statement that writes messages. `data` is SQL for a message's data, beside `m.value`, the message as JSON, and `condition`
 * says which are written. A batch that is sent again writes nothing more.
 */
export function insertMessagesOf<Values extends MessageValues = MessageValues>(
  data: (value: ValueOf<Values>) => SQL,
  condition: (value: ValueOf<Values>) => SQL = () => sql`1`,
) {
  return query((value: ValueOf<Values>) => {
    const message = {
      id: sql`m.value ->> 'id'`,
      environmentId: asInteger(value("environmentId")),
      type: sql`m.value ->> 'type'`,
      atMs: asInteger(value("nowMs")),
      subject: sql`m.value ->> 'subject'`,
      data: data(value),
    };
    return sql`${insertFrom(webhookMessages, message, sql`FROM json_each(${value("messages")}) AS m WHERE ${condition(value)}`)} ${ONCE}`;
  });
}

/** After an INSERT of messages or deliveries that a batch may send twice. */
export const ONCE = sql`ON CONFLICT DO NOTHING`;

const insertMessages = insertMessagesOf(() => sql`m.value -> 'data'`);

type DeliveryValues = { environmentId: number; deliveries: string; atMs: number; dueAtMs: number };

/** The fields of deliveries that are written, beside their keys. */
export const newDelivery = (value: ValueOf<Pick<DeliveryValues, "atMs" | "dueAtMs">>) => ({
  status: sql`'pending'`,
  nextAttemptAtMs: asInteger(value("atMs")),
  dueAtMs: asInteger(value("dueAtMs")),
});

const insertDeliveries = query((value: ValueOf<DeliveryValues>) => {
  const { id, environmentId } = webhookMessages;
  const from = sql`FROM json_each(${value("deliveries")}) AS d
    CROSS JOIN ${webhookMessages} ON ${id} = d.value ->> 1 WHERE ${environmentId} = ${value("environmentId")}`;
  const delivery = { endpointId: sql`d.value ->> 0`, messageId: id, ...newDelivery(value) };
  return sql`${insertFrom(webhookDeliveries, delivery, from)} ${ONCE}`;
});

/** How long whoever makes an attempt has for it. Nobody else makes it meanwhile. */
export const LEASE_MS = 30_000;

/** How many messages an invocation attempts behind its answer. The cron takes the others. */
export const FIRST_ATTEMPTS_MAX = 20;

/**
 * The statement that sends messages to their endpoints, those of them that the batch wrote before. It makes a delivery for each
 * endpoint: as leased, where this invocation makes the first attempt (`noteMessages`), else due at once.
 */
export function deliver(ctx: TenantCtx, messages: readonly Outgoing<Pick<NewMessage, "type">>[]): Statement[] {
  if (messages.length === 0) return [];
  const deliveries = messages.flatMap(({ id, endpointIds }) => endpointIds.map((endpointId) => [endpointId, id]));
  return [
    insertDeliveries({
      environmentId: ctx.environment.id,
      deliveries: JSON.stringify(deliveries),
      ...deliveryTimes(ctx),
    }),
  ];
}

/** When deliveries that are written now are due: after a lease, where this invocation makes their first attempts. */
export function deliveryTimes(ctx: TenantCtx): { atMs: number; dueAtMs: number } {
  const atMs = ctx.realNow();
  const isOurs = ctx.outbox !== undefined && ctx.outbox.length < FIRST_ATTEMPTS_MAX;
  return { atMs, dueAtMs: isOurs ? atMs + LEASE_MS : atMs };
}

/** Has this invocation make the first attempts of messages that were written. */
export function noteMessages(
  { outbox, environment }: Pick<TenantCtx, "outbox"> & { readonly environment: Pick<Environment, "database"> },
  messages: readonly { readonly id: string }[],
): void {
  for (const { id: messageId } of messages) outbox?.push({ database: environment.database, messageId });
}

/** The statements that write messages whose data are known, and send them. `nowMs` is the environment's time. */
export function messageWrites(ctx: TenantCtx, messages: readonly Outgoing<NewMessage>[], nowMs: number): Statement[] {
  if (messages.length === 0) return [];
  const values = { environmentId: ctx.environment.id, nowMs, messages: JSON.stringify(messages) };
  return [insertMessages(values), ...deliver(ctx, messages)];
}
