import { sql } from "drizzle-orm";
import { assignments, query, type ValueOf } from "../db/query.ts";
import { webhookDeliveries, webhookEndpoints } from "../db/schema.ts";
import { batch, type Db } from "../db/sql.ts";
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

const ATTEMPTS_KEPT = 100;

/** A field of an outcome. */
const told = (field: keyof Outcome) => sql`o.value ->> ${field}`;

/** A message that was delivered once stays delivered, also when it was sent again and that failed. */
const updateDeliveries = query((value: ValueOf<{ outcomes: string }>) => {
  const { endpointId, messageId, attempts, status, dueAtMs } = webhookDeliveries;
  const changed = {
    attempts: sql`iif(json_array_length(${attempts}) < ${ATTEMPTS_KEPT},
      json_insert(${attempts}, '$[#]', o.value -> 'attempt'), ${attempts})`,
    status: sql`iif(${told("status")} = 'failed' AND EXISTS (
      SELECT 1 FROM json_each(${attempts}) AS a WHERE a.value ->> 'status' BETWEEN 200 AND 299
    ), 'delivered', ${told("status")})`,
    tries: told("tries"),
    nextAttemptAtMs: told("nextMs"),
    dueAtMs: told("dueMs"),
  };
  return sql`UPDATE ${webhookDeliveries} SET ${assignments(webhookDeliveries, changed)}
    FROM json_each(${value("outcomes")}) AS o
    WHERE ${endpointId} = ${told("endpointId")} AND ${messageId} = ${told("messageId")} AND ${status} = 'pending'
      AND (${dueAtMs} = ${told("leaseMs")} OR ${told("status")} = 'delivered')`;
});

const updateEndpoints = query((value: ValueOf<{ outcomes: string }>) => {
  const { id, failingSinceMs, isEnabled } = webhookEndpoints;
  const changed = {
    failingSinceMs: sql`iif(json_type(o.value, '$.failingSinceMs') IS NULL, ${failingSinceMs}, ${told("failingSinceMs")})`,
    isEnabled: sql`iif(${told("isOff")}, 0, ${isEnabled})`,
  };
  return sql`UPDATE ${webhookEndpoints} SET ${assignments(webhookEndpoints, changed)}
    FROM json_each(${value("outcomes")}) AS o WHERE ${id} = ${told("endpointId")}`;
});

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
