import type { Context } from "hono";
import type { Key } from "../db/key-form.ts";
import { PurserError } from "../errors.ts";
import { type AppEnv, factory } from "../http/factory.ts";
import { countArrival, countCapture } from "./arrivals.ts";
import { invalidKey } from "./key.ts";
import { type KeyRequirements, keyInHeader, serveCounted, serveKey } from "./serve-key.ts";

const NEEDS_SECRET_KEY =
  "This operation needs a secret key (`sk_…`), which your backend sends. The request has a publishable key (`pk_…`).";
const RELAY_KEY_SENDS = "A relay key (`rk_…`) sends analytics events and does nothing else.";

/**
 * Requires a secret key. Rejects other keys with `rejection`: `forbidden` for writes, `requires_secret_key` for export-person and
 * for reads (W13). Set `reads` for a POST that only reads.
 */
export function requireSecretKey(
  rejection: "forbidden" | "requires_secret_key",
  requirements: Pick<KeyRequirements, "reads"> = {},
) {
  return factory.createMiddleware(async (c, next) => {
    await serveKey(c, await keyInHeader(c), { ...requirements, reject: rejectOthers(rejection) }, next);
  });
}

function rejectOthers(rejection: "forbidden" | "requires_secret_key") {
  const messages = {
    publishable: NEEDS_SECRET_KEY,
    relay: `${RELAY_KEY_SENDS} This operation needs a secret key (\`sk_…\`).`,
  };
  return ({ kind }: Key) => (kind === "secret" ? null : new PurserError(rejection, messages[kind]));
}

const rejectRelay = ({ kind }: Key) => (kind === "relay" ? new PurserError("forbidden", RELAY_KEY_SENDS) : null);

/**
 * Requires a secret key, or a publishable key with a valid end-user token. Requires a secret key if the query has one of
 * `secretParams`.
 */
export function requireKeyOrEndUser(secretParams: readonly string[] = []) {
  const reject = rejectOthers("requires_secret_key");
  return factory.createMiddleware(async (c, next) => {
    const needsSecret = secretParams.some((name) => c.req.query(name) !== undefined);
    const requirements = needsSecret ? { reject } : { reject: rejectRelay, needsUser: true };
    await serveKey(c, await keyInHeader(c), requirements, next);
  });
}

/** Requires a secret or publishable key. */
export const requireKey = factory.createMiddleware(async (c, next) => {
  await serveKey(c, await keyInHeader(c), { reject: rejectRelay }, next);
});

/** A pattern for a key of Purser in the `Authorization` header. PostHog's clients may send other values in this header. */
const KEY_IN_HEADER = /^Bearer +([spr]k_(?:live|test)_[^\s]+) *$/i;

/**
 * Serves a request that stores events of PostHog's clients. The key is in the header, where a proxy sends its relay key, or in
 * the body beside the events (P1). `readKeyInBody` reads it from the body, after the request was counted.
 */
export async function serveCaptureKey<Answer>(
  c: Context<AppEnv>,
  readKeyInBody: () => Promise<string | null>,
  next: () => Promise<Answer>,
): Promise<Answer> {
  const inHeader = KEY_IN_HEADER.exec(c.req.header("authorization") ?? "")?.[1];
  if (inHeader !== undefined) return serveKey(c, inHeader, { isCapture: true }, next);
  const isCounted = await countCapture(c);
  return serveCounted(c, requireSent(await readKeyInBody()), { isCapture: true }, isCounted, next);
}

/** Serves a read-only request of PostHog's clients, with its key in the body. It stores nothing, so it rejects a relay key. */
export async function serveClientKey<Answer>(
  c: Context<AppEnv>,
  readKeyInBody: () => Promise<string | null>,
  next: () => Promise<Answer>,
): Promise<Answer> {
  await countArrival(c);
  return serveCounted(c, requireSent(await readKeyInBody()), { reads: true, reject: rejectRelay }, true, next);
}

/** Serves a request with a publishable key in its path. Throws `forbidden` for other keys. */
export async function servePublishableKey<Answer>(
  c: Context<AppEnv>,
  key: string,
  next: () => Promise<Answer>,
): Promise<Answer> {
  const reject = ({ kind }: Key) =>
    kind === "publishable"
      ? null
      : new PurserError(
          "forbidden",
          "A URL must not contain a secret or relay key. Send a publishable key (`pk_…`) here, and replace the key that was sent.",
        );
  return serveKey(c, key, { reject }, next);
}

function requireSent(key: string | null): string {
  if (key !== null) return key;
  throw invalidKey("Send a key of Purser as `api_key`, beside the events in the body.");
}

/** Requires a key that may send analytics events, in the header. */
export const requireCaptureKey = factory.createMiddleware(async (c, next) => {
  await serveKey(c, await keyInHeader(c, true), { isCapture: true }, next);
});
