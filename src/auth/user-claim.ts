import { isJsonObject, type JsonObject, ownValue } from "../lib/json.ts";
import type { TokenRules } from "./end-user-setting.ts";

/** Returns the claim that names the user. */
export const userClaimOf = (setting: TokenRules): string => setting.claim ?? "sub";

/** Matches a claim that names the user only if its sibling `…_verified` is true. Anybody can enter another's address. */
const NEEDS_VERIFICATION = /(?:email|phone|phone_number)$/i;

/** Returns whether a token must say that this claim is verified. */
export const needsVerification = (setting: TokenRules): boolean =>
  setting.trustUnverified !== true && NEEDS_VERIFICATION.test(userClaimOf(setting));

interface FoundClaim {
  /** The claims, or the object inside them, that has the claim. */
  readonly owner: JsonObject;
  readonly key: string;
}

/** Finds a claim by its very name, otherwise by a path such as `o.id`. Names with `:` or `/`, as Auth0's, are no paths. */
function findClaim(claims: JsonObject, name: string): FoundClaim | null {
  if (Object.hasOwn(claims, name) || /[:/]/.test(name)) return { owner: claims, key: name };
  const names = name.split(".");
  const key = names.pop() ?? name;
  let owner = claims;
  for (const part of names) {
    const inner = ownValue(owner, part);
    if (!isJsonObject(inner)) return null;
    owner = inner;
  }
  return { owner, key };
}

/** Returns the user whom verified claims name, or null when the claim is missing, is not a text, or may not be trusted. */
export function readUserClaim(claims: JsonObject, setting: TokenRules): string | null {
  const name = userClaimOf(setting);
  const found = setting.isOlder === true ? { owner: claims, key: name } : findClaim(claims, name);
  if (found === null) return null;
  const user = ownValue(found.owner, found.key);
  const isTrusted = setting.isOlder === true ? isTrustedByOlderRules(claims, name) : isClaimVerified(found, setting);
  return isTrusted && typeof user === "string" && user !== "" ? user : null;
}

const PAYERS_MAX = 20;
const DAY_SECONDS = 86_400;
/** How far the clock of the token's issuer may be ahead of Purser's. */
const AHEAD_SECONDS_MAX = 60;

/**
 * Returns the payers whose balances and limits a verified token may read (ME5). None if the claim is missing, is longer than 20 or of
 * another type, or if the token was issued more than a day ago, because a former member must not read for long.
 */
export function readPayerClaim(claims: JsonObject, setting: TokenRules, nowMs: number): readonly string[] {
  const { payerClaim, payerPrefix = "" } = setting;
  const { iat } = claims;
  if (payerClaim === undefined || typeof iat !== "number") return [];
  const ageSeconds = nowMs / 1_000 - iat;
  if (ageSeconds > DAY_SECONDS || ageSeconds < -AHEAD_SECONDS_MAX) return [];
  const found = findClaim(claims, payerClaim);
  const isTrusted = setting.trustUnverified === true || !NEEDS_VERIFICATION.test(payerClaim);
  if (found !== null && !isTrusted && !hasVerified(found)) return [];
  const value = found === null ? undefined : ownValue(found.owner, found.key);
  const ids: unknown[] = Array.isArray(value) ? value : [value];
  if (ids.length > PAYERS_MAX) return [];
  return ids.every((id) => typeof id === "string" && id !== "") ? ids.map((id) => `${payerPrefix}${id}`) : [];
}

/** Some sign-in services send the sibling as text. */
function isClaimVerified(found: FoundClaim, setting: TokenRules): boolean {
  return !needsVerification(setting) || hasVerified(found);
}

const hasVerified = ({ owner, key }: FoundClaim): boolean =>
  [true, "true"].includes(ownValue(owner, `${key}_verified`) as never);

const isTrustedByOlderRules = ({ email_verified }: JsonObject, name: string): boolean =>
  name !== "email" || (email_verified !== false && email_verified !== "false");
