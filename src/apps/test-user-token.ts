import { readEndUserSetting, verifyEndUser } from "../access/end-user.ts";
import { PurserError } from "../errors.ts";
import type { Mode, SystemCtx } from "../runtime.ts";
import { requireEnvironment } from "./app.ts";

export type TokenTest = { readonly userId: string } | { readonly flaw: string };

/** In plain words, what the JWT library says was wrong. */
const FLAWS: Readonly<Record<string, string>> = {
  ERR_JWT_EXPIRED: "It has expired.",
  ERR_JWS_SIGNATURE_VERIFICATION_FAILED: "Its signature is not of the setting's key or secret.",
  ERR_JOSE_ALG_NOT_ALLOWED: "It is signed with an algorithm that this setting does not accept.",
  ERR_JOSE_NOT_SUPPORTED: "It is signed with an algorithm that is not supported.",
  ERR_JWKS_NO_MATCHING_KEY: "The key server does not publish the key that it names.",
  ERR_JWS_INVALID: "It is not a signed JWT.",
  ERR_JWT_INVALID: "It is not a JWT.",
};

/** Says of a claim which one failed: a claim's name is no personal data, its value may be. */
function flawOf(error: PurserError): string {
  const { cause } = error;
  if (!(cause instanceof Error)) return error.message;
  const { code, claim } = cause as Error & { readonly code?: unknown; readonly claim?: unknown };
  if (code === "ERR_JWT_CLAIM_VALIDATION_FAILED")
    return `Its claim ${String(claim)} is missing or not the expected one.`;
  return FLAWS[String(code)] ?? error.message;
}

/** Whether an end-user token verifies by the setting in force, and whom it proves. Throws `not_found`. */
export async function testUserToken(root: SystemCtx, appId: string, mode: Mode, token: string): Promise<TokenTest> {
  const setting = readEndUserSetting((await requireEnvironment(root, appId, mode)).endUserAuth);
  if (setting === null) return { flaw: "No setting: publishable keys read nothing, whatever the token." };
  try {
    return { userId: await verifyEndUser(root, setting, token) };
  } catch (error) {
    if (error instanceof PurserError) return { flaw: flawOf(error) };
    throw error;
  }
}
