import {
  type CompactVerifyGetKey,
  compactVerify,
  createLocalJWKSet,
  decodeJwt,
  decodeProtectedHeader,
  errors,
  type JWK,
} from "jose";
import { PurserError } from "../errors.ts";
import { decodeBase64url } from "../lib/encoding.ts";
import { isJsonObject, type JsonObject } from "../lib/json.ts";
import type { TokenRules } from "./end-user-setting.ts";
import { needsVerification, userClaimOf } from "./user-claim.ts";

/** The contents of a JWT before verification. They may be forged. */
export interface UnverifiedJwt {
  readonly alg: string;
  readonly claims: JsonObject;
}

/**
 * Reads a signed JWT in compact form. Returns null for other text. jose would also accept other spellings of base64url, and the
 * extension `b64`. This function rejects both, because they give one token several spellings.
 */
export function readJwt(token: string): UnverifiedJwt | null {
  const parts = token.split(".");
  if (parts.length !== 3 || parts.some((part) => decodeBase64url(part) === null)) return null;
  try {
    const [{ alg, crit }, claims] = [decodeProtectedHeader(token), decodeJwt(token)];
    return typeof alg !== "string" || alg === "" || crit !== undefined ? null : { alg, claims };
  } catch {
    return null;
  }
}

/** The supported algorithms. All are asymmetric, so that a published key is never used as a shared secret. */
const ASYMMETRIC = [
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

export const isAsymmetric = (alg: string): boolean => ASYMMETRIC.includes(alg);

export type PublishedKeys = CompactVerifyGetKey;

/** Returns the keys in an answer of a key server. Skips entries that are not keys (RFC 7517, section 5). */
export const parsePublishedKeys = (keys: readonly unknown[]): PublishedKeys =>
  createLocalJWKSet({ keys: keys.filter((key): key is JWK => isJsonObject(key)) });

/** Returns the rejection of a signature under a shared secret, or null when the secret made it. */
export async function checkBySecret(token: string, secret: string): Promise<TokenRejection | null> {
  return readRejection(compactVerify(token, new TextEncoder().encode(secret), { algorithms: ["HS256"] }));
}

/**
 * Returns the rejection of a signature under published keys, or null when one of them made it. A token without a key id is tried with
 * every key that fits its algorithm.
 */
export async function checkByKeys(token: string, keys: PublishedKeys): Promise<TokenRejection | null> {
  const options = { algorithms: ASYMMETRIC };
  try {
    await compactVerify(token, keys, options);
    return null;
  } catch (error) {
    if (!(error instanceof errors.JWKSMultipleMatchingKeys)) return readRejection(Promise.reject(error));
    let rejection: TokenRejection = "no_key";
    for await (const key of error) {
      const keyRejection = await readRejection(compactVerify(token, key, options));
      if (keyRejection === null) return null;
      if (keyRejection === "signature") rejection = keyRejection;
    }
    return rejection;
  }
}

/**
 * Returns the rejection that an error of jose stands for. A key that cannot be imported, is private or is too short counts as missing.
 */
async function readRejection(verification: Promise<unknown>): Promise<TokenRejection | null> {
  try {
    await verification;
    return null;
  } catch (error) {
    if (error instanceof errors.JWSSignatureVerificationFailed) return "signature";
    if (error instanceof errors.JOSEAlgNotAllowed) return "algorithm";
    return error instanceof errors.JWSInvalid ? "malformed" : "no_key";
  }
}

/** How far the clock of the token's issuer may differ from Purser's. */
const CLOCK_TOLERANCE_SECONDS = 60;
/** The year 5138. A larger value is probably in milliseconds. */
const EXP_SECONDS_MAX = 1e11;

/** The errors of an end-user token, in the order in which they are reported (docs/rules.md, "End-user tokens"). */
export const TOKEN_REJECTIONS = [
  "malformed",
  "algorithm",
  "no_key",
  "signature",
  "expired",
  "not_yet_valid",
  "issuer",
  "audience",
  "claim",
] as const;
export type TokenRejection = (typeof TOKEN_REJECTIONS)[number];

/** Returns advice about a text that is not a JWT, for the usual mistakes. */
function malformedAdvice(token: string): string {
  if (/^Bearer\s/i.test(token)) return "begins with `Bearer`. Send the JWT alone in `X-User-Token`, without `Bearer`.";
  if (/^[sp]k_(live|test)_/.test(token)) {
    return "is a key of Purser. Send the user's JWT from your own sign-in in `X-User-Token`.";
  }
  if (token.split(".").length === 5) return "is encrypted. Send a signed JWT, which has three parts.";
  return "is not a signed JWT. Send the JWT alone, its three parts separated by dots.";
}

/** Returns what to change, by rejection and by the setting's type. The advice never contains the token. */
function adviseOnToken(rejection: TokenRejection, setting: TokenRules, token: string): string {
  const { type } = setting;
  const claim = userClaimOf(setting);
  switch (rejection) {
    case "malformed":
      return malformedAdvice(token);
    case "algorithm":
      return type === "jwks"
        ? "is signed with an algorithm that a `jwks` setting does not accept. Sign with an asymmetric one, such as RS256 or ES256."
        : "is signed with an algorithm that an `hs256` setting does not accept. Sign with HS256.";
    case "no_key":
      return "names a key (`kid`, `alg`) that the setting's `url` does not publish in a usable form. Publish it there, or correct the `url`.";
    case "signature":
      return type === "jwks"
        ? "is signed with a key that the setting's `url` does not publish. Correct the `url`, or publish the key."
        : "is not signed with the setting's `secret`. Sign with the UTF-8 bytes of that secret.";
    case "expired":
      return "has expired (`exp`). Get a new one from your sign-in.";
    case "not_yet_valid":
      return "is not valid yet (`nbf`). Check the clock of the server that signs it.";
    case "issuer":
      return "has an `iss` that differs from the setting's `issuer`. Correct the setting, or send a token of that issuer.";
    case "audience":
      return "does not name the setting's `audience` in `aud` (without `aud`: in `azp`, else in `client_id`).";
    case "claim":
      return (
        `needs \`exp\` in seconds, not milliseconds, and the user's id as text in its claim \`${claim}\`` +
        (needsVerification(setting) ? `, with true in \`${claim}_verified\`.` : ".")
      );
  }
}

/** Returns `invalid_user_token` (401) with the rejection in `details.reason`. */
export function rejectToken(rejection: TokenRejection, setting: TokenRules, token: string): PurserError {
  const message = `The end-user token ${adviseOnToken(rejection, setting, token)}`;
  return new PurserError("invalid_user_token", message, { details: { reason: rejection } });
}

/**
 * Returns the first rejection of a token's claims, in the order of TOKEN_REJECTIONS (jose's order differs), or null when there is none.
 */
export function findClaimRejection(claims: JsonObject, setting: TokenRules, nowMs: number): TokenRejection | null {
  const { exp, nbf, iat } = claims;
  const nowSeconds = Math.floor(nowMs / 1_000);
  if (typeof exp === "number" && exp <= nowSeconds - CLOCK_TOLERANCE_SECONDS) return "expired";
  if (typeof nbf === "number" && nbf > nowSeconds + CLOCK_TOLERANCE_SECONDS) return "not_yet_valid";
  if (setting.issuer !== undefined && !isIssuer(claims, setting.issuer)) return "issuer";
  const isForAnyone = setting.audience === undefined || setting.audience === null;
  if (!isForAnyone && !readAudiences(claims, setting).includes(setting.audience)) return "audience";
  const areTimes = typeof exp === "number" && [nbf, iat].every((time) => ["undefined", "number"].includes(typeof time));
  return areTimes && exp <= EXP_SECONDS_MAX ? null : "claim";
}

const TENANT = "{tid}";

/** Returns whether a token has the setting's issuer, with the token's tenant in the place of `{tid}`. */
function isIssuer({ iss, tid }: JsonObject, issuer: string): boolean {
  if (!issuer.includes(TENANT)) return iss === issuer;
  return typeof tid === "string" && /^[\w-]+$/.test(tid) && iss === issuer.replaceAll(TENANT, tid);
}

/**
 * Returns for whom a token was made. Clerk's tokens and Cognito's access tokens have no `aud`: they name the application, or its
 * page, in `azp` or `client_id`.
 */
function readAudiences({ aud, azp, client_id }: JsonObject, { isOlder }: TokenRules): readonly unknown[] {
  const isAbsent = aud === undefined || aud === null || aud === "" || (Array.isArray(aud) && aud.length === 0);
  if (isAbsent && isOlder !== true) return [azp || client_id];
  return Array.isArray(aud) ? aud : [aud];
}
