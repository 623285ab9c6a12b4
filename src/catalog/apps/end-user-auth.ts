import { and, eq, sql } from "drizzle-orm";
import { verifyEndUser } from "../../auth/end-user.ts";
import { openEndUserSetting, sealEndUserSetting, showEndUserSetting } from "../../auth/end-user-setting.ts";
import { drizzle, hasRow, query, type ValueOf } from "../../db/query.ts";
import { environments } from "../../db/schema.ts";
import { batch } from "../../db/sql.ts";
import { PurserError } from "../../errors.ts";
import { warn } from "../../http/warnings.ts";
import type { AdminCtx, Mode, SystemCtx } from "../../runtime.ts";
import { type ActKey, actIsLatest, insertAct, newAct } from "../audit/audit-statement.ts";
import { requireEnvironment } from "./apps.ts";
import type { EndUserAuthOutput } from "./responses.ts";
import type { SetEndUserAuthInput } from "./schemas.ts";

const presentEndUserAuth = (appId: string, mode: Mode, stored: string | null): EndUserAuthOutput => ({
  appId,
  mode,
  setting: showEndUserSetting(stored),
});

type EndUserAuthSetting = { environmentId: number; stored: string | null };
const authOfEnvironment = (value: ValueOf<EndUserAuthSetting>) => eq(environments.id, value("environmentId"));
const auditEndUserAuthSet = insertAct<EndUserAuthSetting>((value) =>
  hasRow(environments, and(authOfEnvironment(value), sql`${environments.endUserAuth} IS NOT ${value("stored")}`)),
);
const updateEndUserAuth = query((value: ValueOf<EndUserAuthSetting & ActKey>) =>
  drizzle
    .update(environments)
    .set({ endUserAuth: value("stored", environments.endUserAuth) })
    .where(and(authOfEnvironment(value), actIsLatest(value))),
);

/**
 * Sets how end-user tokens are verified; `setting: null` stops publishable keys from reading. It takes effect as W3a says.
 * Throws `not_found`, and `secrets_unavailable` for a secret that cannot be stored.
 */
export async function setEndUserAuth(
  admin: AdminCtx,
  appId: string,
  input: SetEndUserAuthInput,
): Promise<EndUserAuthOutput> {
  const environment = await requireEnvironment(admin, appId, input.mode);
  const stored = input.setting === null ? null : await sealEndUserSetting(admin, environment, input.setting);
  const details = { mode: input.mode, type: input.setting?.type ?? null };
  const act = newAct(admin, { appId, action: "end_user_auth.set", target: appId, details });
  const values = { ...act, environmentId: environment.id, stored };
  await batch(admin.db, [auditEndUserAuthSet(values), updateEndUserAuth(values)]);
  if (input.setting?.type === "jwks" && input.setting.audience === undefined) warn(admin, "audience_missing");
  return presentEndUserAuth(appId, input.mode, stored);
}

/** Returns the shared secret of the current setting, for a form that keeps it; null without one. Throws `secrets_unavailable`. */
export async function readEndUserSecret(root: SystemCtx, appId: string, mode: Mode): Promise<string | null> {
  const environment = await requireEnvironment(root, appId, mode);
  const setting = await openEndUserSetting(root, environment, environment.endUserAuth);
  return setting?.type === "hs256" ? setting.secret : null;
}

/** Returns the current setting. Throws `not_found`. */
export async function readEndUserAuth(root: SystemCtx, appId: string, mode: Mode): Promise<EndUserAuthOutput> {
  const environment = await requireEnvironment(root, appId, mode);
  return presentEndUserAuth(appId, mode, environment.endUserAuth);
}

export type TokenTest = { readonly userId: string } | { readonly flaw: string };

/**
 * Returns whether an end-user token verifies under the current setting, and which user it proves. Throws `not_found`,
 * `secrets_unavailable`.
 */
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
