import { createRemoteJWKSet, errors, type JWTPayload, type JWTVerifyGetKey, jwtVerify } from "jose";
import { PurserError, temporarilyUnavailable } from "../errors.ts";
import { type EndUserSetting, endUserSetting } from "./end-user-setting.ts";

/** Asymmetric algorithms alone: a published key must never verify as a shared secret. */
const JWKS_ALGORITHMS = [
  "RS256",
  "RS384",
  "RS512",
  "PS256",
  "PS384",
  "PS512",
  "ES256",
  "ES384",
  "ES512",
  "EdDSA",
  "Ed25519",
];
const CLOCK_TOLERANCE_SECONDS = 60;

/** Key sets of this isolate, by URL. Each may be fetched anew for an unknown `kid` a few times a minute. */
const keySets = new Map<string, KeySet>();
const KEY_SETS_MAX = 200;
const RELOADS_A_MINUTE_MAX = 5;

interface KeySet {
  readonly remote: ReturnType<typeof createRemoteJWKSet>;
  minuteStartMs: number;
  reloads: number;
}

function keySetOf(url: string): KeySet {
  const existing = keySets.get(url);
  if (existing !== undefined) return existing;
  if (keySets.size >= KEY_SETS_MAX) keySets.clear();
  // jose's own cool-down of 30 seconds would refuse the first token after a rotation; `keyFinder` bounds reloads.
  const remote = createRemoteJWKSet(new URL(url), { timeoutDuration: 5_000, cooldownDuration: 0 });
  const created = { remote, minuteStartMs: 0, reloads: 0 };
  keySets.set(url, created);
  return created;
}

/** Whether the key server itself failed, rather than not knowing the key. */
function isServerFault(error: unknown): boolean {
  return !(error instanceof errors.JWKSNoMatchingKey || error instanceof errors.JOSENotSupported);
}

function keyFinder(url: string, nowMs: number): JWTVerifyGetKey {
  const keySet = keySetOf(url);
  return async (header, token) => {
    const known = keySet.remote.jwks()?.keys.some((key) => key.kid === header.kid) ?? false;
    if (!known && keySet.remote.jwks() !== undefined) {
      if (nowMs - keySet.minuteStartMs >= 60_000) Object.assign(keySet, { minuteStartMs: nowMs, reloads: 0 });
      if (keySet.reloads >= RELOADS_A_MINUTE_MAX) throw new errors.JWKSNoMatchingKey();
      keySet.reloads++;
    }
    try {
      return await keySet.remote(header, token);
    } catch (error) {
      if (error instanceof errors.JWKSMultipleMatchingKeys || !isServerFault(error)) throw error;
      throw temporarilyUnavailable("The application's key server cannot be reached; try again.", error);
    }
  };
}

async function verify(setting: EndUserSetting, token: string, nowMs: number): Promise<JWTPayload> {
  const options = {
    algorithms: setting.type === "jwks" ? JWKS_ALGORITHMS : ["HS256"],
    clockTolerance: CLOCK_TOLERANCE_SECONDS,
    currentDate: new Date(nowMs),
    requiredClaims: ["exp"],
    ...(setting.issuer === undefined ? {} : { issuer: setting.issuer }),
    ...(setting.audience === undefined ? {} : { audience: setting.audience }),
  };
  if (setting.type === "hs256") {
    return (await jwtVerify(token, new TextEncoder().encode(setting.secret), options)).payload;
  }
  return (await jwtVerify(token, keyFinder(setting.url, nowMs), options)).payload;
}

/**
 * The end-user that a token proves: the setting's claim of a JWT that verifies. Throws `invalid_user_token` for every
 * flaw of the token, `temporarily_unavailable` when the key server cannot be reached.
 */
export async function verifyEndUser(setting: EndUserSetting, token: string, nowMs: number): Promise<string> {
  let payload: JWTPayload;
  try {
    payload = await verify(setting, token, nowMs);
  } catch (error) {
    if (error instanceof PurserError) throw error;
    throw new PurserError("invalid_user_token", "The end-user token does not verify.", { cause: error });
  }
  const user = payload[setting.claim ?? "sub"];
  if (typeof user !== "string" || user === "") {
    throw new PurserError("invalid_user_token", "The end-user token does not name a user.");
  }
  return user;
}

/** The stored setting, or null when there is none. */
export function readEndUserSetting(stored: string | null): EndUserSetting | null {
  return stored === null ? null : endUserSetting.parse(JSON.parse(stored));
}
