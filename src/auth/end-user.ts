import type { Context } from "hono";
import { PurserError } from "../errors.ts";
import type { AppEnv } from "../http/factory.ts";
import type { JsonObject } from "../lib/json.ts";
import type { Runtime } from "../runtime.ts";
import { type EndUserSetting, openEndUserSetting } from "./end-user-setting.ts";
import { publishedKeysFlaw } from "./jwks.ts";
import { claimFlaw, readJwt, refuseToken, secretFlaw, userClaimOf } from "./jwt.ts";

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
export async function verifyToken(runtime: Verifying, setting: EndUserSetting, token: string): Promise<JsonObject> {
  const jwt = readJwt(token);
  if (jwt === null) throw refuseToken("malformed", setting, token);
  const flaw = (await signatureFlaw(runtime, setting, token, jwt.alg)) ?? claimFlaw(jwt.claims, setting, runtime.now());
  if (flaw !== null) throw refuseToken(flaw, setting, token);
  return jwt.claims;
}

async function signatureFlaw(runtime: Verifying, setting: EndUserSetting, token: string, alg: string) {
  if (setting.type === "jwks") return publishedKeysFlaw(runtime, setting.url, token, alg);
  // The setting says which algorithm there is, never the token.
  return alg === "HS256" ? secretFlaw(token, setting.secret) : "algorithm";
}

/** Verifies the end-user's token by the setting that came with the key, and that the request asks about nobody else. */
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
 * Says whom a request asks about, before anything is asked: a publishable caller may ask about the end-user whom the token
 * proves, and about nobody else (C20). Throws `forbidden`, now or when the token was verified.
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
