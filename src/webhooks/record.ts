import { batch, type Db, statement } from "../db/sql.ts";
import { syncEndpoints } from "./endpoint.ts";
import { failPending } from "./fail-pending.ts";
import type { DeliveryKey } from "./leased.ts";

/** How an attempt ended, and what follows. */
export interface Outcome {
  readonly endpointId: string;
  readonly environmentId: number;
  readonly messageId: string;
  /** The end of its lease. Whoever has leased the delivery since decides what follows a failure. */
  readonly leaseMs: number;
  readonly attempt: {
    readonly at: string;
    readonly status: number | null;
    readonly durationMs: number;
    readonly error: string | null;
  };
  readonly tries: number;
  readonly status: "pending" | "delivered" | "failed";
  readonly nextMs: number;
  readonly dueMs: number;
  /** Since when the endpoint fails, where that changes. */
  readonly failingSinceMs?: number | null;
  /** Whether the endpoint is switched off. */
  readonly isOff?: boolean;
  /** The delivery for its second attempt, which follows soon. */
  readonly again?: Required<DeliveryKey> | undefined;
}

const ATTEMPTS_KEPT = "100";

/** A message that was delivered once stays delivered, also when it was sent again and that failed. */
const updateDeliveries = statement<{ outcomes: string }>`
  UPDATE webhook_deliveries AS d SET
    attempts = iif(json_array_length(attempts) < ${ATTEMPTS_KEPT}, json_insert(attempts, '$[#]', o.value -> 'attempt'), attempts),
    status = iif(o.value ->> 'status' = 'failed' AND EXISTS (
      SELECT 1 FROM json_each(d.attempts) AS a WHERE a.value ->> 'status' BETWEEN 200 AND 299
    ), 'delivered', o.value ->> 'status'),
    tries = o.value ->> 'tries', next_attempt_at_ms = o.value ->> 'nextMs', due_at_ms = o.value ->> 'dueMs'
  FROM json_each(:outcomes) AS o
  WHERE d.endpoint_id = o.value ->> 'endpointId' AND d.message_id = o.value ->> 'messageId' AND d.status = 'pending'
    AND (d.due_at_ms = o.value ->> 'leaseMs' OR o.value ->> 'status' = 'delivered')`;

const updateEndpoints = statement<{ outcomes: string }>`
  UPDATE webhook_endpoints AS w SET
    failing_since_ms = iif(json_type(o.value, '$.failingSinceMs') IS NULL, failing_since_ms, o.value ->> 'failingSinceMs'),
    is_enabled = iif(o.value ->> 'isOff', 0, is_enabled)
  FROM json_each(:outcomes) AS o WHERE w.id = o.value ->> 'endpointId'`;

/** Records attempts, and switches endpoints off that are gone, or have failed for days. */
export async function recordOutcomes(db: Db, outcomes: readonly Outcome[]): Promise<void> {
  const off = outcomes.filter(({ isOff }) => isOff === true);
  // One of an endpoint: whoever switches it off, else whoever was answered, else the first.
  const changes = new Map<string, Outcome>();
  for (const outcome of outcomes) {
    if (outcome.failingSinceMs === undefined && outcome.isOff !== true) continue;
    const before = changes.get(outcome.endpointId);
    if (before === undefined || outcome.isOff === true || outcome.status === "delivered")
      changes.set(outcome.endpointId, outcome);
  }
  await batch(db, [
    updateDeliveries({ outcomes: JSON.stringify(outcomes) }),
    ...(changes.size === 0 ? [] : [updateEndpoints({ outcomes: JSON.stringify([...changes.values()]) })]),
    ...(off.length === 0
      ? []
      : [
          failPending({ ids: JSON.stringify(off.map(({ endpointId }) => endpointId)) }),
          syncEndpoints({ ids: JSON.stringify(off.map(({ environmentId }) => environmentId)) }),
        ]),
  ]);
}
