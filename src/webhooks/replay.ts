import { and, eq, exists, gte, inArray, lt, sql } from "drizzle-orm";
import { actIsThis, insertAct, newAct, type WrittenAct } from "../catalog/audit/audit-statement.ts";
import { computed, drizzle, fields, query, read, type ValueOf } from "../db/query.ts";
import { webhookDeliveries } from "../db/schema.ts";
import { batch } from "../db/sql.ts";
import type { AdminCtx } from "../runtime.ts";
import { requireEnabledEndpoint } from "./endpoint.ts";
import { messageIdAt } from "./message.ts";
import { isFree } from "./resend.ts";
import type { ReplayOutput } from "./responses.ts";
import type { ReplayInput } from "./schemas.ts";

const REPLAY_MAX = 10_000;

type Span = { webhookId: string; from: string; to: string };

const ofTime = (value: ValueOf<Span>) => {
  const { endpointId, messageId } = webhookDeliveries;
  return drizzle
    .select(fields(webhookDeliveries, "messageId"))
    .from(webhookDeliveries)
    .where(and(eq(endpointId, value("webhookId")), gte(messageId, value("from")), lt(messageId, value("to"))))
    .orderBy(messageId)
    .limit(REPLAY_MAX);
};

const audit = insertAct<Span>((value) => exists(ofTime(value)));
const countSpan = query((value: ValueOf<Span>) =>
  read(computed({ messages: sql<number>`count(*)` }), (list) => sql`SELECT ${list} FROM ${ofTime(value)}`),
);
const replaySpan = query((value: ValueOf<Span & WrittenAct & { nowMs: number }>) => {
  const { endpointId, messageId, nextAttemptAtMs, dueAtMs } = webhookDeliveries;
  return drizzle
    .update(webhookDeliveries)
    .set({
      status: "pending",
      tries: 0,
      nextAttemptAtMs: value("nowMs", nextAttemptAtMs),
      dueAtMs: value("nowMs", dueAtMs),
    })
    .where(and(eq(endpointId, value("webhookId")), inArray(messageId, ofTime(value)), isFree(value), actIsThis(value)));
});

/** Sends again what was written for an endpoint in a time, by the cron (H8). Throws what `resendMessage` throws. */
export async function replayMessages(
  admin: AdminCtx,
  appId: string,
  webhookId: string,
  { from, to = admin.now() }: ReplayInput,
): Promise<ReplayOutput> {
  const { mode } = await requireEnabledEndpoint(admin, appId, webhookId);
  const span = { webhookId, from: messageIdAt(from), to: messageIdAt(to) };
  const act = newAct(admin, { appId, action: "webhook.replayed", target: webhookId, details: { mode } });
  const [, [counted]] = await batch(admin.db, [
    audit({ ...act, ...span }),
    countSpan(span),
    replaySpan({ ...act, ...span, nowMs: act.atMs }),
  ]);
  return { messages: counted?.messages ?? 0 };
}
