import { sql } from "drizzle-orm";
import { asInteger, fields, query, read, type ValueOf } from "../db/query.ts";
import { environments, webhookDeliveries, webhookEndpoints, webhookMessages } from "../db/schema.ts";
import { all, type Db, type RowsOf } from "../db/sql.ts";
import type { SystemCtx } from "../runtime.ts";

/** The deliveries of some messages that are leased now, in the order of the messages. */
const selectLeased = query((value: ValueOf<{ messageIds: string; nowMs: number; limit: number }>) => {
  const [m, e, w, d] = [webhookMessages, environments, webhookEndpoints, webhookDeliveries];
  return read(
    {
      ...fields(m, "id", "type", "atMs", "data", "environmentId"),
      ...fields(e, "appId", "mode"),
      ...fields(w, "url", "secret", "previousSecret", "previousUntilMs", "failingSinceMs"),
      ...fields(d, "endpointId", "tries", "dueAtMs"),
    },
    (list) => sql`
      SELECT ${list} FROM json_each(${value("messageIds")}) AS j CROSS JOIN ${m} ON ${m.id} = j.value
      CROSS JOIN ${e} ON ${e.id} = ${m.environmentId}
      CROSS JOIN ${w} ON ${w.environmentId} = ${e.id} AND ${w.isEnabled} = 1
      CROSS JOIN ${d} ON ${d.endpointId} = ${w.id} AND ${d.messageId} = ${m.id}
      WHERE ${d.status} = 'pending' AND ${d.dueAtMs} > ${value("nowMs")} ORDER BY j.key LIMIT ${asInteger(value("limit"))}`,
  );
});
/** A delivery that this invocation has leased. Its `dueAtMs` is the end of the lease. */
export type Leased = RowsOf<[ReturnType<typeof selectLeased>]>[0][number];

/** Which delivery it is. Without `endpointId` those to all endpoints, with `dueAtMs` while that lease lasts. */
export interface DeliveryKey {
  readonly messageId: string;
  readonly endpointId?: string | undefined;
  readonly dueAtMs?: number;
}

/** Those of the deliveries that are leased, and still to be sent. */
export async function readLeased(
  { now }: Pick<SystemCtx, "now">,
  db: Db,
  keys: readonly DeliveryKey[],
  limit = -1,
): Promise<readonly Leased[]> {
  const messageIds = JSON.stringify([...new Set(keys.map(({ messageId }) => messageId))]);
  const leased = await all(db, selectLeased({ messageIds, nowMs: now(), limit }));
  return leased.filter(({ id, endpointId, dueAtMs }) =>
    keys.some(
      (key) =>
        key.messageId === id && (key.endpointId ?? endpointId) === endpointId && (key.dueAtMs ?? dueAtMs) === dueAtMs,
    ),
  );
}
