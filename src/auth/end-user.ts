import { PurserError } from "../errors.ts";
import { isJsonObject, type JsonObject } from "../lib/json.ts";
import type { EndUser, RequestedUser, Runtime, TenantCtx } from "../runtime.ts";
import { openEndUserSetting, type TokenRules } from "./end-user-setting.ts";
import { checkByPublishedKeys } from "./jwks.ts";
import { checkBySecret, findClaimRejection, readJwt, rejectToken } from "./jwt.ts";
import { readPayerClaim, readUserClaim } from "./user-claim.ts";

type VerificationRuntime = Pick<Runtime, "isolate" | "now">;

/**
 * Verifies a JWT and returns its end-user, from the claims that the setting names. Throws the errors of `verifyToken`, and
 * `invalid_user_token` when the user's claim is missing or not verified.
 */
export async function verifyEndUser(
  runtime: VerificationRuntime,
  setting: TokenRules,
  token: string,
): Promise<EndUser> {
  const claims = await verifyToken(runtime, setting, token);
  const userId = readUserClaim(claims, setting);
  if (userId === null) throw rejectToken("claim", setting, token);
  return { userId, payers: readPayerClaim(claims, setting, runtime.now()) };
}

/**
 * Returns the claims of a verified JWT. Throws `invalid_user_token` with `details.reason` for every rejection of the token, and
 * `temporarily_unavailable` when the key server cannot be reached.
 */
export async function verifyToken(
  runtime: VerificationRuntime,
  setting: TokenRules,
  token: string,
): Promise<JsonObject> {
  const jwt = readJwt(token);
  if (jwt === null) throw rejectToken("malformed", setting, token);
  const rejection =
    (await checkTokenSignature(runtime, setting, token, jwt.alg)) ??
    findClaimRejection(jwt.claims, setting, runtime.now());
  if (rejection !== null) throw rejectToken(rejection, setting, token);
  return jwt.claims;
}

const CLAIMED_IDS_MAX = 50;

/** Returns the texts in a token's claims, which nobody has verified. A statement may look up these ids before the setting is known. */
export function claimedIds(token: string | undefined): readonly string[] {
  const texts = new Set<string>();
  const open: unknown[] = [token === undefined ? null : readJwt(token)?.claims];
  // Not a recursion, because a token may be nested deeper than the stack allows. The loop also reads what is added meanwhile.
  for (const value of open) {
    if (texts.size === CLAIMED_IDS_MAX) break;
    if (typeof value === "string") texts.add(value);
    else if (isJsonObject(value)) open.push(...Object.values(value));
  }
  return [...texts];
}

async function checkTokenSignature(runtime: VerificationRuntime, setting: TokenRules, token: string, alg: string) {
  if (setting.type === "jwks") return checkByPublishedKeys(runtime, setting.url, token, alg);
  // The setting decides which algorithm to use, never the token.
  return alg === "HS256" ? checkBySecret(token, setting.secret) : "algorithm";
}

/** Verifies the end-user's token by the setting that was read with the key, and returns its user. */
export async function admitEndUser(ctx: TenantCtx, endUserAuth: string | null, token: string | null): Promise<EndUser> {
  const setting = await openEndUserSetting(ctx, ctx.environment, endUserAuth);
  if (setting === null) {
    throw new PurserError(
      "forbidden",
      "The application has no end-user token setting in this mode, so this operation accepts no publishable key. Set one in the " +
        "dashboard, or with `PUT /api/v1/admin/apps/{appId}/end-user-auth`.",
    );
  }
  if (token === null || token === "") {
    throw new PurserError("invalid_user_token", "Send the user's JWT from your own sign-in as `X-User-Token`.");
  }
  return verifyEndUser({ isolate: ctx.isolate, now: ctx.realNow }, setting, token);
}

/**
 * Checks that a request names the user of its end-user token (C20), or, where members may ask, a payer whom the token names. Throws
 * `forbidden`. Checks nothing until both are known.
 */
export function assertOwnUser(requested: RequestedUser | undefined, endUser: EndUser | undefined): void {
  if (requested === undefined || endUser === undefined) return;
  const { param, userId, memberId, isForMembers } = requested;
  if (endUser.userId !== userId && !(isForMembers && endUser.payers.includes(userId))) {
    throw new PurserError("forbidden", "must be the user whom the end-user token names", { param });
  }
  if (memberId !== undefined && memberId !== endUser.userId) {
    throw new PurserError("forbidden", "must be the user whom the end-user token names", { param: "memberId" });
  }
}
