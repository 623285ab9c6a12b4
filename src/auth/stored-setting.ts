import * as z from "zod";
import type { Environment } from "../runtime.ts";
import type { Settings } from "../settings.ts";
import { claims, type EndUserSetting, endUserSetting } from "./end-user-setting.ts";
import { openSecret, sealSecret } from "./stored-secret.ts";

/** The setting as it is stored: the secret of `hs256` is sealed. */
const storedSetting = z.discriminatedUnion("type", [
  z.object({ type: z.literal("jwks"), url: z.string(), ...claims }),
  z.object({ type: z.literal("hs256"), sealed: z.string(), ...claims }),
]);

type Owner = Pick<Environment, "appId" | "mode">;
type HasSettings = { readonly settings: Pick<Settings, "settingsSecrets"> };

const placeOf = (environment: Owner) => ({ purpose: "end_user_auth" as const, environment });

/** The setting as JSON to store. Throws `secrets_unavailable` when it has a secret and `SETTINGS_SECRET` is not set. */
export async function sealEndUserSetting(ctx: HasSettings, owner: Owner, setting: EndUserSetting): Promise<string> {
  const { origins, ...others } = setting;
  const kept = origins === undefined || origins.length === 0 ? others : { ...others, origins };
  if (kept.type !== "hs256") return JSON.stringify(kept);
  const { secret, ...rest } = kept;
  return JSON.stringify({ ...rest, sealed: await sealSecret(ctx, placeOf(owner), secret) });
}

/** The stored setting. Null when there is none. Throws `secrets_unavailable` when its secret cannot be read. */
export async function openEndUserSetting(
  ctx: HasSettings,
  owner: Owner,
  stored: string | null,
): Promise<EndUserSetting | null> {
  if (stored === null) return null;
  const setting = storedSetting.parse(JSON.parse(stored));
  if (setting.type !== "hs256") return endUserSetting.parse(setting);
  const { sealed, ...rest } = setting;
  return endUserSetting.parse({ ...rest, secret: await openSecret(ctx, placeOf(owner), sealed) });
}

/** The stored setting without its secret. */
export function showEndUserSetting(stored: string | null) {
  if (stored === null) return null;
  const setting = storedSetting.parse(JSON.parse(stored));
  if (setting.type !== "hs256") return setting;
  const { sealed: _, ...shown } = setting;
  return shown;
}

/** Whether a page of this origin may use the environment's publishable keys (L4). */
export function isOriginAllowed(stored: string | null, origin: string): boolean {
  const { origins } = showEndUserSetting(stored) ?? {};
  return origins === undefined || origins.includes(origin);
}
