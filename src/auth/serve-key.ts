import type { Context } from "hono";
import { noteUse } from "../db/count-activity.ts";
import { type Key, readKey } from "../db/key-form.ts";
import { databaseAt, isBookmark } from "../db/session.ts";
import { knownClock, rememberClock, timesOf } from "../db/settings-snapshot.ts";
import { invalid, isRejection, PurserError } from "../errors.ts";
import type { AppEnv } from "../http/factory.ts";
import { readSettings } from "../settings.ts";
import { countArrival, countCapture, countKey, isKnownInvalid, noteKeyCheck } from "./arrivals.ts";
import { admitEndUser } from "./end-user.ts";
import { bearerToken, invalidKey, keyAdvice, rejectBrowserPage } from "./key.ts";
import { openKeySession } from "./key-session.ts";

/**
 * Returns the bookmark that the caller sent, or null. The validator rejects a malformed bookmark, so that the errors of a request
 * have the right order: a body that is too large is reported first (W8).
 */
function readBookmark(c: Context<AppEnv>): string | null {
  const bookmark = c.req.header("x-d1-bookmark");
  if (bookmark === undefined || isBookmark(bookmark)) return bookmark ?? null;
  c.set("malformedHeader", invalid("x-d1-bookmark", "is not a bookmark of this service"));
  return null;
}

/** The requirements of a route, besides a valid key. */
export interface KeyRequirements {
  /** Returns the rejection of this key, without a query. The rejection is reported only if the key is valid. */
  readonly reject?: (key: Key) => PurserError | null;
  /** Whether the route only reads, so that it can use the nearest replica. True for a GET by default. */
  readonly reads?: boolean;
  /** Whether a request with a publishable key must have the token of the end-user whom it names. */
  readonly needsUser?: boolean;
  /** Whether the route stores events of PostHog's clients. */
  readonly isCapture?: boolean;
}

/** Serves a request whose key is read first, and counts the request by its key (L2). */
export async function serveKey<Answer>(
  c: Context<AppEnv>,
  text: string,
  requirements: KeyRequirements,
  next: () => Promise<Answer>,
): Promise<Answer> {
  return serveCounted(
    c,
    text,
    requirements,
    await countKey(c, readKey(text), text, requirements.isCapture === true),
    next,
  );
}

/** Returns the key in the header. Counts a request without a key before rejecting it. */
export async function keyInHeader(c: Context<AppEnv>, isCapture = false): Promise<string> {
  try {
    return bearerToken(c);
  } catch (error) {
    await (isCapture ? countCapture(c) : countArrival(c));
    throw error;
  }
}

/**
 * Does the same as `serveWellFormedKey`. If the key is unknown, remembers this, and counts the request unless it was counted
 * already.
 */
export async function serveCounted<Answer>(
  c: Context<AppEnv>,
  text: string,
  requirements: KeyRequirements,
  isCounted: boolean,
  next: () => Promise<Answer>,
): Promise<Answer> {
  const key = readKey(text);
  if (key === null) throw invalidKey(keyAdvice(text));
  const noteUnknown = async () => {
    noteKeyCheck(c, key, text, false);
    if (!isCounted) await countUnknown(c, requirements.isCapture === true);
  };
  try {
    if (isKnownInvalid(c, text)) throw invalidKey();
    const answer = await serveWellFormedKey(c, { key, text }, requirements, next);
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
    // The rejection of the key set this header. The new rejection replaces it.
    c.header("WWW-Authenticate", undefined);
    throw error;
  }
}

const isUnknownKey = (error: unknown): boolean => error instanceof PurserError && error.code === "invalid_key";

/**
 * Sets `ctx` for a key and returns the bookmark with every response (W12). The first trip of the verb also checks the key (W3a).
 * Throws `invalid_key`. A rejection that needed no query is reported only after the key is checked (W8).
 */
async function serveWellFormedKey<Answer>(
  c: Context<AppEnv>,
  { key, text }: { readonly key: Key; readonly text: string },
  {
    reject = () => null,
    reads = c.req.method === "GET" || c.req.method === "HEAD",
    needsUser = false,
  }: KeyRequirements,
  next: () => Promise<Answer>,
): Promise<Answer> {
  const database = databaseAt(c.env, key.environment.database);
  if (database === null) throw invalidKey();
  const bookmark = readBookmark(c);
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
    setClock: (latest) => {
      rememberClock(runtime, key.environment, latest);
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
    if (key.kind !== "publishable") rejectBrowserPage(c, key.kind);
    const rejection = reject(key);
    if (rejection !== null) throw rejection;
    const answer = await next();
    // Hono has turned errors of the inner handlers into a response by now.
    if (c.error === undefined) {
      noteUse("key", environment, session.keyId, runtime.now());
      await session.admit();
    }
    // Only the holder of a valid key may see a rejection.
    else if (isRejection(c.error)) await session.checkKey();
    return answer;
  } catch (error) {
    if (isRejection(error)) await session.checkKey();
    throw error;
  } finally {
    if (session.isInForce()) noteKeyCheck(c, key, text, true);
    setBookmark(c, session.bookmark());
  }
}

function setBookmark(c: Context<AppEnv>, bookmark: string | null): void {
  if (bookmark === null) return;
  // Hono would build a new response to set a header on a finished one.
  if (c.finalized) c.res.headers.set("x-d1-bookmark", bookmark);
  else c.header("x-d1-bookmark", bookmark);
}
