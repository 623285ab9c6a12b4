import { openSecret, sealSecret } from "../auth/end-user-setting.ts";
import type { Environment, TenantCtx } from "../runtime.ts";
import type { SetStripeInput } from "./schemas.ts";

/** A Stripe price, and the grant of an invoice line with it. */
export interface PriceSetting {
  readonly price: string;
  /** A pack's id or name. */
  readonly packId: string;
  readonly quantity?: number | undefined;
  readonly expires: "pack" | "period";
  /** Whether a line with nothing to pay grants, once a user. */
  readonly trial?: boolean | undefined;
  /** The full price of one, in the setting's currency. */
  readonly amount?: number | undefined;
}

/** An environment's Stripe setting without its secrets. */
export interface StripeSetting {
  readonly currency: string;
  readonly prices: readonly PriceSetting[];
}

/** The stored setting: each secret is sealed, with a hint that may be shown. */
interface StoredSetting extends StripeSetting {
  readonly secrets: readonly { readonly hint: string; readonly sealed: string }[];
}

type NeedsStripeSetting = Pick<TenantCtx, "settings">;
type Owner = Pick<Environment, "appId" | "mode">;
const stripeSettingPlace = (environment: Owner) => ({ purpose: "stripe" as const, environment });

/** Reads what `sealStripeSetting` wrote. */
export function readStoredSetting(stored: string): StoredSetting {
  return JSON.parse(stored) as StoredSetting;
}

/** The first and the last characters, by which the administrator recognises it. */
const settingHint = (secret: string): string => `${secret.slice(0, "whsec_".length)}…${secret.slice(-4)}`;

/**
 * The setting as JSON to store. Without new secrets it keeps those of `before`. Null when there are none. Throws
 * `secrets_unavailable` without `SETTINGS_SECRET`.
 */
export async function sealStripeSetting(
  ctx: NeedsStripeSetting,
  owner: Owner,
  { signingSecrets, currency, prices }: NonNullable<SetStripeInput["setting"]>,
  before: string | null,
): Promise<string | null> {
  const secrets: { hint: string; sealed: string }[] = [];
  for (const secret of signingSecrets ?? []) {
    secrets.push({ hint: settingHint(secret), sealed: await sealSecret(ctx, stripeSettingPlace(owner), secret) });
  }
  if (signingSecrets === undefined && before !== null) secrets.push(...readStoredSetting(before).secrets);
  if (secrets.length === 0) return null;
  return JSON.stringify({ currency, prices, secrets } satisfies StoredSetting);
}

/** The signing secrets. Throws `secrets_unavailable` when they cannot be read. */
export async function openSecrets(
  ctx: NeedsStripeSetting,
  owner: Owner,
  { secrets }: StoredSetting,
): Promise<string[]> {
  const opened: string[] = [];
  for (const { sealed } of secrets) opened.push(await openSecret(ctx, stripeSettingPlace(owner), sealed));
  return opened;
}
