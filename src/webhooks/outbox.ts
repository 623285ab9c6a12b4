import { type SQL, sql } from "drizzle-orm";
import { globMatches } from "../books/amounts/match.ts";
import { asInteger, fields, insertFrom, query, returning, type ValueOf } from "../db/query.ts";
import { environments, webhookDeliveries, webhookMessages } from "../db/schema.ts";
import { readSettingsSnapshot } from "../db/settings-snapshot.ts";
import type { Statement } from "../db/sql.ts";
import { fromBase62, toBase62 } from "../lib/encoding.ts";
import { jsonChunks } from "../lib/json.ts";
import { iso } from "../lib/time.ts";
import type { Environment, Mode, TenantCtx } from "../runtime.ts";
import type { MessageData, MessageType } from "./message-data.ts";

/** The types of messages (H2), as in `messageData`. The Worker does not need the schemas there, so this is a separate list. */
export const MESSAGE_TYPES = [
  "credits.granted",
  "credits.refunded",
  "credits.revoked",
  "credits.adjusted",
  "credits.low",
  "credits.depleted",
  "recurring.suspended",
  "balance.expiring",
  "balance.expired",
  "usage.recorded",
  "usage.limit_reached",
  "price.missing",
  "reservation.expired",
  "person.exported",
  "person.erased",
  "limits.reached",
  "payment.unmatched",
  "payment.taken",
  "payment.restored",
  "purser.test",
] as const satisfies readonly MessageType[];

/** An enabled endpoint, in the environment's settings snapshot. */
interface EndpointFeature {
  readonly id: string;
  /** Globs. Null for all types except those that must be requested by name. */
  readonly types: readonly string[] | null;
}

/** Returns the enabled endpoints, from the text of an environment's settings snapshot. */
export function parseEndpoints(settingsSnapshot: string | null): readonly EndpointFeature[] {
  // Only `syncEndpoints` writes this part.
  return (readSettingsSnapshot(settingsSnapshot).webhooks ?? []) as readonly EndpointFeature[];
}

/** Returns whether an endpoint with these globs wants a type of message. `*` does not include `usage.recorded`. */
export function wantsType(types: readonly string[] | null, type: MessageType): boolean {
  const mustBeNamed = type === "usage.recorded";
  if (types === null) return !mustBeNamed;
  return types.some((glob) => globMatches(glob, type) && !(mustBeNamed && glob === "*"));
}

const TIME_DIGITS = 8;

/** Returns the prefix of the ids of messages that are written at a time. Prefixes sort by time. */
export function messageIdAt(atMs: number): string {
  return `msg_${toBase62(Math.max(0, atMs)).padStart(TIME_DIGITS, "0")}`;
}

/** Returns the real time at which the message with this id was written. */
export const messageTimeOf = (id: string): number => fromBase62(id.slice("msg_".length, "msg_".length + TIME_DIGITS));

export interface MessageRow {
  readonly id: string;
  readonly type: string;
  readonly atMs: number;
  /** JSON object. */
  readonly data: string;
  readonly appId: string;
  readonly mode: Mode;
}

/**
 * Returns the body of a message, which is the same in every attempt. `data` is the stored text, so that numbers keep all
 * digits.
 */
export function messageText({ id, type, atMs, appId, mode, data }: MessageRow): string {
  const head = JSON.stringify({ id, type, timestamp: iso(atMs), appId, mode });
  return `${head.slice(0, -1)},"data":${data}}`;
}

/** A message to the endpoints that want its type (H2). Its statement may add values to `data` that only the database knows. */
export type NewMessage<Type extends MessageType = MessageType> = {
  readonly [Each in Type]: {
    readonly type: Each;
    /** The user id or distinct id that it names. */
    readonly subject: string | null;
    readonly data: Partial<MessageData[Each]>;
  };
}[Type];

/** A message with its id, for the endpoints that want it. */
export type Outgoing<Message extends Pick<NewMessage, "type">> = Message & {
  readonly id: string;
  readonly endpointIds: readonly string[];
};

/**
 * Returns the messages that at least one endpoint wants, according to the text of the environment's settings snapshot. Usually there
 * are none.
 */
export function wantedMessages<Message extends Pick<NewMessage, "type">>(
  ctx: TenantCtx,
  settingsSnapshot: string | null,
  messages: () => readonly Message[],
): Outgoing<Message>[] {
  const endpoints = parseEndpoints(settingsSnapshot);
  if (endpoints.length === 0) return [];
  const prefix = messageIdAt(ctx.realNow());
  return messages().flatMap((message) => {
    const endpointIds = endpoints.filter(({ types }) => wantsType(types, message.type)).map(({ id }) => id);
    return endpointIds.length === 0 ? [] : [{ ...message, id: ctx.newId(prefix), endpointIds }];
  });
}

export type MessageValues = { environmentId: number; nowMs: number; messages: string };

/**
 * Makes a statement that writes messages. `data` is SQL for a message's data, in which `m.value` is the message as JSON.
 * `condition` selects the messages to write. A repeated batch writes nothing more.
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
    return sql`${insertFrom(webhookMessages, message, sql`FROM json_each(${value("messages")}) AS m WHERE ${condition(value)}`)} ${ON_REPEAT}`;
  });
}

/** Ends an INSERT of messages or deliveries, because a batch may be sent twice. */
export const ON_REPEAT = sql`ON CONFLICT DO NOTHING`;

const insertMessages = insertMessagesOf(() => sql`m.value -> 'data'`);

type DeliveryValues = { environmentId: number; deliveries: string; atMs: number; dueAtMs: number };

/** The fields of a new delivery, without its key. */
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
  return sql`${insertFrom(webhookDeliveries, delivery, from)} ${ON_REPEAT}`;
});

/** How long a delivery is leased for an attempt. During this time no other invocation attempts it. */
export const LEASE_MS = 30_000;

/** How many messages an invocation attempts after its response. The cron attempts the others. */
export const FIRST_ATTEMPTS_MAX = 20;

/**
 * Returns the statement that inserts a delivery for each endpoint of the messages that the batch wrote before. If this
 * invocation makes the first attempt (`noteMessages`), the delivery is leased. Otherwise it is due immediately.
 */
export function deliver(ctx: TenantCtx, messages: readonly Outgoing<Pick<NewMessage, "type">>[]): Statement[] {
  if (messages.length === 0) return [];
  const deliveries = messages.flatMap(({ id, endpointIds }) => endpointIds.map((endpointId) => [endpointId, id]));
  const values = { environmentId: ctx.environment.id, ...deliveryTimes(ctx) };
  return jsonChunks(deliveries).map((chunk) => insertDeliveries({ ...values, deliveries: chunk }));
}

/** Returns when new deliveries are due: after a lease if this invocation makes their first attempts, otherwise now. */
export function deliveryTimes(ctx: TenantCtx): { atMs: number; dueAtMs: number } {
  const atMs = ctx.realNow();
  const attemptsHere = ctx.outbox !== undefined && ctx.outbox.length < FIRST_ATTEMPTS_MAX;
  return { atMs, dueAtMs: attemptsHere ? atMs + LEASE_MS : atMs };
}

/** Lets this invocation attempt the written messages after its response. */
export function noteMessages(
  { outbox, environment }: Pick<TenantCtx, "outbox"> & { readonly environment: Pick<Environment, "database"> },
  messages: readonly { readonly id: string }[],
): void {
  for (const { id: messageId } of messages) outbox?.push({ database: environment.database, messageId });
}

/** Returns the statements that write messages with complete data, and their deliveries. `nowMs` is the environment's time. */
export function messageWrites(ctx: TenantCtx, messages: readonly Outgoing<NewMessage>[], nowMs: number): Statement[] {
  if (messages.length === 0) return [];
  const values = { environmentId: ctx.environment.id, nowMs, messages: JSON.stringify(messages) };
  return [insertMessages(values), ...deliver(ctx, messages)];
}

type ExportedValues = { appId: string; mode: Mode; messageId: string };

const fromEndpointsWithExports = (value: ValueOf<ExportedValues>) => sql`
  FROM ${environments} CROSS JOIN json_each(${environments.settingsSnapshot}, '$.webhooks') AS w
  WHERE ${environments.appId} = ${value("appId")} AND ${environments.mode} = ${value("mode")} AND w.value ->> 'exports'`;

const insertExportedMessage = query(
  (value: ValueOf<ExportedValues & { nowMs: number; distinctId: string; action: string }>) => {
    const message = {
      id: value("messageId"),
      environmentId: environments.id,
      type: sql`'person.exported'`,
      atMs: asInteger(value("nowMs")),
      subject: value("distinctId"),
      data: sql`json_object('distinctId', ${value("distinctId")}, 'action', ${value("action")})`,
    };
    const insert = insertFrom(webhookMessages, message, sql`${fromEndpointsWithExports(value)} LIMIT 1`);
    return returning(fields(webhookMessages, "id"), (list) => sql`${insert} ${ON_REPEAT} RETURNING ${list}`);
  },
);
const insertExportedDeliveries = query((value: ValueOf<ExportedValues & { atMs: number; dueAtMs: number }>) => {
  const delivery = { endpointId: sql`w.value ->> 'id'`, messageId: value("messageId"), ...newDelivery(value) };
  return sql`${insertFrom(webhookDeliveries, delivery, fromEndpointsWithExports(value))} ${ON_REPEAT}`;
});

/**
 * Returns the statements that write `person.exported` and its deliveries if an endpoint wants it. The statements check this,
 * because their batch is the first of its request. The first statement returns a row when it wrote the message.
 */
export function personExported(
  { now, realNow, newId, outbox }: Pick<TenantCtx, "now" | "realNow" | "newId" | "outbox">,
  { appId, mode, distinctId }: { readonly appId: string; readonly mode: Mode; readonly distinctId: string },
  action: "minted" | "opened",
): readonly [Statement<{ id: string }>, Statement] {
  const atMs = realNow();
  const values = { appId, mode, messageId: newId(messageIdAt(atMs)) };
  const dueAtMs = outbox === undefined ? atMs : atMs + LEASE_MS;
  return [
    insertExportedMessage({ ...values, nowMs: now(), distinctId, action }),
    insertExportedDeliveries({ ...values, atMs, dueAtMs }),
  ];
}
