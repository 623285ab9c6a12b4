import type { Context } from "hono";
import { countArrival, countCapture, countStripe, type IncomingRequest } from "../auth/arrivals.ts";
import { assertOwnUser } from "../auth/end-user.ts";
import { invalidKey } from "../auth/key.ts";
import { openAdmin } from "../auth/open-admin.ts";
import { checkRoute } from "../auth/scopes.ts";
import { type KeyedRequest, type KeyRequirements, keyInHeader, serveCounted, serveKey } from "../auth/serve-key.ts";
import { systemCtx } from "../auth/system-ctx.ts";
import type { Key } from "../db/key-form.ts";
import { isBookmark } from "../db/session.ts";
import { invalid, PurserError } from "../errors.ts";
import { pathNotFound } from "../http/error-responses.ts";
import { type AppEnv, factory } from "../http/factory.ts";
import type { RouteRequirement } from "../runtime.ts";

/** Returns the request as `auth` counts it. */
export const incomingOf = (c: {
  readonly env: Env;
  readonly var: Pick<AppEnv["Variables"], "runtime">;
  readonly req: { readonly raw: Request };
}): IncomingRequest => ({ env: c.env, runtime: c.var.runtime, request: c.req.raw });

/** Counts every request of a route that needs no key, before anything is read (L2). */
export const limitArrivals = factory.createMiddleware(async (c, next) => {
  await countArrival(incomingOf(c));
  await next();
});

export const limitStripe = factory.createMiddleware(async (c, next) => {
  await countStripe(incomingOf(c));
  await next();
});

/** Sets `root` for a route without a key, such as a download link. The verb itself checks what the caller may see. */
export const openRoot = factory.createMiddleware(async (c, next) => {
  c.set("root", systemCtx(c.env, c.var.runtime));
  await next();
});

/**
 * Requires the admin token, or an administration key with the required rights, and sets `admin`. If the settings have no admin
 * token, administration responds with 404.
 */
export function requireAdmin(requirement: RouteRequirement | null) {
  return factory.createMiddleware(async (c, next) => {
    const root = systemCtx(c.env, c.var.runtime);
    const { adminToken } = root.settings;
    if (adminToken === null) throw pathNotFound();
    const appId = c.req.param("appId");
    const id = appId ?? c.req.param("balanceId") ?? "";
    const admin = await openAdmin(incomingOf(c), root, adminToken, requirement, id);
    c.set("admin", admin);
    const checkArguments = admin.rights === undefined ? null : checkRoute(admin.rights, appId);
    if (checkArguments !== null) c.set("checkArguments", checkArguments);
    await next();
  });
}

/**
 * Returns the request as `auth` serves it with its key. The validator rejects a malformed bookmark, so that the errors of a request
 * have the right order: a body that is too large is reported first (W8).
 */
function keyedOf(c: Context<AppEnv>): KeyedRequest {
  const bookmark = c.req.header("x-d1-bookmark");
  if (bookmark !== undefined && !isBookmark(bookmark)) {
    c.set("malformedHeader", invalid("x-d1-bookmark", "is not a bookmark of this service"));
  }
  return {
    ...incomingOf(c),
    ctx: () => c.var.ctx,
    setCtx: (ctx) => c.set("ctx", ctx),
    setCheck: (checkKey) => c.set("checkKey", checkKey),
    setEndUser: (endUser) => {
      c.set("endUser", endUser);
      assertOwnUser(c.get("requestedUser"), endUser);
    },
    setBookmark: (latest) => {
      // Hono would build a new response to set a header on a finished one.
      if (c.finalized) c.res.headers.set("x-d1-bookmark", latest);
      else c.header("x-d1-bookmark", latest);
    },
  };
}

async function serveKeyInHeader(
  c: Context<AppEnv>,
  requirements: KeyRequirements,
  next: () => Promise<void>,
): Promise<void> {
  const keyed = keyedOf(c);
  await serveKey(keyed, await keyInHeader(keyed, requirements.isCapture), requirements, next);
}

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
  const reject = rejectOthers(rejection);
  return factory.createMiddleware((c, next) => serveKeyInHeader(c, { ...requirements, reject }, next));
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
  return factory.createMiddleware((c, next) => {
    const needsSecret = secretParams.some((name) => c.req.query(name) !== undefined);
    return serveKeyInHeader(c, needsSecret ? { reject } : { reject: rejectRelay, needsUser: true }, next);
  });
}

/** Requires a secret or publishable key. */
export const requireKey = factory.createMiddleware((c, next) => serveKeyInHeader(c, { reject: rejectRelay }, next));

/** Requires a key that may send analytics events, in the header. */
export const requireCaptureKey = factory.createMiddleware((c, next) => serveKeyInHeader(c, { isCapture: true }, next));

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
  const keyed = keyedOf(c);
  if (inHeader !== undefined) return serveKey(keyed, inHeader, { isCapture: true }, next);
  const isCounted = await countCapture(keyed);
  return serveCounted(keyed, requireSent(await readKeyInBody()), { isCapture: true }, isCounted, next);
}

/** Serves a read-only request of PostHog's clients, with its key in the body. It stores nothing, so it rejects a relay key. */
export async function serveClientKey<Answer>(
  c: Context<AppEnv>,
  readKeyInBody: () => Promise<string | null>,
  next: () => Promise<Answer>,
): Promise<Answer> {
  const keyed = keyedOf(c);
  await countArrival(keyed);
  return serveCounted(keyed, requireSent(await readKeyInBody()), { reads: true, reject: rejectRelay }, true, next);
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
  return serveKey(keyedOf(c), key, { reject }, next);
}

function requireSent(key: string | null): string {
  if (key !== null) return key;
  throw invalidKey("Send a key of Purser as `api_key`, beside the events in the body.");
}
