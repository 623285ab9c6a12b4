import { and, eq, sql } from "drizzle-orm";
import { openSecret, sealSecret } from "../auth/secrets.ts";
import { amountRule, toMinor, type Unit } from "../books/amounts/amount.ts";
import { requireEnvironment } from "../catalog/apps.ts";
import { type AuditEntryKey, auditEntryIsLatest, insertAuditEntry, newAuditEntry } from "../catalog/audit.ts";
import { choosePack, selectPack } from "../catalog/pack.ts";
import {
  asInteger,
  assignments,
  computed,
  drizzle,
  fields,
  insertFrom,
  names,
  query,
  type RowOfBuilt,
  scalar,
  type ValueOf,
} from "../db/query.ts";
import { environments, stripeSettings } from "../db/schema.ts";
import { all, batch } from "../db/sql.ts";
import { invalid, PurserError } from "../errors.ts";
import { warn } from "../http/warnings.ts";
import { iso } from "../lib/time.ts";
import type { AdminCtx, Environment, Mode, SystemCtx, TenantCtx } from "../runtime.ts";
import { newestAt } from "./log.ts";
import type { SignatureFault } from "./receiver.ts";

export interface StripeOutput {
  readonly mode: Mode;
  readonly setting: {
    readonly signingSecrets: string[];
    readonly currency: string;
    readonly prices: {
      readonly price: string;
      readonly packId: string;
      readonly expires: "pack" | "period";
      readonly quantity?: number | undefined;
      readonly trial?: boolean | undefined;
      readonly amount?: number | undefined;
    }[];
  } | null;
  readonly lastEventAt: string | null;
  readonly refused: { readonly at: string; readonly reason: SignatureFault } | null;
}

export interface SetStripeInput {
  readonly mode: Mode;
  readonly setting: {
    readonly currency: string;
    readonly prices: {
      readonly price: string;
      readonly packId: string;
      readonly expires: "pack" | "period";
      readonly quantity?: number | undefined;
      readonly trial?: boolean | undefined;
      readonly amount?: number | undefined;
    }[];
    readonly signingSecrets?: string[] | undefined;
  } | null;
}

/** A Stripe price, and the grant of an invoice line with it. */
export interface PriceSetting {
  readonly price: string;
  /** A pack's id or name. */
  readonly packId: string;
  readonly quantity?: number | undefined;
  readonly expires: "pack" | "period";
  /** Whether a line for which nothing is paid grants, once for each user. */
  readonly trial?: boolean | undefined;
  /** The full price of one unit, in the setting's currency. */
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

type SecretsCtx = Pick<TenantCtx, "settings">;
type Owner = Pick<Environment, "appId" | "mode">;
const stripeSettingPlace = (environment: Owner) => ({ purpose: "stripe" as const, environment });

/** Reads what `sealStripeSetting` wrote. */
export function readStoredSetting(stored: string): StoredSetting {
  return JSON.parse(stored) as StoredSetting;
}

/** Returns the first and the last characters of a secret, by which the administrator recognises it. */
const settingHint = (secret: string): string => `${secret.slice(0, "whsec_".length)}…${secret.slice(-4)}`;

/** Returns the setting as JSON to store, with the secrets that were sent. Throws `secrets_unavailable` without `SETTINGS_SECRET`. */
export async function sealStripeSetting(
  ctx: SecretsCtx,
  owner: Owner,
  { signingSecrets = [], currency, prices }: NonNullable<SetStripeInput["setting"]>,
): Promise<string> {
  const secrets: { hint: string; sealed: string }[] = [];
  for (const secret of signingSecrets) {
    secrets.push({ hint: settingHint(secret), sealed: await sealSecret(ctx, stripeSettingPlace(owner), secret) });
  }
  return JSON.stringify({ currency, prices, secrets } satisfies StoredSetting);
}

/** Returns the signing secrets. Throws `secrets_unavailable` if they cannot be decrypted. */
export async function openSecrets(ctx: SecretsCtx, owner: Owner, { secrets }: StoredSetting): Promise<string[]> {
  const opened: string[] = [];
  for (const { sealed } of secrets) opened.push(await openSecret(ctx, stripeSettingPlace(owner), sealed));
  return opened;
}

type StripeEnvironment = { environmentId: number };
const settingOfEnvironment = (value: ValueOf<StripeEnvironment>) =>
  eq(stripeSettings.environmentId, value("environmentId"));

const selectSettingOf = (value: ValueOf<StripeEnvironment>) =>
  drizzle
    .select({
      ...fields(stripeSettings, "setting", "rejectedAtMs", "rejectedReason"),
      ...computed({ lastEventAtMs: newestAt(sql`${stripeSettings.environmentId}`) }),
    })
    .from(stripeSettings)
    .where(settingOfEnvironment(value));
type StoredStripe = RowOfBuilt<ReturnType<typeof selectSettingOf>>;
export const selectSetting = query(selectSettingOf);

const selectWalletCurrency = query((value: ValueOf<{ appId: string; mode: Mode }>) =>
  drizzle
    .select(computed({ currency: sql<string | null>`${stripeSettings.setting} ->> 'currency'` }))
    .from(stripeSettings)
    .innerJoin(environments, eq(environments.id, stripeSettings.environmentId))
    .where(and(eq(environments.appId, value("appId")), eq(environments.mode, value("mode")))),
);

/** Returns the currency of an environment's wallets. Null where Stripe is not set, or there is no such environment. */
export async function readWalletCurrency(root: SystemCtx, appId: string, mode: Mode): Promise<string | null> {
  const [found] = await all(root.db, selectWalletCurrency({ appId, mode }));
  return found?.currency ?? null;
}

function presentStripeSetting(mode: Mode, stored: StoredStripe | undefined): StripeOutput {
  const { setting = null, lastEventAtMs = 0, rejectedAtMs = null, rejectedReason = null } = stored ?? {};
  const lastEventAt = lastEventAtMs === 0 ? null : iso(lastEventAtMs);
  // Only `noteRejected` writes this column, with one of `SIGNATURE_FAULTS`.
  const refused = rejectedAtMs === null ? null : { at: iso(rejectedAtMs), reason: rejectedReason as SignatureFault };
  if (setting === null) return { mode, setting: null, lastEventAt, refused };
  const { currency, prices, secrets } = readStoredSetting(setting);
  const signingSecrets = secrets.map(({ hint }) => hint);
  return { mode, setting: { signingSecrets, currency, prices: [...prices] }, lastEventAt, refused };
}

/** Returns the setting without its secrets (S1). Throws `not_found`. */
export async function readStripe(root: SystemCtx, appId: string, mode: Mode): Promise<StripeOutput> {
  const { id: environmentId } = await requireEnvironment(root, appId, mode);
  const [stored] = await all(root.db, selectSetting({ environmentId }));
  return presentStripeSetting(mode, stored);
}

type SettingValues = StripeEnvironment & { stored: string | null; keepsSecrets: number };
const settingBefore = (value: ValueOf<SettingValues>) =>
  scalar(drizzle.select(fields(stripeSettings, "setting")).from(stripeSettings).where(settingOfEnvironment(value)));
const secretsBefore = (value: ValueOf<SettingValues>) => sql`(${settingBefore(value)} -> '$.secrets')`;
const settingAfter = (value: ValueOf<SettingValues>) =>
  sql`iif(${value("keepsSecrets")}, json_set(${value("stored")}, '$.secrets', json(${secretsBefore(value)})), ${value("stored")})`;
const auditStripeSet = insertAuditEntry<SettingValues>(
  (value) => sql`${settingBefore(value)} IS NOT ${settingAfter(value)}
    AND (NOT ${value("keepsSecrets")} OR ${secretsBefore(value)} IS NOT NULL)`,
);
const updateSetting = query((value: ValueOf<SettingValues & AuditEntryKey>) => {
  const { environmentId, setting } = stripeSettings;
  const insert = insertFrom(
    stripeSettings,
    { environmentId: asInteger(value("environmentId")), setting: settingAfter(value) },
    sql`WHERE ${auditEntryIsLatest(value)}`,
  );
  const after = assignments(stripeSettings, { setting: sql`excluded.${names(setting)}` });
  return sql`${insert} ON CONFLICT (${names(environmentId)}) DO UPDATE SET ${after}`;
});

/**
 * Sets the Stripe setting. If no secrets are sent, the current ones stay (S1). Throws `not_found`, `credit_pack_not_found`,
 * `secrets_unavailable`, and `invalid_request` for a setting without any secret or an open-amount pack without a quantity.
 */
export async function setStripe(admin: AdminCtx, appId: string, input: SetStripeInput): Promise<StripeOutput> {
  const environment = await requireEnvironment(admin, appId, input.mode);
  const environmentId = environment.id;
  if (input.setting !== null) await assertPacks(admin, environment, input.setting.prices);
  const stored = input.setting === null ? null : await sealStripeSetting(admin, environment, input.setting);
  const keepsSecrets = Number(input.setting !== null && input.setting.signingSecrets === undefined);
  const details = { mode: input.mode, prices: input.setting?.prices.map(({ price }) => price) ?? null };
  const auditEntry = newAuditEntry(admin, { appId, action: "stripe.set", target: appId, details });
  const values = { ...auditEntry, environmentId, stored, keepsSecrets };
  const [, , [after]] = await batch(admin.db, [
    auditStripeSet(values),
    updateSetting(values),
    selectSetting({ environmentId }),
  ]);
  if (keepsSecrets === 1 && (after?.setting ?? null) === null)
    throw invalid("setting.signingSecrets", "is required, because no secret is set yet");
  return presentStripeSetting(input.mode, after);
}

async function assertPacks(
  admin: AdminCtx,
  environment: Environment,
  prices: NonNullable<SetStripeInput["setting"]>["prices"],
): Promise<void> {
  const found = await batch(
    admin.db,
    prices.map(({ packId }) => selectPack({ environment }, packId)),
  );
  for (const [index, { packId, quantity }] of prices.entries()) {
    const param = `setting.prices[${index}]`;
    const pack = choosePack(packId, found[index] ?? []);
    if (pack === null || pack.archivedAtMs !== null) {
      const message = "The application has no such pack, or it is archived.";
      throw new PurserError("credit_pack_not_found", message, { param: `${param}.packId` });
    }
    if (pack.unit !== null) assertQuantity(`${param}.quantity`, pack.unit, quantity);
    else if (quantity !== undefined) warn(admin, "quantity_disregarded");
  }
}

/** Throws `invalid_request` if the price of an open-amount pack has no quantity, or a quantity that is invalid for the unit. */
function assertQuantity(param: string, unit: Unit, quantity: number | undefined): void {
  if (quantity === undefined) throw invalid(param, `is required for a pack without items, in its unit \`${unit}\``);
  if (!(quantity > 0)) throw invalid(param, "must be more than 0");
  if (toMinor(unit, quantity) === null) throw invalid(param, amountRule(unit, quantity));
}
