import { PurserError } from "../errors.ts";
import { openSealed, sealText } from "../lib/seal.ts";
import type { Environment } from "../runtime.ts";
import type { Settings } from "../settings.ts";

/** What a stored secret is for, and whose it is. It opens for nothing and nobody else. */
export interface SecretPlace {
  readonly purpose: "end_user_auth" | "stripe" | "webhook";
  readonly environment: Pick<Environment, "appId" | "mode">;
}

const contextOf = ({ purpose, environment }: SecretPlace) => `${purpose}\n${environment.appId}\n${environment.mode}`;

function unavailable(fault: "not_set_up" | "secret_unreadable"): PurserError {
  const message =
    fault === "not_set_up"
      ? "This deployment stores no secrets. Set `SETTINGS_SECRET` (32 characters or more)."
      : "A stored secret cannot be read with this deployment's `SETTINGS_SECRET`. Set the secret again.";
  return new PurserError("secrets_unavailable", message, { headers: { "Retry-After": "60" }, fault });
}

type HasSettings = { readonly settings: Pick<Settings, "settingsSecrets"> };

/** A secret as it is stored. Throws `secrets_unavailable` without `SETTINGS_SECRET`. */
export async function sealSecret({ settings }: HasSettings, place: SecretPlace, secret: string): Promise<string> {
  if (settings.settingsSecrets === null) throw unavailable("not_set_up");
  return sealText(settings.settingsSecrets.current, contextOf(place), secret);
}

/** A stored secret. Throws `secrets_unavailable` without the secret that sealed it. */
export async function openSecret({ settings }: HasSettings, place: SecretPlace, sealed: string): Promise<string> {
  if (settings.settingsSecrets === null) throw unavailable("not_set_up");
  const { current, previous } = settings.settingsSecrets;
  const secret = await openSealed([current, ...(previous === null ? [] : [previous])], contextOf(place), sealed);
  if (secret === null) throw unavailable("secret_unreadable");
  return secret;
}
