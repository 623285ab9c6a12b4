import { sql } from "drizzle-orm";
import { actIsThis, insertAct, newAct, type WrittenAct } from "../catalog/audit/audit-statement.ts";
import { timesOf } from "../db/clock.ts";
import { fields, insertFrom, query, returning, type ValueOf } from "../db/query.ts";
import { webhookMessages } from "../db/schema.ts";
import { batch } from "../db/sql.ts";
import type { AdminCtx } from "../runtime.ts";
import { environmentOf, requireEnabledEndpoint } from "./endpoint.ts";
import { messageIdAt } from "./message.ts";
import { deliver, noteMessages, ONCE } from "./outbox.ts";
import type { SentOutput } from "./responses.ts";

const audit = insertAct();
const insertTest = query((value: ValueOf<WrittenAct & { messageId: string; environmentId: number; nowMs: number }>) => {
  const message = {
    id: value("messageId"),
    environmentId: value("environmentId"),
    type: sql`'purser.test'`,
    atMs: value("nowMs"),
    data: sql`'{}'`,
  };
  const insert = insertFrom(webhookMessages, message, sql`WHERE ${actIsThis(value)}`);
  return returning(fields(webhookMessages, "id"), (list) => sql`${insert} ${ONCE} RETURNING ${list}`);
});

/** Sends `purser.test` to an endpoint, whatever its types. Throws `not_found`, and `invalid_request` when it is off. */
export async function sendTest(admin: AdminCtx, appId: string, webhookId: string): Promise<SentOutput> {
  const row = await requireEnabledEndpoint(admin, appId, webhookId);
  const ctx = { ...admin, ...timesOf(row.clock, admin), environment: environmentOf(row) };
  const act = newAct(admin, { appId, action: "webhook.tested", target: webhookId, details: { mode: row.mode } });
  const messageId = admin.newId(messageIdAt(act.atMs));
  const [, written] = await batch(admin.db, [
    audit(act),
    insertTest({ ...act, messageId, environmentId: row.environmentId, nowMs: ctx.now() }),
    ...deliver(ctx, [{ type: "purser.test", id: messageId, endpointIds: [webhookId] }]),
  ] as const);
  noteMessages(ctx, written);
  return { messageId };
}
