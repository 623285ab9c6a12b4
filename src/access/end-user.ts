import { type JWTPayload, type JWTVerifyOptions, jwtVerify } from "jose";
import { PurserError } from "../errors.ts";
import type { Runtime } from "../runtime.ts";
import type { EndUserSetting } from "./end-user-setting.ts";
import { verifyByPublishedKeys } from "./jwks.ts";
import { clockToleranceSeconds, flawOf, isJwt, refuseToken, userClaimOf } from "./token-flaw.ts";

/** When a token is verified, and in which isolate. */
type Verifying = Pick<Runtime, "isolate" | "now">;

/**
 * The end-user that a token proves: the setting's claim of a JWT that verifies. Throws as `verifyToken`, and
 * `invalid_user_token` when the claim is missing.
 */
export async function verifyEndUser(runtime: Verifying, setting: EndUserSetting, token: string): Promise<string> {
  const user = (await verifyToken(runtime, setting, token))[userClaimOf(setting)];
  if (typeof user !== "string" || user === "") throw refuseToken("claim", setting, token);
  return user;
}

/**
 * The claims of a JWT that verifies. Throws `invalid_user_token` with `details.reason` for every flaw of the token, and
 * `temporarily_unavailable` when the key server cannot be reached.
 */
export async function verifyToken(runtime: Verifying, setting: EndUserSetting, token: string): Promise<JWTPayload> {
  if (!isJwt(token)) throw refuseToken("malformed", setting, token);
  const nowMs = runtime.now();
  const options: JWTVerifyOptions = {
    clockTolerance: clockToleranceSeconds,
    currentDate: new Date(nowMs),
    requiredClaims: ["exp"],
    ...(setting.issuer === undefined ? {} : { issuer: setting.issuer }),
    ...(setting.audience === undefined ? {} : { audience: setting.audience }),
  };
  try {
    return setting.type === "jwks"
      ? await verifyByPublishedKeys(runtime, setting.url, token, options)
      : await verifyBySecret(setting.secret, token, options);
  } catch (error) {
    if (error instanceof PurserError) throw error;
    throw refuseToken(flawOf(error, setting, nowMs), setting, token, error);
  }
}

async function verifyBySecret(secret: string, token: string, options: JWTVerifyOptions): Promise<JWTPayload> {
  const key = new TextEncoder().encode(secret);
  return (await jwtVerify(token, key, { ...options, algorithms: ["HS256"] })).payload;
}
