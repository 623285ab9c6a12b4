import { all, type Db, statement } from "../db/sql.ts";
import type { SystemCtx } from "../runtime.ts";
import type { MessageRow } from "./message-text.ts";

/** A delivery that this invocation has leased. */
export interface Leased extends MessageRow {
  readonly endpointId: string;
  readonly environmentId: number;
  readonly url: string;
  readonly secret: string;
  readonly previousSecret: string | null;
  readonly previousUntilMs: number | null;
  readonly failingSinceMs: number | null;
  readonly tries: number;
  /** The end of the lease. */
  readonly dueAtMs: number;
}

/** The deliveries of some messages that are leased now, in the order of the messages. */
const selectLeased = statement<{ messageIds: string; nowMs: number; limit: number }, Leased>`
  SELECT m.id AS id, m.type AS type, m.at_ms AS atMs, m.data AS data, e.app_id AS appId, e.mode AS mode,
    e.id AS environmentId, w.id AS endpointId, w.url AS url, w.secret AS secret, w.previous_secret AS previousSecret,
    w.previous_until_ms AS previousUntilMs, w.failing_since_ms AS failingSinceMs, d.tries AS tries, d.due_at_ms AS dueAtMs
  FROM json_each(:messageIds) AS j CROSS JOIN webhook_messages AS m ON m.id = j.value
  CROSS JOIN environments AS e ON e.id = m.environment_id
  CROSS JOIN webhook_endpoints AS w ON w.environment_id = e.id AND w.is_enabled = 1
  CROSS JOIN webhook_deliveries AS d ON d.endpoint_id = w.id AND d.message_id = m.id
  WHERE d.status = 'pending' AND d.due_at_ms > CAST(:nowMs AS INTEGER)
  ORDER BY j.key LIMIT CAST(:limit AS INTEGER)`;

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
