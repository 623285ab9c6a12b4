import { openSecret } from "../auth/stored-secret.ts";
import type { Db } from "../db/sql.ts";
import { DAY_MS } from "../lib/time.ts";
import type { SystemCtx } from "../runtime.ts";
import { type Leased, readLeased } from "./leased.ts";
import { messageText } from "./message-text.ts";
import { LEASE_MS } from "./outbox.ts";
import { type Outcome, recordOutcomes } from "./record.ts";
import { nextDelayMs, retryAfterMs } from "./schedule.ts";
import { signedHeaders } from "./sign.ts";

const ATTEMPT_MS_MAX = 10_000;
/** The platform opens six connections at a time. */
const AT_A_TIME = 6;
/** A failed first attempt is followed by a second in the same invocation, if that is so soon. */
const SOON_MS = 6_000;
const SWITCH_OFF_AFTER_MS = 5 * DAY_MS;
const GONE = 410;

/**
 * Makes the attempts of some leased deliveries, six at a time, and records each. Nothing begins after `untilMs`, nor so late
 * that the lease might end before it: the cron finds what is left. Answers what failed.
 */
export async function attemptAll(
  ctx: SystemCtx,
  db: Db,
  leased: readonly Leased[],
  untilMs: number,
): Promise<readonly Outcome[]> {
  const failed: Outcome[] = [];
  for (let at = 0; at < leased.length && ctx.now() <= untilMs; at += AT_A_TIME) {
    const some = leased.slice(at, at + AT_A_TIME).filter(({ dueAtMs }) => ctx.now() + ATTEMPT_MS_MAX < dueAtMs);
    const outcomes = await Promise.all(some.map((one) => attempt(ctx, one)));
    if (outcomes.length > 0) await recordOutcomes(db, outcomes);
    failed.push(...outcomes.filter(({ status }) => status !== "delivered"));
  }
  return failed;
}

/** Makes the second attempts of what failed first, a few seconds after: of what is still to be sent then, as it stands then. */
export async function attemptAgain(ctx: SystemCtx, db: Db, failed: readonly Outcome[], untilMs: number): Promise<void> {
  const again = failed.flatMap((outcome) => outcome.again ?? []);
  if (again.length === 0) return;
  const startMs = Math.max(...again.map(({ dueAtMs }) => dueAtMs - LEASE_MS));
  await scheduler.wait(Math.max(0, startMs - ctx.now()));
  await attemptAll(ctx, db, await readLeased(ctx, db, again), untilMs);
}

type Answer = { readonly status: number; readonly retryAfterMs: number } | { readonly error: string };

async function attempt(ctx: SystemCtx, one: Leased): Promise<Outcome> {
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
  // A secret that the deployment cannot read is no fault of the endpoint, and it will not be readable soon.
  const isOurFault = shown.error === "secrets_unavailable";
  const isOff = !isOurFault && (shown.status === GONE || failingSinceMs <= endMs - SWITCH_OFF_AFTER_MS);
  const nextMs = endMs + (delay ?? 0);
  const isSoon = tries === 1 && delay !== null && delay <= SOON_MS && !isOff && !isOurFault;
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
    // Nobody waits for what a receiver writes.
    response.body?.cancel().catch(() => {});
    return { status: response.status, retryAfterMs: retryAfterMs(response.headers.get("retry-after"), ctx.now()) };
  } catch (error) {
    // Its text may hold the URL.
    return { error: error instanceof Error && error.name === "TimeoutError" ? "timeout" : "unreachable" };
  }
}
