import { openSecret, sealSecret } from "../auth/end-user-setting.ts";
import type { Environment, TenantCtx } from "../runtime.ts";
import type { SetStripeInput } from "./schemas.ts";

/** A price at Stripe, and what a line of an invoice with it grants. */
export interface PriceSetting {
  readonly price: string;
  /** A pack's id or name. */
  readonly packId: string;
  readonly quantity?: number | undefined;
  readonly expires: "pack" | "period";
  /** Whether a line of which nothing is paid grants, once a user. */
  readonly trial?: boolean | undefined;
  /** The full amount of one, in the setting's currency. */
  readonly amount?: number | undefined;
}

/** How an environment takes Stripe's events, without its secrets. */
export interface StripeSetting {
  readonly currency: string;
  readonly prices: readonly PriceSetting[];
}

/** As it is stored: each secret sealed, with a hint that may be shown. */
interface StoredSetting extends StripeSetting {
  readonly secrets: readonly { readonly hint: string; readonly sealed: string }[];
}

type HasSettings = Pick<TenantCtx, "settings">;
type Owner = Pick<Environment, "appId" | "mode">;
const placeOf = (environment: Owner) => ({ purpose: "stripe" as const, environment });

/** Reads what `sealStripeSetting` wrote. */
export function readStored(stored: string): StoredSetting {
  return JSON.parse(stored) as StoredSetting;
}

/** The first and the last characters, by which the administrator recognises it. */
const hintOf = (secret: string): string => `${secret.slice(0, "whsec_".length)}…${secret.slice(-4)}`;

/**
 * The setting as JSON to store. Without secrets of its own it keeps those of `before`. Null when there are none. Throws
 * `secrets_unavailable` without `SETTINGS_SECRET`.
 */
export async function sealStripeSetting(
  ctx: HasSettings,
  owner: Owner,
  { signingSecrets, currency, prices }: NonNullable<SetStripeInput["setting"]>,
  before: string | null,
): Promise<string | null> {
  const secrets: { hint: string; sealed: string }[] = [];
  for (const secret of signingSecrets ?? []) {
    secrets.push({ hint: hintOf(secret), sealed: await sealSecret(ctx, placeOf(owner), secret) });
  }
  if (signingSecrets === undefined && before !== null) secrets.push(...readStored(before).secrets);
  if (secrets.length === 0) return null;
  return JSON.stringify({ currency, prices, secrets } satisfies StoredSetting);
}

/** The signing secrets. Throws `secrets_unavailable` when they cannot be read. */
export async function openSecrets(ctx: HasSettings, owner: Owner, { secrets }: StoredSetting): Promise<string[]> {
  const opened: string[] = [];
  for (const { sealed } of secrets) opened.push(await openSecret(ctx, placeOf(owner), sealed));
  return opened;
}
