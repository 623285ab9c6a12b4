import { eq } from "drizzle-orm";
import { readEndUserSetting } from "../access/end-user.ts";
import { forgetKeys } from "../access/keys.ts";
import { environments } from "../db/schema.ts";
import type { Mode, RootCtx } from "../runtime.ts";
import type { EndUserAuthOutput } from "./answers.ts";
import { requireEnvironment } from "./app.ts";
import type { SetEndUserAuthInput } from "./schemas.ts";

/** The setting without its secret. */
function present(appId: string, mode: Mode, stored: string | null): EndUserAuthOutput {
  const setting = readEndUserSetting(stored);
  if (setting?.type !== "hs256") return { appId, mode, setting };
  const { secret: _, ...shown } = setting;
  return { appId, mode, setting: shown };
}

/**
 * Sets how end-user tokens are verified, or switches publishable keys' reading off with `setting: null`: here at once,
 * everywhere within 30 seconds. Throws `not_found`.
 */
export async function setEndUserAuth(
  root: RootCtx,
  appId: string,
  input: SetEndUserAuthInput,
): Promise<EndUserAuthOutput> {
  const environment = await requireEnvironment(root, appId, input.mode);
  const stored = input.setting === null ? null : JSON.stringify(input.setting);
  await root.db.update(environments).set({ endUserAuth: stored }).where(eq(environments.id, environment.id));
  forgetKeys();
  return present(appId, input.mode, stored);
}

/** The setting in force. Throws `not_found`. */
export async function readEndUserAuth(root: RootCtx, appId: string, mode: Mode): Promise<EndUserAuthOutput> {
  const environment = await requireEnvironment(root, appId, mode);
  return present(appId, mode, environment.endUserAuth);
}
