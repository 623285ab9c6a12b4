import type { FractionText } from "../books/amounts/fraction.ts";

/**
 * The latest data from Stripe about an object of a payment. Facts may be joined in any order and repeatedly, with the same result: the
 * newer `created` wins, and within a second the fact that S2 names.
 */
interface FactOf<Kind extends string, Data> {
  readonly kind: Kind;
  /** The id of the object at Stripe. */
  readonly id: string;
  /** `created` of the event, in seconds. */
  readonly at: number;
  /** The user that the object names. Only sessions, intents and invoices name a user. */
  readonly userId: string | null;
  readonly data: Data;
}

/** A paid checkout session. Amounts are in the currency's smallest unit, as everywhere at Stripe. */
export type SessionFact = FactOf<
  "session",
  {
    readonly pack: string | null;
    readonly quantity: string | null;
    /** The amount paid for the goods: after discounts, without tax and shipping. */
    readonly goods: number | null;
    readonly total: number | null;
    readonly currency: string | null;
    /** Its payment intent, or its id if it has none. */
    readonly ref: string;
  }
>;

/** A payment intent that names its pack and its user. `goods` and `total` are the received amount. */
export type IntentFact = FactOf<"intent", SessionFact["data"]>;

export interface InvoiceLine {
  readonly id: string;
  readonly price: string | null;
  readonly quantity: number | null;
  /** Before discounts. */
  readonly amount: number;
  /** After discounts, without the tax that is added to it. */
  readonly net: number;
  /** The tax that is added to `net`. */
  readonly tax: number;
  /** The full amount of one unit, if the line has it in the invoice's currency. */
  readonly unitAmount: number | null;
  readonly isProration: boolean;
  /** In seconds. */
  readonly start: number;
  readonly end: number;
}

export type InvoiceFact = FactOf<
  "invoice",
  {
    readonly isSubscription: boolean;
    readonly lines: readonly InvoiceLine[];
    readonly hasMore: boolean;
    /** When Stripe created the invoice, in seconds. */
    readonly created: number;
    readonly paid: number;
    /** Whether a payment intent or a charge paid a part of it. */
    readonly isPaidAtStripe: boolean;
    readonly total: number;
    readonly totalWithoutTax: number;
    readonly currency: string;
  }
>;

/**
 * How an invoice changed the carry of its customer (S6). Purser makes this fact once, in the batch in which the carry changes. Its id
 * is the invoice's.
 */
export type AccountFact = FactOf<
  "account",
  {
    readonly bought: number;
    readonly returned: number;
    /** The amount that the carry took of the invoice. */
    readonly carried: number;
    /** The same with its tax, as an exact fraction. */
    readonly carriedWithTax: FractionText;
  }
>;

/** The part of an invoice that a payment intent paid. Its id is the intent's, or the charge's. */
type InvoicePaymentFact = FactOf<"invoice_payment", { readonly paid: number; readonly currency: string }>;

/** `of` is the charge's payment intent, or the charge if it has none. */
type ChargeFact = FactOf<
  "charge",
  { readonly of: string; readonly refunded: number; readonly captured: number; readonly currency: string }
>;

type RefundFact = FactOf<
  "refund",
  {
    readonly charge: string | null;
    readonly of: string;
    readonly amount: number;
    /** The earliest `created` of an event that reported its failure. Null if no event did. */
    readonly failedAt: number | null;
    readonly isFailed: boolean;
  }
>;

type DisputeFact = FactOf<
  "dispute",
  {
    readonly charge: string;
    readonly of: string;
    readonly amount: number;
    /** The part of `amount` that is withheld now, as an exact fraction. */
    readonly out: FractionText;
    readonly currency: string;
    readonly isReinstated: boolean;
  }
>;

export type Fact =
  | SessionFact
  | IntentFact
  | InvoiceFact
  | AccountFact
  | InvoicePaymentFact
  | ChargeFact
  | RefundFact
  | DisputeFact;

/** Returns the rank of a fact among facts of one second. The highest rank wins. */
function rank(fact: Fact): number {
  switch (fact.kind) {
    case "charge":
      return fact.data.refunded;
    case "refund":
      return fact.data.isFailed ? 1 : 0;
    case "dispute":
      return fact.data.isReinstated ? 1 : 0;
    default:
      return 0;
  }
}

const isNewer = (fact: Fact, known: Fact): boolean =>
  fact.at > known.at || (fact.at === known.at && rank(fact) > rank(known));

/** Keeps the earliest known time of a refund's failure. */
function withFailure(fact: Fact, other: Fact): Fact {
  if (fact.kind !== "refund" || other.kind !== "refund") return fact;
  const moments = [fact.data.failedAt, other.data.failedAt].filter((at) => at !== null);
  const failedAt = moments.length === 0 ? null : Math.min(...moments);
  return failedAt === fact.data.failedAt ? fact : { ...fact, data: { ...fact.data, failedAt } };
}

const factKey = ({ kind, id }: Fact): string => `${kind} ${id}`;

/** Joins facts. A known fact without newer data is returned as the same object. */
export function joinFacts(known: readonly Fact[], more: readonly Fact[]): readonly Fact[] {
  const facts = new Map(known.map((fact) => [factKey(fact), fact]));
  for (const fact of more) {
    const before = facts.get(factKey(fact));
    const after =
      before === undefined ? fact : isNewer(fact, before) ? withFailure(fact, before) : withFailure(before, fact);
    facts.set(factKey(fact), after);
  }
  return [...facts.values()];
}

/** Returns the facts of one kind. */
export function filterFacts<Kind extends Fact["kind"]>(facts: readonly Fact[], kind: Kind) {
  return facts.filter((fact): fact is Extract<Fact, { kind: Kind }> => fact.kind === kind);
}

export const withoutUser = (fact: Fact): Fact => (fact.userId === null ? fact : { ...fact, userId: null });

/** Returns a fact without what its object asked for: the user, and the pack and the quantity of its metadata. */
export function withoutAsked(fact: Fact): Fact {
  if (fact.kind !== "session" && fact.kind !== "intent") return withoutUser(fact);
  // TypeScript does not narrow a union that is spread.
  return { ...fact, userId: null, data: { ...fact.data, pack: null, quantity: null } } as Fact;
}
