import { fromSteps, toSteps, type Unit } from "../amounts/amount.ts";
import { BALANCES_MAX } from "../credits/grant.ts";
import { planGrant } from "../credits/new-balances.ts";
import type { Steps } from "../db/schema.ts";
import { PurserError } from "../errors.ts";
import type { NewBalances } from "../ledger/insert-entries.ts";
import type { Pack } from "../packs/find.ts";
import { type Fact, factsOf, type InvoiceFact, type InvoiceLine, type SessionFact } from "./facts.ts";
import type { PriceSetting, StripeSetting } from "./setting.ts";

/** Why a payment grants nothing (S3). */
export const REASONS = [
  "no_user",
  "no_pack",
  "quantity",
  "currency",
  "period_over",
  "lines_missing",
  "person_erased",
  "quota",
] as const;
export type Reason = (typeof REASONS)[number];

/** What a payment would grant, and to whom. */
export interface Offer {
  readonly userId: string | null;
  /** What is bought, in the order of its lines. */
  readonly parts: readonly OfferPart[];
  readonly hasMore: boolean;
}

export interface OfferPart {
  readonly externalRef: string;
  /** A pack's id or name. Null: none is named. */
  readonly pack: string | null;
  /** The balances of a pack with items are so many times its amounts. */
  readonly times: number;
  /** The quantity of a legacy pack. `amount` stands for what was paid, in cents of the setting's currency. */
  readonly quantity: { readonly units: string | number } | { readonly amount: SessionFact["data"] };
  /** When its balances expire. Undefined: as the pack says. */
  readonly expiresAtMs: number | undefined;
}

/** The references of what a payment granted begin so. No caller may give such a reference (C21). */
export const refOf = (...parts: readonly string[]): string => ["stripe", ...parts].join(":");

/** What a payment may grant by what Stripe said of it, a session before an invoice. None for another product's. */
export function offersOf(
  facts: readonly Fact[],
  { prices }: Pick<StripeSetting, "prices">,
  customerUser: string | null,
): readonly Offer[] {
  return [
    ...factsOf(facts, "session").map(ofSession),
    ...factsOf(facts, "invoice").flatMap((invoice) => ofInvoice(invoice, prices, customerUser) ?? []),
  ];
}

function ofSession({ userId, data }: SessionFact): Offer {
  const quantity = data.quantity === null ? { amount: data } : { units: data.quantity };
  const part = { externalRef: refOf(data.ref), pack: data.pack, times: 1, quantity, expiresAtMs: undefined };
  return { userId, parts: [part], hasMore: false };
}

function ofInvoice(invoice: InvoiceFact, prices: readonly PriceSetting[], customerUser: string | null): Offer | null {
  const { lines, hasMore, isSubscription } = invoice.data;
  const bought = lines.flatMap((line) => {
    const price = prices.find((candidate) => candidate.price === line.price);
    return price === undefined || line.amount < 0 || line.isProration ? [] : [{ line, price }];
  });
  if (bought.length === 0 && !(hasMore && prices.length > 0)) return null;
  const parts = bought.map(({ line, price }) => partOf(invoice.id, line, price));
  return { userId: invoice.userId ?? (isSubscription ? customerUser : null), parts, hasMore };
}

function partOf(invoiceId: string, line: InvoiceLine, price: PriceSetting): OfferPart {
  const hasPeriod = price.expires === "period" && line.end > line.start;
  return {
    externalRef: refOf(invoiceId, line.id),
    pack: price.packId,
    times: line.quantity ?? 1,
    quantity: { units: price.quantity ?? "" },
    expiresAtMs: hasPeriod ? line.end * 1_000 : undefined,
  };
}

const TIMES_MAX = 100;
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
}

/** The balances of an offer, or why there are none. */
export function planOffer(offer: Offer, terms: GrantTerms): readonly NewBalances[] | Reason {
  if (offer.userId === null) return "no_user";
  const { userId } = offer;
  const grants: NewBalances[] = [];
  let count = 0;
  for (const part of offer.parts) {
    const pack = part.pack === null ? null : terms.packOf(part.pack);
    if (pack === null || pack.archivedAtMs !== null) return "no_pack";
    const quantity = pack.unit === null ? null : quantityOf(part, pack.unit, terms.currency);
    if (typeof quantity === "string") return quantity;
    if (pack.items.length > 0 && !(part.times >= 1 && part.times <= TIMES_MAX)) return "quantity";
    const { externalRef, expiresAtMs } = part;
    const input = { userId, packId: pack.id, externalRef, notes: terms.note, source: "purchase" as const, quantity };
    const first = count;
    const idOf = (index: number) => terms.newId(first + index);
    try {
      const planned = planGrant({ ...input, expiresAt: expiresAtMs }, pack, terms.nowMs, idOf);
      const grant = pack.items.length > 0 ? timesOf(planned, part.times) : planned;
      if (grant === null) return "quantity";
      grants.push(grant);
      count += grant.balances.length;
      if (count > BALANCES_MAX) return "quota";
    } catch (error) {
      if (!(error instanceof PurserError)) throw error;
      return error.code === "invalid_quantity" ? "quantity" : "period_over";
    }
  }
  return offer.hasMore ? "lines_missing" : grants;
}

/** The quantity of a legacy pack of a unit. */
export function quantityOf(
  { quantity, times }: Pick<OfferPart, "quantity" | "times">,
  unit: Unit,
  currency: string,
): number | Reason {
  if ("amount" in quantity) {
    if (unit !== "cents") return "quantity";
    return quantity.amount.currency === currency ? (quantity.amount.subtotal ?? 0) : "currency";
  }
  const { units } = quantity;
  if (typeof units === "string" && !DECIMAL.test(units)) return "quantity";
  const steps = toSteps(unit, Number(units));
  if (steps === null) return "quantity";
  const product = BigInt(steps) * BigInt(times);
  // What is too large for a unit is refused by `planGrant`.
  return fromSteps(unit, Number(product) as Steps);
}

/** Balances of a pack with items, so many times. Null when one is larger than its unit allows. */
function timesOf(grant: NewBalances, times: number): NewBalances | null {
  const balances = grant.balances.map((balance) => {
    const amount = toSteps(balance.unit, fromSteps(balance.unit, (balance.amountSteps * times) as Steps));
    return { ...balance, amountSteps: amount };
  });
  const isExact = (balance: (typeof balances)[number]): balance is typeof balance & { amountSteps: Steps } =>
    balance.amountSteps !== null;
  return balances.every(isExact) ? { ...grant, balances } : null;
}
