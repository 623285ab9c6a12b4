import { openSecret } from "../auth/secrets.ts";
import { beginningOf } from "../lib/code-points.ts";
import { DAY_MS, HOUR_MS, MINUTE_MS } from "../lib/time.ts";
import type { SystemCtx } from "../runtime.ts";
import { DISABLE_AFTER_MS } from "./endpoint.ts";
import type { LeasedDelivery } from "./lease.ts";
import { LEASE_MS, messageText } from "./outbox.ts";
import type { AttemptOutcome } from "./record-outcomes.ts";

/** How long an endpoint may take to respond. */
export const ATTEMPT_MS_MAX = 10_000;
/** A failed first attempt is repeated in the same invocation if the second is due within this time. */
const SOON_MS = 6_000;
const GONE = 410;

/** The response of an endpoint, or why there was none. */
type PostResult =
  | { readonly status: number; readonly retryAfterMs: number; readonly answer?: string }
  | { readonly error: string };

/** Sends a delivery once. Returns the outcome, which the caller must record. It plans no second attempt after `untilMs`. */
export async function attemptDelivery(
  ctx: SystemCtx,
  delivery: LeasedDelivery,
  untilMs: number,
): Promise<AttemptOutcome> {
  const startMs = ctx.now();
  const result = await post(ctx, delivery, startMs);
  const endMs = ctx.now();
  const response = "error" in result ? { status: null, error: result.error } : { status: result.status, error: null };
  const base = {
    endpointId: delivery.endpointId,
    environmentId: delivery.environmentId,
    messageId: delivery.id,
    leaseMs: delivery.dueAtMs,
    endMs,
  };
  const answer = "answer" in result ? { answer: result.answer } : {};
  const attempt = { at: new Date(startMs).toISOString(), durationMs: endMs - startMs, ...response, ...answer };
  if (response.status !== null && response.status >= 200 && response.status < 300) {
    return {
      ...base,
      health: "delivered",
      attempt,
      tries: delivery.tries + 1,
      status: "delivered",
      nextMs: endMs,
      dueMs: endMs,
    };
  }
  const tries = delivery.tries + 1;
  const delay = nextDelayMs(tries, "error" in result ? 0 : result.retryAfterMs, ctx.newId(""));
  // If the deployment cannot read the secret, the endpoint is not at fault, and a quick retry does not help.
  const isOurFault = response.error === "secrets_unavailable";
  const isGone = response.status === GONE;
  const failedForDays = (delivery.failingSinceMs ?? endMs) <= endMs - DISABLE_AFTER_MS;
  const disablesEndpoint = !isOurFault && (isGone || failedForDays);
  const nextMs = endMs + (delay ?? 0);
  const mayFollow = response.error !== "timeout" && !disablesEndpoint && !isOurFault;
  const isSoon = tries === 1 && delay !== null && delay <= SOON_MS && mayFollow && nextMs <= untilMs;
  const dueMs = isSoon ? nextMs + LEASE_MS : nextMs;
  return {
    ...base,
    health: isOurFault ? null : isGone ? "gone" : "failed",
    ...(disablesEndpoint ? { disablesEndpoint } : {}),
    attempt,
    tries,
    status: delay === null ? "failed" : "pending",
    nextMs,
    dueMs,
    again: isSoon ? { ...base, dueAtMs: dueMs } : undefined,
  };
}

async function post(ctx: SystemCtx, delivery: LeasedDelivery, nowMs: number): Promise<PostResult> {
  const secretContext = { purpose: "webhook" as const, environment: delivery };
  const hasTwoSecrets = delivery.previousSecret !== null && (delivery.previousUntilMs ?? 0) > nowMs;
  const sealed = [delivery.secret, ...(hasTwoSecrets ? [delivery.previousSecret ?? ""] : [])];
  const secrets = await Promise.all(sealed.map((text) => openSecret(ctx, secretContext, text))).catch(() => null);
  if (secrets === null) return { error: "secrets_unavailable" };
  const body = messageText(delivery);
  try {
    const response = await fetch(delivery.url, {
      method: "POST",
      redirect: "manual",
      headers: await signedHeaders(delivery.id, nowMs, body, secrets),
      body,
      signal: AbortSignal.timeout(ATTEMPT_MS_MAX),
    });
    const answer = response.ok ? "" : await readBeginning(response);
    response.body?.cancel().catch(() => {});
    return {
      status: response.status,
      retryAfterMs: retryAfterMs(response.headers.get("retry-after"), ctx.now()),
      ...(answer === "" ? {} : { answer }),
    };
  } catch (error) {
    // The error's message is not stored, because it may contain the URL.
    return { error: error instanceof Error && error.name === "TimeoutError" ? "timeout" : "unreachable" };
  }
}

/** How many characters of a failed response are kept, and the most bytes that they take. */
const ANSWER_CHARACTERS = 200;
const ANSWER_BYTES_MAX = 4 * ANSWER_CHARACTERS;

/** Returns the first 200 characters of a response. An answer that breaks off has those that arrived. */
async function readBeginning({ body }: Response): Promise<string> {
  if (body === null) return "";
  const reader = body.getReader();
  const decoder = new TextDecoder();
  let [text, bytes] = ["", 0];
  try {
    while (bytes < ANSWER_BYTES_MAX) {
      const { done, value } = await reader.read();
      if (done) break;
      bytes += value.byteLength;
      text += decoder.decode(value, { stream: true });
    }
  } catch {
    // The status counts. The rest of the answer is not needed.
  }
  reader.releaseLock();
  return beginningOf(text, ANSWER_CHARACTERS);
}

/** Returns the headers of an attempt, with a signature by each secret. Secrets are `whsec_` and base64. */
async function signedHeaders(
  id: string,
  atMs: number,
  body: string,
  secrets: readonly string[],
): Promise<Record<string, string>> {
  // Few isolates send webhooks, so a start does not run the library.
  const { Webhook } = await import("standardwebhooks");
  const signatures = secrets.map((secret) => new Webhook(secret).sign(id, new Date(atMs), body));
  return {
    "content-type": "application/json",
    "user-agent": "Purser",
    "webhook-id": id,
    "webhook-timestamp": String(Math.floor(atMs / 1_000)),
    "webhook-signature": signatures.join(" "),
  };
}

const SECOND_MS = 1_000;

/** The delays between one attempt and the next (H4). */
const DELAYS_MS = [
  5 * SECOND_MS,
  MINUTE_MS,
  5 * MINUTE_MS,
  30 * MINUTE_MS,
  ...[2, 5, 10, 14, 20, 24].map((hours) => hours * HOUR_MS),
];

export const TRIES_MAX = DELAYS_MS.length + 1;

/**
 * Returns a factor from 1 to 1.1 for a delay, so that deliveries that failed at the same time are not repeated at the same time.
 * `characters` are random.
 */
function jitter(characters: string): number {
  let sum = 0;
  for (const character of characters) sum = (sum * 31 + character.charCodeAt(0)) % 1_000;
  return 1 + sum / 10_000;
}

/** Returns `Retry-After` in milliseconds, at most a day. Returns 0 when it is absent or malformed. */
function retryAfterMs(header: string | null, nowMs: number): number {
  if (header === null) return 0;
  const ms = /^\d+$/.test(header) ? Number(header) * SECOND_MS : Date.parse(header) - nowMs;
  return ms > 0 ? Math.min(ms, DAY_MS) : 0;
}

/** Returns the delay after attempt number `tries` and before the next attempt. Null after the last attempt. */
function nextDelayMs(tries: number, atLeastMs: number, characters: string): number | null {
  const delay = DELAYS_MS[tries - 1];
  return delay === undefined ? null : Math.round(Math.max(delay * jitter(characters), atLeastMs));
}
