import { openSecret, sealSecret } from "../auth/end-user-setting.ts";
import type { Fraction } from "../books/amounts/amount.ts";
import type { Environment, TenantCtx } from "../runtime.ts";
import { type Fact, factsOf, type IntentFact, type InvoiceFact, type InvoiceLine, type SessionFact } from "./facts.ts";
import { type Offer, type OfferPart, ONCE, refOf } from "./offer.ts";
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

/** The possible grants of a payment: from a session, else an invoice, else an intent. None for products that are not set up. */
export function offersOf(
  facts: readonly Fact[],
  setting: Pick<StripeSetting, "prices" | "currency">,
  customerUser: string | null,
): readonly Offer[] {
  return [
    ...factsOf(facts, "session").map(ofSession),
    ...factsOf(facts, "invoice").flatMap((invoice) => ofInvoice(invoice, setting, customerUser) ?? []),
    ...factsOf(facts, "intent").map(ofSession),
  ];
}

function ofSession({ userId, data }: SessionFact | IntentFact): Offer {
  const part = {
    externalRef: refOf(data.ref),
    ...{ line: null, isTrial: false, pack: data.pack, times: ONCE },
    quantity: data.quantity === null ? { amount: data } : { units: data.quantity },
    ...{ expiresAtMs: undefined, elseExpiresAtMs: undefined },
  };
  return { userId, parts: [part], flaw: null };
}

/** The key of a line, unique in an environment. */
export const lineKey = (invoiceId: string, lineId: string): string => `${invoiceId}:${lineId}`;

/** The grant of an invoice. Null when none of its prices is in the setting. */
function ofInvoice(
  invoice: InvoiceFact,
  setting: Pick<StripeSetting, "prices" | "currency">,
  customerUser: string | null,
): Offer | null {
  const { lines, hasMore, isSubscription } = invoice.data;
  const parts: OfferPart[] = [];
  let isUntold = false;
  for (const line of lines) {
    const price = setting.prices.find((candidate) => candidate.price === line.price);
    const times = price === undefined ? null : timesOfLine(invoice, line, price, setting.currency);
    if (price === undefined || times === null) continue;
    if (times === "proration") isUntold = true;
    else parts.push(partOf(invoice, line, price, times));
  }
  if (parts.length === 0 && !isUntold && !(hasMore && setting.prices.length > 0)) return null;
  const userId = invoice.userId ?? (isSubscription ? customerUser : null);
  return { userId, parts, flaw: isUntold ? "proration" : hasMore ? "lines_missing" : null };
}

/** How many times a line buys its price's pack. Null for nothing. `proration` when the share is unknown. */
function timesOfLine(
  { data }: InvoiceFact,
  line: InvoiceLine,
  price: PriceSetting,
  currency: string,
): Fraction | "proration" | null {
  const { net, quantity, isProration } = line;
  if (net < 0 || (net === 0 && (isProration || price.trial !== true))) return null;
  if (!isProration) {
    const times = BigInt(quantity ?? 1);
    return times > 0n ? { numerator: times, denominator: 1n } : null;
  }
  const whole = wholeOf(data, line, price, currency);
  return whole === null ? "proration" : { numerator: BigInt(net) * whole.denominator, denominator: whole.numerator };
}

/** The full amount of one unit of a price. */
function wholeOf(
  { lines, currency: ofInvoice }: InvoiceFact["data"],
  line: InvoiceLine,
  price: PriceSetting,
  currency: string,
): Fraction | null {
  if (price.amount !== undefined && ofInvoice === currency) return { numerator: BigInt(price.amount), denominator: 1n };
  const whole = lines.find(
    (one) => one.price === line.price && !one.isProration && one.amount > 0 && (one.quantity ?? 1) > 0,
  );
  if (whole !== undefined) return { numerator: BigInt(whole.amount), denominator: BigInt(whole.quantity ?? 1) };
  const { unitAmount } = line;
  return unitAmount !== null && unitAmount > 0 ? { numerator: BigInt(unitAmount), denominator: 1n } : null;
}

function partOf({ id, data }: InvoiceFact, line: InvoiceLine, price: PriceSetting, times: Fraction): OfferPart {
  const isTrial = line.net === 0;
  const hasPeriod = price.expires === "period" && line.end > line.start;
  const latest = Math.max(...data.lines.map(({ end }) => end));
  return {
    externalRef: isTrial ? refOf("trial", price.price) : refOf(id, line.id),
    line: isTrial ? null : lineKey(id, line.id),
    ...{ isTrial, pack: price.packId, times, quantity: { units: price.quantity ?? "" } },
    expiresAtMs: hasPeriod ? line.end * 1_000 : undefined,
    elseExpiresAtMs: hasPeriod && line.isProration ? latest * 1_000 : undefined,
  };
}
