import { and, eq, exists, gte, inArray, lt, sql } from "drizzle-orm";
import { auditEntryIsOwn, insertAuditEntry, newAuditEntry, type WrittenAuditEntry } from "../catalog/audit.ts";
import { asInteger, computed, drizzle, fields, insertFrom, query, read, returning, type ValueOf } from "../db/query.ts";
import { webhookDeliveries, webhookMessages } from "../db/schema.ts";
import { timesOf } from "../db/settings-snapshot.ts";
import { batch } from "../db/sql.ts";
import { PurserError } from "../errors.ts";
import type { AdminCtx } from "../runtime.ts";
import { TRIES_MAX } from "./attempt-delivery.ts";
import { assertEnabled, type EndpointRow, readEnvironment } from "./endpoint.ts";
import { deliver, FIRST_ATTEMPTS_MAX, LEASE_MS, messageIdAt, noteMessages, ON_REPEAT } from "./outbox.ts";

export interface SentOutput {
  readonly messageId: string;
}

export interface ReplayInput {
  readonly from: number;
  readonly to?: number | undefined;
}

export interface ReplayOutput {
  readonly messages: number;
}

type ResentKey = { webhookId: string; messageId: string };

/** SQL: whether no invocation is attempting a delivery now. */
const isUnleased = (value: ValueOf<{ nowMs: number }>) => {
  const { status, dueAtMs, nextAttemptAtMs } = webhookDeliveries;
  return sql`NOT (${status} = 'pending' AND ${dueAtMs} > ${nextAttemptAtMs} AND ${dueAtMs} > ${value("nowMs")})`;
};

const isDelivery = (value: ValueOf<ResentKey>) =>
  and(eq(webhookDeliveries.endpointId, value("webhookId")), eq(webhookDeliveries.messageId, value("messageId")));

const auditResent = insertAuditEntry();
const selectDelivery = query((value: ValueOf<ResentKey>) =>
  drizzle.select(fields(webhookDeliveries, "messageId")).from(webhookDeliveries).where(isDelivery(value)),
);

type Resent = ResentKey & { nowMs: number; dueAtMs: number };
/**
 * Schedules one extra attempt, and leases it because this invocation makes it. A pending delivery keeps its number of tries.
 */
const resendOne = query((value: ValueOf<Resent & WrittenAuditEntry>) => {
  const { status, tries, nextAttemptAtMs, dueAtMs } = webhookDeliveries;
  return drizzle
    .update(webhookDeliveries)
    .set({
      status: "pending",
      tries: sql`iif(${status} = 'pending', ${tries}, ${TRIES_MAX - 1})`,
      nextAttemptAtMs: value("nowMs", nextAttemptAtMs),
      dueAtMs: value("dueAtMs", dueAtMs),
    })
    .where(and(isDelivery(value), isUnleased(value), auditEntryIsOwn(value)))
    .returning(fields(webhookDeliveries, "messageId"));
});

/**
 * Makes an extra attempt at a delivery, after the response (H8). Throws `not_found`, and `invalid_request` for a disabled
 * endpoint.
 */
export async function resendMessage(admin: AdminCtx, row: EndpointRow, messageId: string): Promise<SentOutput> {
  assertEnabled(row);
  const { id: webhookId, appId } = row;
  const key = { webhookId, messageId };
  const [[delivery]] = await batch(admin.db, [selectDelivery(key)]);
  if (delivery === undefined) {
    throw new PurserError("not_found", "The endpoint has no such message.", { param: "messageId" });
  }
  const details = { mode: row.mode, messageId };
  const entry = newAuditEntry(admin, { appId, action: "webhook.resent", target: webhookId, details });
  const nowMs = entry.atMs;
  const dueAtMs = admin.outbox === undefined ? nowMs : nowMs + LEASE_MS;
  const [, [leased]] = await batch(admin.db, [
    auditResent(entry),
    resendOne({ ...entry, ...key, nowMs, dueAtMs }),
  ] as const);
  const { database } = readEnvironment(row);
  if (leased !== undefined) admin.outbox?.push({ database, messageId, endpointId: webhookId });
  return { messageId };
}

const REPLAY_MAX = 10_000;

type MessageSpan = { webhookId: string; from: string; to: string };

const deliveriesInSpan = (value: ValueOf<MessageSpan>) => {
  const { endpointId, messageId } = webhookDeliveries;
  return drizzle
    .select(fields(webhookDeliveries, "messageId"))
    .from(webhookDeliveries)
    .where(and(eq(endpointId, value("webhookId")), gte(messageId, value("from")), lt(messageId, value("to"))))
    .orderBy(messageId)
    .limit(REPLAY_MAX);
};

const auditReplayed = insertAuditEntry<MessageSpan>((value) => exists(deliveriesInSpan(value)));
const countSpan = query((value: ValueOf<MessageSpan>) =>
  read(computed({ messages: sql<number>`count(*)` }), (list) => sql`SELECT ${list} FROM ${deliveriesInSpan(value)}`),
);
/** Leases the oldest deliveries, because this invocation attempts them after its response. The cron attempts the others. */
const replaySpan = query(
  (value: ValueOf<MessageSpan & WrittenAuditEntry & { nowMs: number; leaseMs: number; leased: number }>) => {
    const { endpointId, messageId, nextAttemptAtMs } = webhookDeliveries;
    const oldest = sql`SELECT ${messageId} FROM (${deliveriesInSpan(value)}) AS ${webhookDeliveries} ORDER BY ${messageId} LIMIT ${asInteger(value("leased"))}`;
    return drizzle
      .update(webhookDeliveries)
      .set({
        status: "pending",
        tries: 0,
        nextAttemptAtMs: value("nowMs", nextAttemptAtMs),
        dueAtMs: sql`iif(${messageId} IN (${oldest}), ${asInteger(value("leaseMs"))}, ${asInteger(value("nowMs"))})`,
      })
      .where(
        and(
          eq(endpointId, value("webhookId")),
          inArray(messageId, deliveriesInSpan(value)),
          isUnleased(value),
          auditEntryIsOwn(value),
        ),
      )
      .returning(fields(webhookDeliveries, "messageId", "dueAtMs"));
  },
);

/** Sends the messages to an endpoint from a span of time again (H8). Throws the errors of `resendMessage`. */
export async function replayMessages(
  admin: AdminCtx,
  row: EndpointRow,
  { from, to = admin.now() }: ReplayInput,
): Promise<ReplayOutput> {
  assertEnabled(row);
  const { id: webhookId, appId, mode } = row;
  const span = { webhookId, from: messageIdAt(from), to: messageIdAt(to) };
  const entry = newAuditEntry(admin, { appId, action: "webhook.replayed", target: webhookId, details: { mode } });
  const nowMs = entry.atMs;
  const lease = { leaseMs: nowMs + LEASE_MS, leased: admin.outbox === undefined ? 0 : FIRST_ATTEMPTS_MAX };
  const [, [counted], written] = await batch(admin.db, [
    auditReplayed({ ...entry, ...span }),
    countSpan(span),
    replaySpan({ ...entry, ...span, ...lease, nowMs }),
  ] as const);
  const { database } = readEnvironment(row);
  for (const { messageId, dueAtMs } of written) {
    if (dueAtMs > nowMs) admin.outbox?.push({ database, messageId, endpointId: webhookId });
  }
  return { messages: counted?.messages ?? 0 };
}

const auditTested = insertAuditEntry();
const insertTest = query(
  (value: ValueOf<WrittenAuditEntry & { messageId: string; environmentId: number; nowMs: number }>) => {
    const message = {
      id: value("messageId"),
      environmentId: value("environmentId"),
      type: sql`'purser.test'`,
      atMs: value("nowMs"),
      data: sql`'{}'`,
    };
    const insert = insertFrom(webhookMessages, message, sql`WHERE ${auditEntryIsOwn(value)}`);
    return returning(fields(webhookMessages, "id"), (list) => sql`${insert} ${ON_REPEAT} RETURNING ${list}`);
  },
);

/**
 * Sends `purser.test` to an endpoint, even if its types do not include it. Throws `not_found`, and `invalid_request` when it
 * is disabled.
 */
export async function sendTest(admin: AdminCtx, row: EndpointRow): Promise<SentOutput> {
  assertEnabled(row);
  const { id: webhookId, appId } = row;
  const ctx = { ...admin, ...timesOf(row.clock, admin), environment: readEnvironment(row) };
  const entry = newAuditEntry(admin, {
    appId,
    action: "webhook.tested",
    target: webhookId,
    details: { mode: row.mode },
  });
  const messageId = admin.newId(messageIdAt(entry.atMs));
  const [, written] = await batch(admin.db, [
    auditTested(entry),
    insertTest({ ...entry, messageId, environmentId: row.environmentId, nowMs: ctx.now() }),
    ...deliver(ctx, [{ type: "purser.test", id: messageId, endpointIds: [webhookId] }]),
  ] as const);
  noteMessages(ctx, written);
  return { messageId };
}
