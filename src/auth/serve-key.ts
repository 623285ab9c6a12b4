import { noteUse } from "../db/count-activity.ts";
import { type Key, readKey } from "../db/key-form.ts";
import { databaseAt, isBookmark } from "../db/session.ts";
import { knownClock, rememberClock, timesOf } from "../db/settings-snapshot.ts";
import { isRejection, PurserError } from "../errors.ts";
import type { EndUser, TenantCtx } from "../runtime.ts";
import { readSettings } from "../settings.ts";
import {
  countArrival,
  countCapture,
  countKey,
  type IncomingRequest,
  isKnownInvalid,
  noteKeyCheck,
} from "./arrivals.ts";
import { admitEndUser } from "./end-user.ts";
import { bearerToken, invalidKey, keyAdvice, rejectBrowserPage } from "./key.ts";
import { openKeySession } from "./key-session.ts";

/** A request with a key, and where its handler finds what the key opens. */
export interface KeyedRequest extends IncomingRequest {
  readonly ctx: () => TenantCtx;
  /** Receives the context of the verb, again when the test clock differs from the one that the isolate remembers. */
  readonly setCtx: (ctx: TenantCtx) => void;
  /** Receives a check of the key alone. */
  readonly setCheck: (checkKey: () => Promise<void>) => void;
  /** Receives the user of the verified end-user token. Throws `forbidden` if the request names somebody else. */
  readonly setEndUser: (endUser: EndUser) => void;
  /** Receives the bookmark for the response, whether the request was served or rejected (W12). */
  readonly setBookmark: (bookmark: string) => void;
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
  request: KeyedRequest,
  text: string,
  requirements: KeyRequirements,
  serve: () => Promise<Answer>,
): Promise<Answer> {
  const isCounted = await countKey(request, readKey(text), text, requirements.isCapture === true);
  return serveCounted(request, text, requirements, isCounted, serve);
}

/** Returns the key in the header. Counts a request without a key before rejecting it. */
export async function keyInHeader(incoming: IncomingRequest, isCapture = false): Promise<string> {
  try {
    return bearerToken(incoming.request);
  } catch (error) {
    await (isCapture ? countCapture(incoming) : countArrival(incoming));
    throw error;
  }
}

/**
 * Does the same as `serveWellFormedKey`. If the key is unknown, remembers this, and counts the request unless it was counted
 * already.
 */
export async function serveCounted<Answer>(
  request: KeyedRequest,
  text: string,
  requirements: KeyRequirements,
  isCounted: boolean,
  serve: () => Promise<Answer>,
): Promise<Answer> {
  const key = readKey(text);
  if (key === null) throw invalidKey(keyAdvice(text));
  try {
    if (isKnownInvalid(request, text)) throw invalidKey();
    return await serveWellFormedKey(request, { key, text }, requirements, serve);
  } catch (error) {
    if (error instanceof PurserError && error.code === "invalid_key") {
      noteKeyCheck(request, key, text, false);
      if (!isCounted) await countArrival(request, requirements.isCapture === true);
    }
    throw error;
  }
}

/**
 * Opens what a key gives access to. The first trip of the verb also checks the key (W3a). Throws `invalid_key`. A rejection that
 * needed no query is reported only after the key is checked (W8).
 */
async function serveWellFormedKey<Answer>(
  keyed: KeyedRequest,
  { key, text }: { readonly key: Key; readonly text: string },
  { reject = () => null, reads, needsUser = false }: KeyRequirements,
  serve: () => Promise<Answer>,
): Promise<Answer> {
  const { env, runtime, request } = keyed;
  const database = databaseAt(env, key.environment.database);
  if (database === null) throw invalidKey();
  const bookmark = request.headers.get("x-d1-bookmark");
  const isReadable = bookmark === null || isBookmark(bookmark);
  const mayUseReplica = isReadable && (reads ?? ["GET", "HEAD"].includes(request.method));
  const isUserNeeded = needsUser && key.kind === "publishable";
  const clock = knownClock(runtime, key.environment);
  const session = await openKeySession({
    d1: database.d1,
    start: mayUseReplica ? "first-unconstrained" : "first-primary",
    bookmark: isReadable ? bookmark : null,
    key,
    text,
    // A backend sends no origin, and a secret key needs none.
    origin: key.kind === "publishable" ? request.headers.get("origin") : null,
    needsUser: isUserNeeded,
    clock: () => keyed.ctx().clock,
    setClock: (latest) => {
      rememberClock(runtime, key.environment, latest);
      keyed.setCtx({ ...keyed.ctx(), ...timesOf(latest, runtime) });
    },
    admit: async ({ endUserAuth }) => {
      const token = request.headers.get("x-user-token");
      if (isUserNeeded) keyed.setEndUser(await admitEndUser(keyed.ctx(), endUserAuth, token));
    },
  });
  const { environment, kind } = key;
  const caller = { kind, keyId: session.keyId };
  const times = timesOf(clock, runtime);
  keyed.setCtx({ ...runtime, ...times, db: session, settings: readSettings(env), environment, caller });
  keyed.setCheck(session.checkKey);
  try {
    if (key.kind !== "publishable") rejectBrowserPage(request, key.kind);
    const rejection = reject(key);
    if (rejection !== null) throw rejection;
    const answer = await serve();
    noteUse("key", environment, session.keyId, runtime.now());
    await session.admit();
    return answer;
  } catch (error) {
    // Only the holder of a valid key may see a rejection.
    if (isRejection(error)) await session.checkKey();
    throw error;
  } finally {
    if (session.isInForce()) noteKeyCheck(keyed, key, text, true);
    const latest = session.bookmark();
    if (latest !== null) keyed.setBookmark(latest);
  }
}
