import { type Fact, filterFacts, type InvoiceFact, joinFacts } from "./facts.ts";
import { deriveMoney, type MoneyState } from "./money.ts";
import type { StoredGrant, StoredPayment } from "./stored-payment.ts";
import type { PaymentChange } from "./stripe-event.ts";

/** A payment joined with an event. Several stored payments may turn out to be this one. */
export interface PaymentState {
  /** The stored payments. The first is the oldest, into which the others are merged. */
  readonly known: readonly StoredPayment[];
  readonly names: readonly string[];
  readonly facts: readonly Fact[];
  readonly grants: readonly StoredGrant[];
  /** The Stripe customer to store. */
  readonly customer: string | null;
  /** The customer who pays the invoice, whether it is stored or not. */
  readonly payerOf: string | null;
  readonly customerUser: string | null;
  readonly money: MoneyState;
  /** Whether there is something to store. */
  readonly isChanged: boolean;
}

const compareAge = (a: StoredPayment, b: StoredPayment): number =>
  a.createdAtMs - b.createdAtMs || (a.id < b.id ? -1 : 1);

/** Joins the stored payments with an event's data. */
export function derivePaymentState(
  rows: readonly StoredPayment[],
  change: Pick<PaymentChange, "names" | "facts" | "customer">,
  customerUser: string | null,
): PaymentState {
  const known = rows.toSorted(compareAge);
  const stored = known.reduce<readonly Fact[]>((facts, payment) => joinFacts(facts, payment.facts), []);
  const facts = joinFacts(stored, change.facts);
  const storedNames = known.flatMap(({ names }) => names);
  const names = [...new Set([...storedNames, ...change.names])];
  const storedCustomer = known.map(({ customer }) => customer).find((customer) => customer !== null) ?? null;
  const grants = withSurplus(known);
  // A payment whose invoice was settled no longer needs its customer, and an erased person's customer is not stored again (E4).
  const isSettled =
    grants.length > 0 ||
    filterFacts(stored, "account").length > 0 ||
    known.some(({ reason }) => reason === "person_erased");
  const customer = isSettled ? storedCustomer : (change.customer ?? storedCustomer);
  return {
    ...{ known, names, facts, customer, grants },
    payerOf: change.customer ?? storedCustomer,
    customerUser: customerUser ?? known.find((payment) => payment.customerUser !== null)?.customerUser ?? null,
    money: deriveMoney(facts),
    isChanged:
      known.length !== 1 ||
      names.length > storedNames.length ||
      customer !== storedCustomer ||
      facts.some((fact) => !stored.includes(fact)),
  };
}

/** Returns the invoice of a payment that has not changed the carry of its customer yet. */
export function openInvoice({ facts, grants }: Pick<PaymentState, "facts" | "grants">): InvoiceFact | null {
  const accounts = filterFacts(facts, "account");
  const open = filterFacts(facts, "invoice").find(({ id }) => !accounts.some((account) => account.id === id));
  return grants.length > 0 ? null : (open ?? null);
}

/**
 * Whether an invoice of no subscription waits until it is known which payment intent paid it (S3). Otherwise a session of the same
 * payment might be granted beside it.
 */
export const isWaiting = (
  { names }: Pick<PaymentState, "names">,
  { id, data }: InvoiceFact,
  facts: readonly Fact[],
): boolean =>
  !data.isSubscription &&
  data.isPaidAtStripe &&
  names.every((name) => name === id) &&
  filterFacts(facts, "invoice_payment").length === 0;

/** A payment is granted once. If two payments turn out to be one, the later grant must be taken back completely. */
function withSurplus(known: readonly StoredPayment[]): readonly StoredGrant[] {
  const firstOf = ({ grants }: StoredPayment) => Math.min(...grants.map(({ grantedAtMs }) => grantedAtMs));
  const [first] = known
    .filter(({ grants }) => grants.some(({ isSurplus }) => isSurplus === 0))
    .toSorted((a, b) => firstOf(a) - firstOf(b) || compareAge(a, b));
  return known.flatMap((payment) =>
    payment.grants.map((grant) => ({ ...grant, isSurplus: payment === first ? grant.isSurplus : (1 as const) })),
  );
}

const KINDS = ["pi_", "cs_", "in_"];
const kindOf = (name: string): number => {
  const index = KINDS.findIndex((prefix) => name.startsWith(prefix));
  return index === -1 ? KINDS.length : index;
};

/** Returns the Stripe ids in display order. The first is the payment's key: its payment intent, if it has one. */
export function namesInOrder(names: readonly string[]): readonly string[] {
  return names.toSorted((a, b) => kindOf(a) - kindOf(b) || (a < b ? -1 : 1));
}

export function shownKey(names: readonly string[]): string {
  return namesInOrder(names)[0] ?? "";
}
