import { type Fraction, fromSteps, toSteps, type Unit } from "../books/amounts/amount.ts";
import { USER_BALANCES_MAX } from "../books/credits/grant.ts";
import type { NewBalances } from "../books/ledger/insert-entries.ts";
import { planGrant } from "../books/ledger/new-balances.ts";
import type { Pack } from "../catalog/pack.ts";
import type { Steps } from "../db/schema.ts";
import { PurserError } from "../errors.ts";
import type { SessionFact } from "./facts.ts";

/** Why a payment grants nothing (S3). */
export const REASONS = [
  "no_user",
  "no_pack",
  "quantity",
  "currency",
  "period_over",
  "proration",
  "lines_missing",
  "person_erased",
  "quota",
] as const;
export type Reason = (typeof REASONS)[number];

const REFUSALS = new Map<string, Reason>([
  ["test_quota_exceeded", "quota"],
  ["person_erased", "person_erased"],
]);

/** Why a grant was refused. Null for errors that are not a reason of a payment. */
export function reasonOf(error: unknown): Reason | null {
  if (!(error instanceof PurserError)) return null;
  // The user has the maximum number of balances (L6).
  return error.details?.limit === undefined ? (REFUSALS.get(error.code) ?? null) : "quota";
}

/** A grant that a payment would make, with its user. */
export interface Offer {
  readonly userId: string | null;
  /** The bought parts, in the order of its lines. */
  readonly parts: readonly OfferPart[];
  /** The reason why nothing can be granted, although the parts could be. */
  readonly flaw: "lines_missing" | "proration" | null;
}

export interface OfferPart {
  readonly externalRef: string;
  /** The invoice line. Null for a session, and for an unpaid line. */
  readonly line: string | null;
  readonly isTrial: boolean;
  /** A pack's id or name. Null when none is named. */
  readonly pack: string | null;
  /** The factor by which the amounts of a pack with items are multiplied. */
  readonly times: Fraction;
  /** The quantity of a legacy pack. `amount` means the paid amount, in cents of the setting's currency. */
  readonly quantity: { readonly units: string | number } | { readonly amount: SessionFact["data"] };
  /** When its balances expire. Undefined for the pack's default. */
  readonly expiresAtMs: number | undefined;
  /** When they expire if `expiresAtMs` is in the past. */
  readonly elseExpiresAtMs: number | undefined;
}

/** The reference of a payment's grants. References from callers must not begin like it (C21). */
export const refOf = (...parts: readonly string[]): string => ["stripe", ...parts].join(":");

export const ONCE: Fraction = { numerator: 1n, denominator: 1n };

const TIMES_MAX = 100n;
/** A quantity in a session's metadata. Longer numbers could be rounded. */
const DECIMAL = /^\d{1,13}(\.\d{1,6})?$/;

export interface GrantTerms {
  readonly currency: string;
  readonly note: string;
  readonly nowMs: number;
  /** The id of a new balance: the same in every attempt. */
  readonly newId: (index: number) => string;
  /** The pack of an id or a name. */
  readonly packOf: (pack: string) => Pack | null;
  /** The references of the user's past trials. */
  readonly trials: ReadonlySet<string>;
}

/** The grant for one part of an offer. */
export interface PlannedGrant {
  readonly line: string | null;
  readonly grant: NewBalances;
}

/** The grants of an offer, or the reason why there are none. `trial_over` when it only has a trial that the user already had. */
export function planOffer(offer: Offer, terms: GrantTerms): readonly PlannedGrant[] | Reason | "trial_over" {
  const { userId } = offer;
  if (userId === null) return "no_user";
  const had = new Set(terms.trials);
  const planned: PlannedGrant[] = [];
  let count = 0;
  for (const part of offer.parts) {
    if (part.isTrial && had.has(part.externalRef)) continue;
    if (part.isTrial) had.add(part.externalRef);
    const idOf = (index: number) => terms.newId(count + index);
    const grant = planPart(part, { ...terms, userId, newId: idOf });
    if (typeof grant === "string") return grant;
    planned.push({ line: part.line, grant });
    count += grant.balances.length;
    if (count > USER_BALANCES_MAX) return "quota";
  }
  if (offer.flaw !== null) return offer.flaw;
  return planned.length === 0 ? "trial_over" : planned.filter(({ grant }) => grant.balances.length > 0);
}

function planPart(part: OfferPart, terms: GrantTerms & { readonly userId: string }): NewBalances | Reason {
  const { userId, nowMs } = terms;
  const { externalRef, times } = part;
  const pack = part.pack === null ? null : terms.packOf(part.pack);
  if (pack === null || pack.archivedAtMs !== null) return "no_pack";
  const isOnce = pack.items.length > 0;
  const quantity = pack.unit === null ? null : quantityOf(part, pack.unit, terms.currency);
  if (typeof quantity === "string") return quantity;
  if (isOnce && times.numerator > TIMES_MAX * times.denominator) return "quantity";
  const isOver = part.expiresAtMs !== undefined && part.expiresAtMs <= nowMs;
  const expiresAt = isOver ? (part.elseExpiresAtMs ?? part.expiresAtMs) : part.expiresAtMs;
  const common = {
    userId,
    packId: pack.id,
    externalRef,
    notes: terms.note,
    source: "purchase" as const,
    cause: "payment" as const,
  };
  // A share below one step makes no balance.
  const isShare = !("amount" in part.quantity) && Number(part.quantity.units) > 0 && times.numerator > 0n;
  const isNothing = !isOnce && quantity === 0 && isShare;
  try {
    const input = { ...common, quantity: isNothing ? 1 : quantity, expiresAt };
    const planned = planGrant(input, pack, nowMs, terms.newId);
    if (isNothing) return { ...planned, balances: [] };
    return isOnce ? (multiplyGrant(planned, times) ?? "quantity") : planned;
  } catch (error) {
    if (!(error instanceof PurserError)) throw error;
    return error.code === "invalid_quantity" ? "quantity" : "period_over";
  }
}

/** The quantity of a legacy pack of a unit, rounded down to a step. */
export function quantityOf(
  { quantity, times }: Pick<OfferPart, "quantity" | "times">,
  unit: Unit,
  currency: string,
): number | Reason {
  if ("amount" in quantity) {
    if (unit !== "cents") return "quantity";
    return quantity.amount.currency === currency ? (quantity.amount.goods ?? 0) : "currency";
  }
  const { units } = quantity;
  if (typeof units === "string" && !DECIMAL.test(units)) return "quantity";
  const steps = toSteps(unit, Number(units));
  if (steps === null) return "quantity";
  // `planGrant` refuses amounts beyond the unit's maximum.
  return fromSteps(unit, Number(shareOf(steps, times)) as Steps);
}

const shareOf = (steps: number, { numerator, denominator }: Fraction): bigint =>
  (BigInt(steps) * numerator) / denominator;

/** The balances of a pack with items times a factor, without empty ones. Null when one exceeds its unit's maximum. */
function multiplyGrant(grant: NewBalances, times: Fraction): NewBalances | null {
  const balances = grant.balances.map((balance) => {
    const steps = Number(shareOf(balance.amountSteps, times)) as Steps;
    return { ...balance, amountSteps: toSteps(balance.unit, fromSteps(balance.unit, steps)) };
  });
  const isExact = (balance: (typeof balances)[number]): balance is typeof balance & { amountSteps: Steps } =>
    balance.amountSteps !== null;
  if (!balances.every(isExact)) return null;
  return { ...grant, balances: balances.filter(({ amountSteps }) => amountSteps > 0) };
}
