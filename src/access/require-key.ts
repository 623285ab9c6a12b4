import type { Context } from "hono";
import { isBookmark, openDb, type SessionStart } from "../db/client.ts";
import { invalid, PurserError } from "../errors.ts";
import { type AppEnv, factory } from "../http/factory.ts";
import type { Caller } from "../runtime.ts";
import { readSettings } from "../settings.ts";
import { readEndUserSetting, verifyEndUser } from "./end-user.ts";
import { findKey, type KnownKey } from "./keys.ts";

const BEARER = /^Bearer +([^\s]+) *$/i;

/** The bearer token of the request; `invalid_key` when there is none. */
export function bearerToken(c: Context<AppEnv>): string {
  const token = BEARER.exec(c.req.header("authorization") ?? "")?.[1];
  if (token === undefined) throw invalidKey("Send a key as `Authorization: Bearer <key>`.");
  return token;
}

export function invalidKey(message = "The key is not valid."): PurserError {
  return new PurserError("invalid_key", message, { headers: { "WWW-Authenticate": "Bearer" } });
}

/**
 * Reads begin wherever the caller's bookmark allows, writes at the primary. A malformed bookmark is left to the
 * validator, which refuses it in its turn: a body that is too large comes before it (W8).
 */
function sessionStart(c: Context<AppEnv>): SessionStart {
  const bookmark = c.req.header("x-d1-bookmark");
  if (bookmark !== undefined && !isBookmark(bookmark)) {
    c.set("malformedHeader", invalid("x-d1-bookmark", "is not a bookmark that this service gave out"));
    return "first-primary";
  }
  if (c.req.method !== "GET" && c.req.method !== "HEAD") return "first-primary";
  return bookmark === undefined ? "first-unconstrained" : { bookmark };
}

/** Sets `ctx` for a key in force, runs the rest, and hands out the bookmark, whatever the answer (W12). */
async function serveKey<Answer>(
  c: Context<AppEnv>,
  key: KnownKey,
  identify: () => Promise<Caller>,
  next: () => Promise<Answer>,
): Promise<Answer> {
  let bookmark = (): string | null => null;
  const given = c.req.header("x-d1-bookmark");
  // An error thrown below would pass the header by, so it is set on the response that Hono makes of it.
  const handOut = () => {
    const own = bookmark();
    // Bookmarks sort as text. A refusal that asked nothing hands out the latest, never one from before the caller's last.
    if (own !== null && own > (key.bookmark ?? "")) key.bookmark = own;
    const seen = own ?? (given !== undefined && isBookmark(given) ? given : key.bookmark);
    if (seen === null) return;
    // Hono makes a response anew to set a header on one that is there.
    if (c.finalized) c.res.headers.set("x-d1-bookmark", seen);
    else c.header("x-d1-bookmark", seen);
  };
  try {
    const caller = await identify();
    const open = openDb(c.env.DB, sessionStart(c));
    bookmark = open.bookmark;
    c.set("ctx", {
      ...c.var.world,
      db: open.db,
      settings: readSettings(c.env),
      environment: key.environment,
      caller,
    });
    return await next();
  } finally {
    handOut();
  }
}

/**
 * Requires a secret key. A publishable one is refused with `refusal`: `forbidden` on writes, `requires_secret_key` on
 * export-person and on reads (W13).
 */
export function requireSecretKey(refusal: "forbidden" | "requires_secret_key") {
  return factory.createMiddleware(async (c, next) => {
    const key = await findKey(c.env.DB, bearerToken(c), c.var.world.now());
    if (key === null) throw invalidKey();
    const identify = async (): Promise<Caller> => {
      if (key.kind === "secret") return { kind: "secret", keyId: key.keyId };
      throw new PurserError(refusal, "This operation needs a secret key.");
    };
    await serveKey(c, key, identify, next);
  });
}

/**
 * Serves a request of PostHog's clients, whose key stands in the body or in the header. A secret key says that a server
 * sends (P1), so it is `forbidden` where an `Origin` says that a browser does.
 */
export async function serveCaptureKey<Answer>(
  c: Context<AppEnv>,
  sent: string | null,
  next: () => Promise<Answer>,
): Promise<Answer> {
  const key = await findSentKey(c, sent);
  const identify = async (): Promise<Caller> => {
    if (key.kind === "publishable") return { kind: "publishable", keyId: key.keyId, endUserId: null };
    if (c.req.header("origin") === undefined) return { kind: "secret", keyId: key.keyId };
    throw new PurserError("forbidden", "A secret key has no place in a browser: send the publishable one from there.");
  };
  return serveKey(c, key, identify, next);
}

/** Serves a request whose publishable key stands in its path. A secret one is refused with `forbidden`. */
export async function servePublishableKey<Answer>(
  c: Context<AppEnv>,
  sent: string | null,
  next: () => Promise<Answer>,
): Promise<Answer> {
  const key = await findSentKey(c, sent);
  const identify = async (): Promise<Caller> => {
    if (key.kind === "publishable") return { kind: "publishable", keyId: key.keyId, endUserId: null };
    throw new PurserError("forbidden", "This takes a publishable key: a secret one must stand in no address.");
  };
  return serveKey(c, key, identify, next);
}

async function findSentKey(c: Context<AppEnv>, sent: string | null): Promise<KnownKey> {
  if (sent === null) throw invalidKey("Send the key as `api_key`.");
  const key = await findKey(c.env.DB, sent, c.var.world.now());
  if (key === null) throw invalidKey();
  return key;
}

/** Requires a key that may send analytics events, in the header. */
export const requireCaptureKey = factory.createMiddleware(async (c, next) => {
  await serveCaptureKey(c, bearerToken(c), next);
});

async function identifyEndUser(c: Context<AppEnv>, key: KnownKey): Promise<Caller> {
  if (key.kind === "secret") return { kind: "secret", keyId: key.keyId };
  const setting = readEndUserSetting(key.endUserAuth);
  if (setting === null) {
    throw new PurserError(
      "forbidden",
      "The application has no end-user token setting, so publishable keys read nothing.",
    );
  }
  const token = c.req.header("x-user-token");
  if (token === undefined || token === "") {
    throw new PurserError("invalid_user_token", "Send the end-user's token as `X-User-Token`.");
  }
  return {
    kind: "publishable",
    keyId: key.keyId,
    endUserId: await verifyEndUser(setting, token, c.var.world.now()),
  };
}

/** Requires a secret key, or a publishable one beside an end-user token that verifies. */
export const requireKeyOrEndUser = factory.createMiddleware(async (c, next) => {
  const key = await findKey(c.env.DB, bearerToken(c), c.var.world.now());
  if (key === null) throw invalidKey();
  await serveKey(c, key, () => identifyEndUser(c, key), next);
});

/** Refuses a publishable caller that asks about anybody but the end-user whom the token proved (C20). */
export function assertOwnUser(caller: Caller, param: string, userId: string): void {
  if (caller.kind === "publishable" && caller.endUserId !== userId) {
    throw new PurserError("forbidden", "A publishable key may ask about the requesting end-user alone.", { param });
  }
}
