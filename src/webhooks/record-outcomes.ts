import { sql } from "drizzle-orm";
import { assignments, query, type ValueOf } from "../db/query.ts";
import { webhookDeliveries, webhookEndpoints } from "../db/schema.ts";
import { batch, type Db } from "../db/sql.ts";
import { DISABLE_AFTER_MS, failPending, syncEndpoints } from "./endpoint.ts";
import type { DeliveryKey } from "./lease.ts";

/** The result of an attempt, and the changes that follow from it. */
export interface AttemptOutcome {
  readonly endpointId: string;
  readonly environmentId: number;
  readonly messageId: string;
  /** The end of its lease. If another invocation has leased the delivery since, that invocation schedules the next attempt. */
  readonly leaseMs: number;
  readonly attempt: {
    readonly at: string;
    readonly status: number | null;
    readonly durationMs: number;
    readonly error: string | null;
    /** The beginning of a failed response. Absent when it is empty. */
    readonly answer?: string | undefined;
  };
  readonly tries: number;
  readonly status: "pending" | "delivered" | "failed";
  readonly nextMs: number;
  readonly dueMs: number;
  readonly endMs: number;
  /** How the endpoint took it. Null if the deployment was at fault. */
  readonly health: "delivered" | "failed" | "gone" | null;
  /** Whether to disable the endpoint, unless an attempt has succeeded since the delivery was leased. */
  readonly disablesEndpoint?: boolean;
  /** The delivery, if this invocation makes its second attempt. */
  readonly again?: Required<DeliveryKey> | undefined;
}

const ATTEMPTS_KEPT = 100;

/** SQL: a field of an outcome. */
const outcomeField = (field: keyof AttemptOutcome) => sql`o.value ->> ${field}`;

/** A delivered message stays delivered, even if a later resend fails. */
const updateDeliveries = query((value: ValueOf<{ outcomes: string }>) => {
  const { endpointId, messageId, attempts, status, dueAtMs } = webhookDeliveries;
  const changed = {
    attempts: sql`iif(json_array_length(${attempts}) < ${ATTEMPTS_KEPT},
      json_insert(${attempts}, '$[#]', o.value -> 'attempt'), ${attempts})`,
    status: sql`iif(${outcomeField("status")} = 'failed' AND EXISTS (
      SELECT 1 FROM json_each(${attempts}) AS a WHERE a.value ->> 'status' BETWEEN 200 AND 299
    ), 'delivered', ${outcomeField("status")})`,
    tries: outcomeField("tries"),
    nextAttemptAtMs: outcomeField("nextMs"),
    dueAtMs: outcomeField("dueMs"),
  };
  return sql`UPDATE ${webhookDeliveries} SET ${assignments(webhookDeliveries, changed)}
    FROM json_each(${value("outcomes")}) AS o
    WHERE ${endpointId} = ${outcomeField("endpointId")} AND ${messageId} = ${outcomeField("messageId")} AND ${status} = 'pending'
      AND (${dueAtMs} = ${outcomeField("leaseMs")} OR ${outcomeField("status")} = 'delivered')`;
});

/** The stored row decides whether an endpoint has failed for days: another attempt may have succeeded since the lease. */
const updateEndpoints = query((value: ValueOf<{ outcomes: string }>) => {
  const { id, failingSinceMs, isEnabled, offFromMs, offUntilMs } = webhookEndpoints;
  const [health, endMs] = [outcomeField("health"), outcomeField("endMs")];
  const goesOff = sql`${isEnabled} AND (${health} = 'gone' OR ${health} = 'failed' AND ${failingSinceMs} <= ${endMs} - ${DISABLE_AFTER_MS})`;
  const changed = {
    failingSinceMs: sql`iif(${health} = 'delivered', NULL, coalesce(${failingSinceMs}, ${endMs}))`,
    isEnabled: sql`iif(${goesOff}, 0, ${isEnabled})`,
    offFromMs: sql`iif(${goesOff}, ${endMs}, ${offFromMs})`,
    offUntilMs: sql`iif(${goesOff}, NULL, ${offUntilMs})`,
  };
  return sql`UPDATE ${webhookEndpoints} SET ${assignments(webhookEndpoints, changed)}
    FROM json_each(${value("outcomes")}) AS o WHERE ${id} = ${outcomeField("endpointId")}
      AND ((${health} = 'failed') = (${failingSinceMs} IS NULL) OR ${outcomeField("disablesEndpoint")})`;
});

/** Returns a function that records outcomes. Outcomes that arrive while a write runs are written together afterwards. */
export function openRecorder(): (db: Db, outcome: AttemptOutcome) => Promise<void> {
  const groups = new Map<Db, { readonly outcomes: AttemptOutcome[]; readonly done: Promise<void> }>();
  let last = Promise.resolve();
  const openGroup = (db: Db) => {
    const outcomes: AttemptOutcome[] = [];
    const done = last.then(() => {
      groups.delete(db);
      return recordOutcomes(db, outcomes);
    });
    last = done.catch(() => {});
    const group = { outcomes, done };
    groups.set(db, group);
    return group;
  };
  return (db, outcome) => {
    const group = groups.get(db) ?? openGroup(db);
    group.outcomes.push(outcome);
    return group.done;
  };
}

/** Records attempts, and disables endpoints that respond 410 or have failed for days. */
async function recordOutcomes(db: Db, outcomes: readonly AttemptOutcome[]): Promise<void> {
  const disabling = outcomes.filter(({ disablesEndpoint }) => disablesEndpoint === true);
  // One outcome changes each endpoint: one that says it is gone, otherwise a successful one, otherwise the first.
  const changes = new Map<string, AttemptOutcome>();
  for (const outcome of outcomes) {
    const { endpointId, health } = outcome;
    const before = changes.get(endpointId)?.health;
    if (health === null || before === "gone" || (before !== undefined && health === "failed")) continue;
    changes.set(endpointId, outcome);
  }
  await batch(db, [
    updateDeliveries({ outcomes: JSON.stringify(outcomes) }),
    ...(changes.size === 0 ? [] : [updateEndpoints({ outcomes: JSON.stringify([...changes.values()]) })]),
    ...(disabling.length === 0
      ? []
      : [
          failPending({ ids: JSON.stringify(disabling.map(({ endpointId }) => endpointId)) }),
          syncEndpoints({ ids: JSON.stringify(disabling.map(({ environmentId }) => environmentId)) }),
        ]),
  ]);
}
