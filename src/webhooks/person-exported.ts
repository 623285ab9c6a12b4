import { sql } from "drizzle-orm";
import { asInteger, fields, insertFrom, query, returning, type ValueOf } from "../db/query.ts";
import { environments, webhookDeliveries, webhookMessages } from "../db/schema.ts";
import type { Statement } from "../db/sql.ts";
import type { Mode, TenantCtx } from "../runtime.ts";
import { messageIdAt } from "./message.ts";
import { LEASE_MS, newDelivery, ON_REPEAT } from "./outbox.ts";

type ExportedValues = { appId: string; mode: Mode; messageId: string };

const wanting = (value: ValueOf<ExportedValues>) => sql`
  FROM ${environments} CROSS JOIN json_each(${environments.features}, '$.webhooks') AS w
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
    const insert = insertFrom(webhookMessages, message, sql`${wanting(value)} LIMIT 1`);
    return returning(fields(webhookMessages, "id"), (list) => sql`${insert} ${ON_REPEAT} RETURNING ${list}`);
  },
);
const insertExportedDeliveries = query((value: ValueOf<ExportedValues & { atMs: number; dueAtMs: number }>) => {
  const delivery = { endpointId: sql`w.value ->> 'id'`, messageId: value("messageId"), ...newDelivery(value) };
  return sql`${insertFrom(webhookDeliveries, delivery, wanting(value))} ${ON_REPEAT}`;
});

/**
 * The statements that write `person.exported` and its deliveries if an endpoint wants it. They check that themselves, because their
 * batch is the first of its request. The first statement returns a row when it wrote the message.
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
