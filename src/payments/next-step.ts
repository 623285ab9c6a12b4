import { ONE } from "../books/amounts/fraction.ts";
import type { PaymentBalanceChange } from "../books/ledger/insert-clawbacks.ts";
import type { NewBalance } from "../books/ledger/new-balances.ts";
import type { Minor } from "../db/schema.ts";
import { filterFacts } from "./facts.ts";
import { calculateDue } from "./money.ts";
import { isCovered, type Offer, type PayerTerms, readOffers } from "./offer.ts";
import type { PaymentOutcome } from "./outcomes.ts";
import type { FreeOver, PlannedOffer } from "./plan-offer.ts";
import type { Reason, StatusReason } from "./reasons.ts";
import { isWaiting, openInvoice, type PaymentState } from "./state.ts";
import type { StoredGrant, StoredPayment } from "./stored-payment.ts";
import type { StripeSetting } from "./stripe-setting.ts";

/** The next step for a payment. Each step is one batch. */
export type Step =
  | { readonly kind: "grant"; readonly userId: string; readonly offers: readonly Offer[] }
  /** Adjusts an account's balances to the amounts due. `isLast`: no step follows. */
  | { readonly kind: "adjust"; readonly accountId: number; readonly isLast: boolean }
  /** `planned`: an invoice that its customer's credit covers. */
  | { readonly kind: "store"; readonly effect: Effect; readonly planned: PlannedOffer | null }
  | { readonly kind: "none"; readonly reason: FreeOver | "price_not_set" | null };

/** The status of a payment. */
export type PaymentStatusAndReason = {
  readonly status: StoredPayment["status"];
  readonly reason: StatusReason | null;
};
/** The status of a payment after an event, and what the event did. */
export type Effect = PaymentStatusAndReason & { readonly outcome: PaymentOutcome };

/** The terms on which a payment may grant. */
export interface Granting {
  readonly setting: Pick<StripeSetting, "prices" | "currency">;
  /** Whether the event may grant. For example, the refund of a payment that granted nothing may not. */
  readonly mayGrant: boolean;
  /** The user whom the administrator chose, instead of the user in Stripe's data. */
  readonly settle?: { readonly userId: string } | undefined;
}

/** Returns the grants that the payment would make now. None if it may not grant, has granted, or waits. */
export function offersNow(state: PaymentState, granting: Granting, payer: PayerTerms["payer"]): readonly Offer[] {
  const { facts, grants, customerUser } = state;
  const { mayGrant, settle, setting } = granting;
  if (!mayGrant || grants.length > 0) return [];
  if (settle !== undefined) return [{ userId: settle.userId, parts: [], account: null, rejectionReason: null }];
  const accounts = filterFacts(facts, "account");
  const offering = facts.filter(
    (fact) => fact.kind !== "invoice" || !(accounts.some(({ id }) => id === fact.id) || isWaiting(state, fact, facts)),
  );
  return readOffers(offering, setting, { customerUser, payer });
}

/** Why a payment grants nothing now. A trial or a coupon that is over does not make it unmatched. */
export type Rejection = Reason | FreeOver;
const isFreeOver = (rejection: Rejection | null): rejection is FreeOver =>
  rejection === "trial_over" || rejection === "coupon_over";

/** Returns the next step. `rejection` is the reason why the grant was just rejected. */
export function nextStep(
  state: PaymentState,
  offers: readonly Offer[],
  rejection: Rejection | null,
  { mayGrant }: Pick<Granting, "mayGrant">,
): Step {
  const userId = rejection === null ? (offers.find((offer) => offer.userId !== null)?.userId ?? null) : null;
  const accounts = new Map(state.grants.map((grant) => [grant.accountId, grant.userId]));
  const pending = [...accounts].filter(
    ([accountId, user]) => user !== userId && planChanges(state, grantsToAccount(state, accountId)).length > 0,
  );
  const [first] = pending;
  if (first !== undefined) {
    return { kind: "adjust", accountId: first[0], isLast: pending.length === 1 && offers.length === 0 };
  }
  if (userId !== null) return { kind: "grant", userId, offers };
  const covered = rejection === null || rejection === "person_erased" ? offers.find(isCovered) : undefined;
  if (covered !== undefined) {
    const planned = { grants: [], account: covered.account, marks: { prices: [], trials: [], couponUntil: 0 } };
    return { kind: "store", effect: planEffect(planned), planned };
  }
  return mayGrant && offers.length === 0 && isOfAnotherProduct(state)
    ? { kind: "none", reason: "price_not_set" }
    : storeChanges(state, offers, rejection);
}

export const grantsToAccount = ({ grants }: PaymentState, accountId: number | null) =>
  grants.filter((grant) => grant.accountId === accountId);

/** Whether an invoice that is not stored yet offers nothing. */
function isOfAnotherProduct(state: PaymentState): boolean {
  const invoice = openInvoice(state);
  if (invoice === null || isWaiting(state, invoice, state.facts)) return false;
  return !state.known.some(({ facts }) => filterFacts(facts, "invoice").some(({ id }) => id === invoice.id));
}

/** Returns the effect of an offer's grants. */
export function planEffect({ grants, account }: PlannedOffer): Effect {
  const isCarryTooLarge = account?.isCarryTooLarge === true;
  if (grants.length > 0) return { status: "granted", reason: isCarryTooLarge ? "carry" : null, outcome: "granted" };
  if (isCarryTooLarge) return { status: "unmatched", reason: "carry", outcome: "unmatched" };
  // The money buys less than a step.
  if (account === null || account.paidFor > 0n) return { status: "granted", reason: null, outcome: "remembered" };
  const outcome = account.fact.data.bought === 0 ? "remembered" : "ignored";
  return { status: "granted", reason: "covered_by_credit", outcome };
}

/** Returns the step that stores changes without credits. */
function storeChanges(state: PaymentState, offers: readonly Offer[], rejection: Rejection | null): Step {
  const next = findPaymentStatus(state, offers, rejection);
  const [before] = state.known;
  const hasNewStatus = next.status !== before?.status || next.reason !== before.reason;
  const reason = isFreeOver(rejection) ? rejection : null;
  if (!state.isChanged && !hasNewStatus) return { kind: "none", reason };
  if (reason !== null && before === undefined) return { kind: "none", reason };
  const becomesUnmatched = next.status === "unmatched" && hasNewStatus;
  const effect = { ...next, outcome: becomesUnmatched ? ("unmatched" as const) : ("remembered" as const) };
  return { kind: "store", effect, planned: null };
}

/** Returns the status of a payment for which the event grants nothing. */
export const statusOfKnown = (state: PaymentState): PaymentStatusAndReason => findPaymentStatus(state, [], null);

function findPaymentStatus(
  { known, grants, facts }: PaymentState,
  offers: readonly Offer[],
  rejection: Rejection | null,
): PaymentStatusAndReason {
  const accounted = known.find((payment) => filterFacts(payment.facts, "account").length > 0);
  if (grants.length > 0) {
    const isTooLarge = accounted?.status === "granted" && accounted.reason === "carry";
    return { status: "granted", reason: isTooLarge ? "carry" : null };
  }
  // An invoice that changed the carry grants nothing any more.
  if (accounted !== undefined && filterFacts(facts, "session").length === 0) {
    return { status: accounted.status, reason: accounted.reason };
  }
  if (isFreeOver(rejection)) return { status: "waiting", reason: null };
  const isErased = known.some(({ reason }) => reason === "person_erased");
  const withoutUser = isErased ? "person_erased" : "no_user";
  const before = known.find(({ reason }) => reason !== null)?.reason ?? null;
  const reason = rejection ?? (offers.length > 0 ? withoutUser : before);
  return reason === null ? { status: "waiting", reason } : { status: "unmatched", reason };
}

/** The fields of a payment's balance on which its change depends. */
export type ChangedGrant = Pick<StoredGrant, "balanceId" | "initialMinor" | "dueMinor" | "isSurplus">;

/** Returns a balance that the batch issues. Nothing is due back from it yet. */
export const newGrant = ({ id, amountMinor }: NewBalance): ChangedGrant => ({
  ...{ balanceId: id, initialMinor: amountMinor, dueMinor: 0 as Minor, isSurplus: 0 },
});

/** Returns the changes that bring balances from what was due back to what is due now (S4), those that take first. */
export function planChanges(
  { money }: Pick<PaymentState, "money">,
  grants: readonly ChangedGrant[],
): PaymentBalanceChange[] {
  const changes = grants.flatMap(({ balanceId, initialMinor, dueMinor: before, isSurplus }) => {
    const dueMinor = calculateDue(initialMinor, isSurplus === 1 ? ONE : money.share);
    if (dueMinor === before) return [];
    return [{ balanceId, dueMinor, isWhole: dueMinor === initialMinor, isMore: dueMinor > before }];
  });
  return changes.toSorted((a, b) => Number(b.isMore) - Number(a.isMore));
}
