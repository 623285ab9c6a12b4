import type { Context } from "hono";
import { PurserError } from "../errors.ts";
import type { AppEnv } from "../http/factory.ts";
import type { JsonObject } from "../lib/json.ts";
import type { Runtime } from "../runtime.ts";
import { type EndUserSetting, openEndUserSetting } from "./end-user-setting.ts";
import { publishedKeysFlaw } from "./jwks.ts";
import { claimFlaw, readJwt, refuseToken, secretFlaw, userClaimOf } from "./jwt.ts";

/** The isolate and the time in which a token is verified. */
type Verifying = Pick<Runtime, "isolate" | "now">;

/**
 * Returns the end-user that a token proves: the setting's claim of a verified JWT. Throws the errors of `verifyToken`, and
 * `invalid_user_token` when the claim is missing.
 */
export async function verifyEndUser(runtime: Verifying, setting: EndUserSetting, token: string): Promise<string> {
  const user = (await verifyToken(runtime, setting, token))[userClaimOf(setting)];
  if (typeof user !== "string" || user === "") throw refuseToken("claim", setting, token);
  return user;
}

/**
 * Returns the claims of a verified JWT. Throws `invalid_user_token` with `details.reason` for every flaw of the token, and
 * `temporarily_unavailable` when the key server cannot be reached.
 */
export async function verifyToken(runtime: Verifying, setting: EndUserSetting, token: string): Promise<JsonObject> {
  const jwt = readJwt(token);
  if (jwt === null) throw refuseToken("malformed", setting, token);
  const flaw = (await signatureFlaw(runtime, setting, token, jwt.alg)) ?? claimFlaw(jwt.claims, setting, runtime.now());
  if (flaw !== null) throw refuseToken(flaw, setting, token);
  return jwt.claims;
}

async function signatureFlaw(runtime: Verifying, setting: EndUserSetting, token: string, alg: string) {
  if (setting.type === "jwks") return publishedKeysFlaw(runtime, setting.url, token, alg);
  // The setting decides which algorithm to use, never the token.
  return alg === "HS256" ? secretFlaw(token, setting.secret) : "algorithm";
}

/** Verifies the end-user's token by the setting that came with the key, and that the request asks about no other user. */
export async function admitEndUser(c: Context<AppEnv>, endUserAuth: string | null): Promise<void> {
  const setting = await openEndUserSetting(c.get("ctx"), c.get("ctx").environment, endUserAuth);
  if (setting === null) {
    throw new PurserError(
      "forbidden",
      "The application has no end-user token setting in this mode, so publishable keys may do nothing here. Set one in the " +
        "dashboard, or by `PUT /api/v1/admin/apps/{appId}/end-user-auth`.",
    );
  }
  const token = c.req.header("x-user-token");
  if (token === undefined || token === "") {
    throw new PurserError("invalid_user_token", "Send the user's JWT from your own sign-in as `X-User-Token`.");
  }
  c.set("endUserId", await verifyEndUser(c.get("runtime"), setting, token));
  assertOwnUser(c);
}

/**
 * Declares which user a request asks about, before any query. A publishable key may ask only about the end-user whom the token
 * proves (C20). Throws `forbidden`, now or once the token is verified.
 */
export function askAbout(c: Context<AppEnv>, param: string, userId: string): void {
  c.set("askedUser", { param, userId });
  assertOwnUser(c);
}

function assertOwnUser(c: Context<AppEnv>): void {
  const [askedUser, endUserId] = [c.get("askedUser"), c.get("endUserId")];
  if (askedUser === undefined || endUserId === undefined || endUserId === askedUser.userId) return;
  throw new PurserError("forbidden", "must be the user whom the end-user token names", { param: askedUser.param });
}
