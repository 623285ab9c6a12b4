import type { JsonObject } from "../lib/json.ts";
import type { Runtime } from "../runtime.ts";
import type { EndUserSetting } from "./end-user-setting.ts";
import { publishedKeysFlaw } from "./jwks.ts";
import { readJwt } from "./jwt.ts";
import { secretFlaw } from "./signature-flaw.ts";
import { claimFlaw, refuseToken, userClaimOf } from "./token-flaw.ts";

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
