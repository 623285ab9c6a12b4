import { statement } from "../db/sql.ts";
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
export const selectLeased = statement<{ messageIds: string; nowMs: number; limit: number }, Leased>`
  SELECT m.id AS id, m.type AS type, m.at_ms AS atMs, m.data AS data, e.app_id AS appId, e.mode AS mode,
    e.id AS environmentId, w.id AS endpointId, w.url AS url, w.secret AS secret, w.previous_secret AS previousSecret,
    w.previous_until_ms AS previousUntilMs, w.failing_since_ms AS failingSinceMs, d.tries AS tries, d.due_at_ms AS dueAtMs
  FROM json_each(:messageIds) AS j CROSS JOIN webhook_messages AS m ON m.id = j.value
  CROSS JOIN environments AS e ON e.id = m.environment_id
  CROSS JOIN webhook_endpoints AS w ON w.environment_id = e.id AND w.is_enabled = 1
  CROSS JOIN webhook_deliveries AS d ON d.endpoint_id = w.id AND d.message_id = m.id
  WHERE d.status = 'pending' AND d.due_at_ms > CAST(:nowMs AS INTEGER)
  ORDER BY j.key LIMIT CAST(:limit AS INTEGER)`;
