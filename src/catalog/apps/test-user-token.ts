import { verifyEndUser } from "../../auth/end-user.ts";
import { openEndUserSetting } from "../../auth/stored-setting.ts";
import { PurserError } from "../../errors.ts";
import type { Mode, SystemCtx } from "../../runtime.ts";
import { requireEnvironment } from "./app.ts";

export type TokenTest = { readonly userId: string } | { readonly flaw: string };

/** Whether an end-user token verifies by the setting in force, and whom it proves. Throws `not_found`, `secrets_unavailable`. */
export async function testUserToken(root: SystemCtx, appId: string, mode: Mode, token: string): Promise<TokenTest> {
  const environment = await requireEnvironment(root, appId, mode);
  const setting = await openEndUserSetting(root, environment, environment.endUserAuth);
  if (setting === null) return { flaw: "No setting: publishable keys read nothing, whatever the token." };
  try {
    return { userId: await verifyEndUser(root, setting, token) };
  } catch (error) {
    if (error instanceof PurserError) return { flaw: error.message };
    throw error;
  }
}
