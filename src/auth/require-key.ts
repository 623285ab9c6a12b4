import type { Context } from "hono";
import { noteSeen } from "../db/activity.ts";
import { knownClock, learnClock, timesOf } from "../db/features.ts";
import { databaseAt, isBookmark } from "../db/session.ts";
import { invalid, PurserError } from "../errors.ts";
import { type AppEnv, factory } from "../http/factory.ts";
import { readSettings } from "../settings.ts";
import { countArrival, countCapture, countKey, isFoundUnknown, noteFound } from "./arrivals.ts";
import { admitEndUser } from "./end-user.ts";
import { bearerToken, invalidKey, type Key, keyAdvice, readKey, refusePage } from "./key.ts";
import { openKeySession } from "./key-session.ts";

/**
 * Returns the bookmark that the caller sent; null for none. Leaves a malformed bookmark to the validator, which refuses it in
 * the right order: after a body that is too large (W8).
 */
function sentBookmark(c: Context<AppEnv>): string | null {
  const bookmark = c.req.header("x-d1-bookmark");
  if (bookmark === undefined || isBookmark(bookmark)) return bookmark ?? null;
  c.set("malformedHeader", invalid("x-d1-bookmark", "is not a bookmark that this service gave out"));
  return null;
}

/** The requirements of a route beyond a valid key. */
interface Demand {
  /** Returns the refusal of this key, known without a query. It is reported only if the key is valid. */
  readonly refuse?: (key: Key) => PurserError | null;
  /** Whether the route changes nothing, and so begins at the nearest replica. True for a GET by default. */
  readonly reads?: boolean;
  /** Whether a publishable key must come with the token of the end-user that the request asks about. */
  readonly needsUser?: boolean;
  /** Whether the route stores events of PostHog's clients. */
  readonly isCapture?: boolean;
}

/** Serves a request whose key is read first, and counts the request by its key (L2). */
async function serveKey<Answer>(
  c: Context<AppEnv>,
  text: string,
  demand: Demand,
  next: () => Promise<Answer>,
): Promise<Answer> {
  return serveCounted(c, text, demand, await countKey(c, readKey(text), text, demand.isCapture === true), next);
}

/** Returns the key in the header. Counts a request without a key before it refuses it. */
export async function keyInHeader(c: Context<AppEnv>, isCapture = false): Promise<string> {
  try {
    return bearerToken(c);
  } catch (error) {
    await (isCapture ? countCapture(c) : countArrival(c));
    throw error;
  }
}

/**
 * Serves a key as `serveKnownForm` does. Remembers a key that proves unknown, and counts the request unless it was counted
 * already.
 */
async function serveCounted<Answer>(
  c: Context<AppEnv>,
  text: string,
  demand: Demand,
  isCounted: boolean,
  next: () => Promise<Answer>,
): Promise<Answer> {
  const key = readKey(text);
  if (key === null) throw invalidKey(keyAdvice(text));
  const noteUnknown = async () => {
    noteFound(c, key, text, false);
    if (!isCounted) await countUnknown(c, demand.isCapture === true);
  };
  try {
    if (isFoundUnknown(c, text)) throw invalidKey();
    const answer = await serveKnownForm(c, { key, text }, demand, next);
    // Hono has turned errors of the inner handlers into a response by now.
    if (isUnknownKey(c.error)) await noteUnknown();
    return answer;
  } catch (error) {
    if (isUnknownKey(error)) await noteUnknown();
    throw error;
  }
}

async function countUnknown(c: Context<AppEnv>, isCapture: boolean): Promise<void> {
  try {
    await countArrival(c, isCapture);
  } catch (error) {
    // A header of the response that this one replaces.
    c.header("WWW-Authenticate", undefined);
    throw error;
  }
}

const isUnknownKey = (error: unknown): boolean => error instanceof PurserError && error.code === "invalid_key";

/**
 * Sets `ctx` for a key and returns the bookmark with every response (W12). The first trip of the verb also checks the key (W3a).
 * Throws `invalid_key`. A refusal that needed no query is reported only after the key is checked (W8).
 */
async function serveKnownForm<Answer>(
  c: Context<AppEnv>,
  { key, text }: { readonly key: Key; readonly text: string },
  { refuse = () => null, reads = c.req.method === "GET" || c.req.method === "HEAD", needsUser = false }: Demand,
  next: () => Promise<Answer>,
): Promise<Answer> {
  const database = databaseAt(c.env, key.environment.database);
  if (database === null) throw invalidKey();
  const bookmark = sentBookmark(c);
  const isUserNeeded = needsUser && key.kind === "publishable";
  const { runtime } = c.var;
  const clock = knownClock(runtime, key.environment);
  const session = await openKeySession({
    d1: database.d1,
    start: reads && c.get("malformedHeader") === undefined ? "first-unconstrained" : "first-primary",
    bookmark,
    key,
    text,
    // A backend sends no origin, and a secret key needs none.
    origin: key.kind === "publishable" ? (c.req.header("origin") ?? null) : null,
    needsUser: isUserNeeded,
    clock: () => c.var.ctx.clock,
    learn: (latest) => {
      learnClock(runtime, key.environment, latest);
      c.set("ctx", { ...c.var.ctx, ...timesOf(latest, runtime) });
    },
    admit: async (row) => {
      if (isUserNeeded) await admitEndUser(c, row.endUserAuth);
    },
  });
  const { environment, kind } = key;
  const caller = { kind, keyId: session.keyId };
  const times = timesOf(clock, runtime);
  c.set("ctx", { ...runtime, ...times, db: session, settings: readSettings(c.env), environment, caller });
  c.set("checkKey", session.checkKey);
  try {
    if (key.kind !== "publishable") refusePage(c, key.kind);
    const refusal = refuse(key);
    if (refusal !== null) throw refusal;
    const answer = await next();
    // Hono has turned errors of the inner handlers into a response by now.
    if (c.error === undefined) {
      noteSeen("key", environment, session.keyId, runtime.now());
      await session.admit();
    } else if (isToldToHolder(c.error)) await session.checkKey();
    return answer;
  } catch (error) {
    if (isToldToHolder(error)) await session.checkKey();
    throw error;
  } finally {
    if (session.isInForce()) noteFound(c, key, text, true);
    handOutBookmark(c, session.bookmark());
  }
}

/** Returns whether only the holder of a key may see an error: every refusal, but no fault of Purser or of the database. */
const isToldToHolder = (error: unknown): boolean => error instanceof PurserError && error.fault === undefined;

function handOutBookmark(c: Context<AppEnv>, bookmark: string | null): void {
  if (bookmark === null) return;
  // Hono would build a new response to set a header on a finished one.
  if (c.finalized) c.res.headers.set("x-d1-bookmark", bookmark);
  else c.header("x-d1-bookmark", bookmark);
}

const NEEDS_SECRET_KEY =
  "This operation needs a secret key (`sk_…`), sent by your backend. A publishable key (`pk_…`) was sent.";
const RELAY_KEY_SENDS = "A relay key (`rk_…`) sends analytics events and does nothing else.";

/**
 * Requires a secret key. Refuses others with `refusal`: `forbidden` on writes, `requires_secret_key` on export-person and on
 * reads (W13). A POST that only reads sets `reads`.
 */
export function requireSecretKey(refusal: "forbidden" | "requires_secret_key", demand: Pick<Demand, "reads"> = {}) {
  return factory.createMiddleware(async (c, next) => {
    await serveKey(c, await keyInHeader(c), { ...demand, refuse: refuseOthers(refusal) }, next);
  });
}

function refuseOthers(refusal: "forbidden" | "requires_secret_key") {
  const messages = {
    publishable: NEEDS_SECRET_KEY,
    relay: `${RELAY_KEY_SENDS} This operation needs a secret key (\`sk_…\`).`,
  };
  return ({ kind }: Key) => (kind === "secret" ? null : new PurserError(refusal, messages[kind]));
}

const refuseRelay = ({ kind }: Key) => (kind === "relay" ? new PurserError("forbidden", RELAY_KEY_SENDS) : null);

/**
 * Requires a secret key, or a publishable key with a valid end-user token. Requires a secret key if the query has one of
 * `secretParams`.
 */
export function requireKeyOrEndUser(secretParams: readonly string[] = []) {
  const refusePublishable = refuseOthers("requires_secret_key");
  const refuse = (key: Key) => refuseRelay(key) ?? refusePublishable(key);
  return factory.createMiddleware(async (c, next) => {
    const needsSecret = secretParams.some((name) => c.req.query(name) !== undefined);
    const demand = needsSecret ? { refuse } : { refuse: refuseRelay, needsUser: true };
    await serveKey(c, await keyInHeader(c), demand, next);
  });
}

/** A pattern for a key of Purser in the `Authorization` header. PostHog's clients may send another header of this name. */
const KEY_IN_HEADER = /^Bearer +([spr]k_(?:live|test)_[^\s]+) *$/i;

/**
 * Serves a request that stores events of PostHog's clients. The key is in the header, where a proxy puts its relay key, or
 * beside the events (P1). In the latter case `inBody` finds it after the request was counted.
 */
export async function serveCaptureKey<Answer>(
  c: Context<AppEnv>,
  inBody: () => Promise<string | null>,
  next: () => Promise<Answer>,
): Promise<Answer> {
  const inHeader = KEY_IN_HEADER.exec(c.req.header("authorization") ?? "")?.[1];
  if (inHeader !== undefined) return serveKey(c, inHeader, { isCapture: true }, next);
  const isCounted = await countCapture(c);
  return serveCounted(c, sentKey(await inBody()), { isCapture: true }, isCounted, next);
}

/** Serves a read-only request of PostHog's clients, with its key in the body. It stores nothing, so it refuses a relay key. */
export async function serveClientKey<Answer>(
  c: Context<AppEnv>,
  inBody: () => Promise<string | null>,
  next: () => Promise<Answer>,
): Promise<Answer> {
  await countArrival(c);
  return serveCounted(c, sentKey(await inBody()), { reads: true, refuse: refuseRelay }, true, next);
}

/** Serves a request with a publishable key in its path. Refuses other keys with `forbidden`. */
export async function servePublishableKey<Answer>(
  c: Context<AppEnv>,
  sent: string,
  next: () => Promise<Answer>,
): Promise<Answer> {
  const refuse = ({ kind }: Key) =>
    kind === "publishable"
      ? null
      : new PurserError(
          "forbidden",
          "A secret or relay key must stand in no address. Send a publishable key (`pk_…`) here, and replace this one.",
        );
  return serveKey(c, sent, { refuse }, next);
}

function sentKey(sent: string | null): string {
  if (sent !== null) return sent;
  throw invalidKey("Send a key of Purser as `api_key`, beside the events in the body.");
}

/** Requires a key that may send analytics events, in the header. */
export const requireCaptureKey = factory.createMiddleware(async (c, next) => {
  await serveKey(c, await keyInHeader(c, true), { isCapture: true }, next);
});
