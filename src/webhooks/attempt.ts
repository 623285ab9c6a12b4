import { sql } from "drizzle-orm";
import { openSecret } from "../auth/end-user-setting.ts";
import { asInteger, assignments, fields, names, query, read, type ValueOf } from "../db/query.ts";
import { environments, webhookDeliveries, webhookEndpoints, webhookMessages } from "../db/schema.ts";
import { all, batch, type Db, type RowsOf } from "../db/sql.ts";
import { DAY_MS } from "../lib/time.ts";
import type { SystemCtx } from "../runtime.ts";
import { failPending } from "./delete-old.ts";
import { syncEndpoints } from "./endpoint.ts";
import { LEASE_MS, messageText } from "./outbox.ts";
import { openPool, type Pool, type PoolJob } from "./pool.ts";
import { nextDelayMs, retryAfterMs, signedHeaders } from "./schedule.ts";

/** The currently leased deliveries of some messages, in message order. */
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

/** Selects deliveries. Without `endpointId`, those to all endpoints. With `dueAtMs`, only while that lease lasts. */
export interface DeliveryKey {
  readonly messageId: string;
  readonly endpointId?: string | undefined;
  readonly dueAtMs?: number;
}

/** Reads the selected deliveries that are leased and still pending. */
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

const releaseOthers = query((value: ValueOf<{ keys: string; kept: string; nowMs: number }>) => {
  const [m, w, d] = [webhookMessages, webhookEndpoints, webhookDeliveries];
  const written = sql`
    SELECT ${d.endpointId}, ${d.messageId} FROM json_each(${value("keys")}) AS j CROSS JOIN ${m} ON ${m.id} = j.value ->> 0
    CROSS JOIN ${w} ON ${w.environmentId} = ${m.environmentId} AND ${w.id} = coalesce(j.value ->> 1, ${w.id})
    CROSS JOIN ${d} ON ${d.endpointId} = ${w.id} AND ${d.messageId} = ${m.id}`;
  const kept = sql`SELECT k.value ->> 0, k.value ->> 1 FROM json_each(${value("kept")}) AS k`;
  return sql`UPDATE ${d} SET ${assignments(d, { dueAtMs: asInteger(value("nowMs")) })}
    WHERE (${names(d.endpointId, d.messageId)}) IN (${written}) AND (${names(d.endpointId, d.messageId)}) NOT IN (${kept})
      AND ${d.status} = 'pending' AND ${d.dueAtMs} > ${value("nowMs")}`;
});

/** Ends the leases of deliveries that this invocation does not attempt, so that the cron makes them. */
export async function release(
  { now }: Pick<SystemCtx, "now">,
  db: Db,
  keys: readonly DeliveryKey[],
  kept: readonly Leased[],
): Promise<void> {
  const keysText = JSON.stringify(keys.map(({ messageId, endpointId }) => [messageId, endpointId ?? null]));
  const keptText = JSON.stringify(kept.map(({ id, endpointId }) => [endpointId, id]));
  await all(db, releaseOthers({ keys: keysText, kept: keptText, nowMs: now() }));
}

const ATTEMPT_MS_MAX = 10_000;
/** A failed first attempt is repeated in the same invocation if the second is due within this time. */
const SOON_MS = 6_000;
const SWITCH_OFF_AFTER_MS = 5 * DAY_MS;
const GONE = 410;

/** A leased delivery in the pool. */
type PooledDelivery = Leased & Pick<PoolJob, "isFailing"> & { readonly db: Db };

export type DeliveryPool = Omit<Pool<PooledDelivery>, "add" | "follow"> & {
  readonly add: (db: Db, leased: readonly Leased[]) => void;
};

/**
 * Attempts leased deliveries and records the results. After some seconds it makes the second attempts of those still pending (H4).
 * No attempt starts after `untilMs`, or so late that its lease could end first. The cron makes the remaining ones.
 */
export function openDeliveries(ctx: SystemCtx, untilMs: number): DeliveryPool {
  const record = openRecorder();
  const pooled = (db: Db, leased: readonly Leased[]): readonly PooledDelivery[] =>
    leased.map((one) => ({ ...one, db, isFailing: one.failingSinceMs !== null }));
  const finish = async (db: Db, outcome: AttemptOutcome): Promise<readonly PooledDelivery[]> => {
    await record(db, outcome);
    const { again } = outcome;
    if (again === undefined) return [];
    await scheduler.wait(Math.max(0, again.dueAtMs - LEASE_MS - ctx.now()));
    return pooled(db, await readLeased(ctx, db, [again]));
  };
  const pool = openPool<PooledDelivery>(async (one) => {
    const nowMs = ctx.now();
    if (nowMs > untilMs || nowMs + ATTEMPT_MS_MAX >= one.dueAtMs) return "left";
    const outcome = await attemptDelivery(ctx, one, untilMs);
    pool.follow(finish(one.db, outcome));
    if (outcome.status === "delivered") return "delivered";
    if (outcome.isOff === true) return "closed";
    return outcome.attempt.error === "timeout" ? "silent" : "failed";
  });
  return { ...pool, add: (db, leased) => pool.add(pooled(db, leased)) };
}

type Answer = { readonly status: number; readonly retryAfterMs: number } | { readonly error: string };

async function attemptDelivery(ctx: SystemCtx, one: Leased, untilMs: number): Promise<AttemptOutcome> {
  const startMs = ctx.now();
  const answer = await post(ctx, one, startMs);
  const endMs = ctx.now();
  const shown = "error" in answer ? { status: null, error: answer.error } : { status: answer.status, error: null };
  const base = {
    endpointId: one.endpointId,
    environmentId: one.environmentId,
    messageId: one.id,
    leaseMs: one.dueAtMs,
  };
  const written = { at: new Date(startMs).toISOString(), durationMs: endMs - startMs, ...shown };
  const failingSinceMs = one.failingSinceMs ?? endMs;
  if (shown.status !== null && shown.status >= 200 && shown.status < 300) {
    const changes = one.failingSinceMs === null ? {} : { failingSinceMs: null };
    return {
      ...base,
      ...changes,
      attempt: written,
      tries: one.tries + 1,
      status: "delivered",
      nextMs: endMs,
      dueMs: endMs,
    };
  }
  const tries = one.tries + 1;
  const delay = nextDelayMs(tries, "error" in answer ? 0 : answer.retryAfterMs, ctx.newId(""));
  // If the deployment cannot read the secret, the endpoint is not at fault, and a quick retry does not help.
  const isOurFault = shown.error === "secrets_unavailable";
  const isOff = !isOurFault && (shown.status === GONE || failingSinceMs <= endMs - SWITCH_OFF_AFTER_MS);
  const nextMs = endMs + (delay ?? 0);
  const mayFollow = shown.error !== "timeout" && !isOff && !isOurFault;
  const isSoon = tries === 1 && delay !== null && delay <= SOON_MS && mayFollow && nextMs <= untilMs;
  const dueMs = isSoon ? nextMs + LEASE_MS : nextMs;
  return {
    ...base,
    ...(one.failingSinceMs === null && !isOurFault ? { failingSinceMs } : {}),
    ...(isOff ? { isOff } : {}),
    attempt: written,
    tries,
    status: delay === null ? "failed" : "pending",
    nextMs,
    dueMs,
    again: isSoon ? { ...base, dueAtMs: dueMs } : undefined,
  };
}

async function post(ctx: SystemCtx, one: Leased, nowMs: number): Promise<Answer> {
  const place = { purpose: "webhook" as const, environment: one };
  const isBoth = one.previousSecret !== null && (one.previousUntilMs ?? 0) > nowMs;
  const sealed = [one.secret, ...(isBoth ? [one.previousSecret ?? ""] : [])];
  const secrets = await Promise.all(sealed.map((text) => openSecret(ctx, place, text))).catch(() => null);
  if (secrets === null) return { error: "secrets_unavailable" };
  const body = messageText(one);
  try {
    const response = await fetch(one.url, {
      method: "POST",
      redirect: "manual",
      headers: signedHeaders(one.id, nowMs, body, secrets),
      body,
      signal: AbortSignal.timeout(ATTEMPT_MS_MAX),
    });
    // The response body is not needed.
    response.body?.cancel().catch(() => {});
    return { status: response.status, retryAfterMs: retryAfterMs(response.headers.get("retry-after"), ctx.now()) };
  } catch (error) {
    // The error's message is not stored, because it may contain the URL.
    return { error: error instanceof Error && error.name === "TimeoutError" ? "timeout" : "unreachable" };
  }
}

/** The result of an attempt, and the changes that follow from it. */
export interface AttemptOutcome {
  readonly endpointId: string;
  readonly environmentId: number;
  readonly messageId: string;
  /** The end of its lease. If another invocation has leased the delivery since, that one schedules the next attempt. */
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
  /** Since when the endpoint fails. Absent when that does not change. */
  readonly failingSinceMs?: number | null;
  /** Whether to disable the endpoint. */
  readonly isOff?: boolean;
  /** The delivery, when this invocation makes its second attempt. */
  readonly again?: Required<DeliveryKey> | undefined;
}

const ATTEMPTS_KEPT = 100;

/** A field of an outcome. */
const told = (field: keyof AttemptOutcome) => sql`o.value ->> ${field}`;

/** A delivered message stays delivered, even if a later resend fails. */
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

/** Records outcomes. Those that arrive while a write runs are written together afterwards. */
function openRecorder(): (db: Db, outcome: AttemptOutcome) => Promise<void> {
  const gathered = new Map<Db, { readonly outcomes: AttemptOutcome[]; readonly done: Promise<void> }>();
  let last = Promise.resolve();
  const gather = (db: Db) => {
    const outcomes: AttemptOutcome[] = [];
    const done = last.then(() => {
      gathered.delete(db);
      return recordOutcomes(db, outcomes);
    });
    last = done.catch(() => {});
    const group = { outcomes, done };
    gathered.set(db, group);
    return group;
  };
  return (db, outcome) => {
    const group = gathered.get(db) ?? gather(db);
    group.outcomes.push(outcome);
    return group.done;
  };
}

/** Records attempts, and disables endpoints that respond 410 or have failed for days. */
async function recordOutcomes(db: Db, outcomes: readonly AttemptOutcome[]): Promise<void> {
  const off = outcomes.filter(({ isOff }) => isOff === true);
  // One outcome for each endpoint: one that disables it, else a response, else the first.
  const changes = new Map<string, AttemptOutcome>();
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
