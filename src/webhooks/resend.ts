import { and, eq, sql } from "drizzle-orm";
import { actIsThis, insertAct, newAct, type WrittenAct } from "../catalog/audit/audit-statement.ts";
import { drizzle, fields, query, type ValueOf } from "../db/query.ts";
import { webhookDeliveries } from "../db/schema.ts";
import { batch } from "../db/sql.ts";
import { PurserError } from "../errors.ts";
import type { AdminCtx } from "../runtime.ts";
import { environmentOf, requireEnabledEndpoint } from "./endpoint.ts";
import { LEASE_MS } from "./outbox.ts";
import type { SentOutput } from "./responses.ts";
import { TRIES_MAX } from "./schedule.ts";

type Key = { webhookId: string; messageId: string };

/** Whether nobody is attempting a delivery right now. */
export const isFree = (value: ValueOf<{ nowMs: number }>) => {
  const { status, dueAtMs, nextAttemptAtMs } = webhookDeliveries;
  return sql`NOT (${status} = 'pending' AND ${dueAtMs} > ${nextAttemptAtMs} AND ${dueAtMs} > ${value("nowMs")})`;
};

const ofKey = (value: ValueOf<Key>) =>
  and(eq(webhookDeliveries.endpointId, value("webhookId")), eq(webhookDeliveries.messageId, value("messageId")));

const audit = insertAct();
const selectDelivery = query((value: ValueOf<Key>) =>
  drizzle.select(fields(webhookDeliveries, "messageId")).from(webhookDeliveries).where(ofKey(value)),
);

type Resent = Key & { nowMs: number; dueAtMs: number };
/** One attempt, after which no more follow unless they would have anyway. Leased, because it is made behind the answer. */
const resendOne = query((value: ValueOf<Resent & WrittenAct>) => {
  const { status, tries, nextAttemptAtMs, dueAtMs } = webhookDeliveries;
  return drizzle
    .update(webhookDeliveries)
    .set({
      status: "pending",
      tries: sql`iif(${status} = 'pending', ${tries}, ${TRIES_MAX - 1})`,
      nextAttemptAtMs: value("nowMs", nextAttemptAtMs),
      dueAtMs: value("dueAtMs", dueAtMs),
    })
    .where(and(ofKey(value), isFree(value), actIsThis(value)))
    .returning(fields(webhookDeliveries, "messageId"));
});

/** Attempts a delivery once more, behind the answer (H8). Throws `not_found`, and `invalid_request` for an endpoint that is off. */
export async function resendMessage(
  admin: AdminCtx,
  appId: string,
  webhookId: string,
  messageId: string,
): Promise<SentOutput> {
  const row = await requireEnabledEndpoint(admin, appId, webhookId);
  const key = { webhookId, messageId };
  const [[found]] = await batch(admin.db, [selectDelivery(key)]);
  if (found === undefined) {
    throw new PurserError("not_found", "The endpoint has no such message.", { param: "messageId" });
  }
  const details = { mode: row.mode, messageId };
  const act = newAct(admin, { appId, action: "webhook.resent", target: webhookId, details });
  const nowMs = act.atMs;
  const dueAtMs = admin.outbox === undefined ? nowMs : nowMs + LEASE_MS;
  const [, [leased]] = await batch(admin.db, [audit(act), resendOne({ ...act, ...key, nowMs, dueAtMs })] as const);
  const { database } = environmentOf(row);
  if (leased !== undefined) admin.outbox?.push({ database, messageId, endpointId: webhookId });
  return { messageId };
}
