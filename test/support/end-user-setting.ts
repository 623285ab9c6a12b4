import { type EndUserSetting, sealEndUserSetting } from "../../src/auth/end-user-setting.ts";
import type { Mode } from "../../src/runtime.ts";

/** The secret of every Worker that the tests start. */
export const SETTINGS_SECRET = "settings-secret-of-the-tests-0001";

/** The secret of the applications whose end-users' tokens are HS256. */
export const END_USER_SECRET = "a-secret-of-32-bytes-and-no-less!";
export const END_USER_SETTING = { type: "hs256", secret: END_USER_SECRET } as const;

/** An end-user setting as it is stored, for tests that write one directly. */
export async function storedSettingOf(
  owner: { readonly appId: string; readonly mode: Mode },
  setting: object | null | undefined,
  current = SETTINGS_SECRET,
): Promise<string | null> {
  if (setting === null || setting === undefined) return null;
  const settings = { settingsSecrets: { current, previous: null } };
  // A test writes only settings that the API would accept.
  return sealEndUserSetting({ settings }, owner, setting as EndUserSetting);
}

/** A setting for keys published at `url`, in the least form that the API accepts. */
export const jwksSetting = (url: string) =>
  ({ type: "jwks", url, issuer: "https://issuer.example.com", audience: null }) as const;
