import { invoiceOf } from "./line.ts";
import { type Offer, offersOf } from "./offer.ts";
import { type AccountPlan, type Books, isEmptyPlan, planAccount } from "./plan.ts";
import type { DebtTerms } from "./plan-lines.ts";
import type { Reason } from "./reasons.ts";
import type { PaymentState } from "./state.ts";
import type { PaymentOutcome, StoredPayment } from "./stored-payment.ts";
import type { StripeSetting } from "./stripe-setting.ts";

/** The next step for a payment. Each step is one batch. */
export type Step =
  | { readonly kind: "grant"; readonly userId: string; readonly offers: readonly Offer[] }
  /** Adjusts an account's balances, lines and debts to the amounts due. `isLast`: no step follows. */
  | {
      readonly kind: "adjust";
      readonly accountId: number;
      readonly deficits: ReadonlyMap<string, number>;
      readonly isLast: boolean;
    }
  /** Reads further payments, because their lines get back the debts that they paid. */
  | { readonly kind: "read"; readonly names: readonly string[] }
  | ({ readonly kind: "store"; readonly outcome: PaymentOutcome } & PaymentStanding)
  | { readonly kind: "none" };

/** The status of a payment. */
export type PaymentStanding =
  | { readonly status: "granted" | "waiting"; readonly reason: null }
  | { readonly status: "unmatched"; readonly reason: string };

/** The terms on which a payment may grant. */
export interface Granting {
  readonly setting: Pick<StripeSetting, "prices" | "currency">;
  /** Whether the event may grant. For example, the refund of a payment that granted nothing may not. */
  readonly mayGrant: boolean;
  /** The user whom the administrator chose, instead of the user in Stripe's data. */
  readonly settle?: { readonly userId: string } | undefined;
}

/** Returns the grants that the payment would make now. None if it may not grant or has granted. */
export function offersNow({ facts, grants, customerUser }: PaymentState, granting: Granting): readonly Offer[] {
  const { mayGrant, settle, setting } = granting;
  if (!mayGrant || grants.length > 0) return [];
  if (settle !== undefined) return [{ userId: settle.userId, parts: [], flaw: null }];
  return offersOf(facts, setting, customerUser);
}

/** Why a payment grants nothing now. `trial_over` and `nothing` (less than a step) do not make it unmatched. */
export type Refusal = Reason | "trial_over" | "nothing";

/** Returns the next step. `refusal` is the reason why the grant was just refused. The first payment of the books is the event's payment. */
export function nextStep(books: Books, offers: readonly Offer[], refusal: Refusal | null, terms: DebtTerms): Step {
  const [eventPayment] = books.payments;
  const userId = refusal === null ? (offers.find((offer) => offer.userId !== null)?.userId ?? null) : null;
  const grants = books.payments.flatMap((payment) => payment.grants);
  const accounts = new Map(grants.map((grant) => [grant.accountId, grant.userId]));
  const pending = [...accounts]
    .map(([accountId, user]) => ({ accountId, user, plan: planAccount(books, { ...terms, accountId }) }))
    .filter(({ plan }) => !isEmptyPlan(plan));
  const blocked = pending.find(({ plan }) => plan.needs.length > 0);
  if (blocked !== undefined) return stepFor(books, blocked.plan);
  // Other users come first, so that the event's payment is written last.
  const others = pending.filter(({ user }) => user !== userId);
  const [first] = others;
  if (first !== undefined) {
    const isLast = others.length === 1 && offers.length === 0;
    return { kind: "adjust", accountId: first.accountId, deficits: new Map(), isLast };
  }
  if (userId !== null) return { kind: "grant", userId, offers };
  return eventPayment === undefined ? { kind: "none" } : storeChanges(eventPayment, books, offers, refusal);
}

/** Returns the step before a debt decreases: lines of other accounts must get back the part of the debt that they paid. */
function stepFor(books: Books, { needs, deficits }: AccountPlan): Step {
  const lines = books.payments.flatMap(({ grants }) => grants);
  const payer = lines.find(({ line }) => line !== null && needs.includes(line));
  if (payer === undefined) return { kind: "read", names: needs.map(invoiceOf) };
  return { kind: "adjust", accountId: payer.accountId, deficits, isLast: false };
}

/** Returns the step that stores changes without credits. */
function storeChanges(
  eventPayment: PaymentState,
  books: Books,
  offers: readonly Offer[],
  refusal: Refusal | null,
): Step {
  const standing = paymentStandingOf(eventPayment, offers, refusal);
  const [before] = eventPayment.known;
  const hasNewStanding = standing.status !== before?.status || standing.reason !== before.reason;
  if (!books.payments.some(({ isChanged }) => isChanged) && !hasNewStanding) return { kind: "none" };
  const isOfTrial = refusal === "trial_over" && before === undefined && books.payments.length === 1;
  if (isOfTrial) return { kind: "none" };
  const becomesUnmatched = standing.status === "unmatched" && hasNewStanding;
  return { kind: "store", outcome: becomesUnmatched ? "unmatched" : "remembered", ...standing };
}

/** Returns the status of a payment for which the event grants nothing. */
export function standingOfKnown({ known, grants }: Pick<PaymentState, "known" | "grants">): PaymentStanding {
  return paymentStandingOf({ known, grants }, [], null);
}

function paymentStandingOf(
  { known, grants }: { readonly known: readonly StoredPayment[]; readonly grants: readonly unknown[] },
  offers: readonly Offer[],
  refusal: Refusal | null,
): PaymentStanding {
  if (grants.length > 0) return GRANTED;
  if (refusal === "trial_over" || refusal === "nothing") return { status: "waiting", reason: null };
  const isErased = known.some(({ reason }) => reason === "person_erased");
  const withoutUser = isErased ? "person_erased" : "no_user";
  const before = known.find(({ reason }) => reason !== null)?.reason ?? null;
  const reason = refusal ?? (offers.length > 0 ? withoutUser : before);
  return reason === null ? { status: "waiting", reason } : { status: "unmatched", reason };
}

export const GRANTED: PaymentStanding = { status: "granted", reason: null };
