import { invoiceOf } from "./line.ts";
import type { Offer, Reason } from "./offer.ts";
import { offersOf } from "./offers.ts";
import { type AccountPlan, type Books, isEmptyPlan, planAccount } from "./plan.ts";
import type { DebtTerms } from "./plan-lines.ts";
import type { StripeSetting } from "./setting.ts";
import type { PaymentState } from "./state.ts";
import type { Outcome, StoredPayment } from "./stored-payment.ts";

/** What is to be done with a payment next. Each step is one batch. */
export type Step =
  | { readonly kind: "grant"; readonly userId: string; readonly offers: readonly Offer[] }
  /** An account's balances, lines and debts are brought to what is due. `isLast`: nothing else is. */
  | {
      readonly kind: "bring";
      readonly accountId: number;
      readonly deficits: ReadonlyMap<string, number>;
      readonly isLast: boolean;
    }
  /** Payments must be read too: their lines get back what they paid of debts. */
  | { readonly kind: "read"; readonly names: readonly string[] }
  | ({ readonly kind: "store"; readonly outcome: Outcome } & Standing)
  | { readonly kind: "none" };

/** How a payment stands. */
export type Standing =
  | { readonly status: "granted" | "waiting"; readonly reason: null }
  | { readonly status: "unmatched"; readonly reason: string };

/** Who may be granted something, and what. */
export interface Granting {
  readonly setting: Pick<StripeSetting, "prices" | "currency">;
  /** Whether it may grant: a refund of what nobody could grant does not. */
  readonly mayGrant: boolean;
  /** Whom the administrator grants it instead. */
  readonly settle?: { readonly userId: string } | undefined;
}

/** What the payment would grant now. None where it may not, or has granted. */
export function offersNow({ facts, grants, customerUser }: PaymentState, granting: Granting): readonly Offer[] {
  const { mayGrant, settle, setting } = granting;
  if (!mayGrant || grants.length > 0) return [];
  if (settle !== undefined) return [{ userId: settle.userId, parts: [], flaw: null }];
  return offersOf(facts, setting, customerUser);
}

/** Why a payment was not granted just now. `trial_over`, or `nothing` for less than a step: it holds nothing up. */
export type Refusal = Reason | "trial_over" | "nothing";

/** Says what is to be done next. `refusal` is why its grant was refused just now. The first payment of the books is the event's. */
export function nextStep(books: Books, offers: readonly Offer[], refusal: Refusal | null, terms: DebtTerms): Step {
  const [own] = books.payments;
  const userId = refusal === null ? (offers.find((offer) => offer.userId !== null)?.userId ?? null) : null;
  const grants = books.payments.flatMap((payment) => payment.grants);
  const accounts = new Map(grants.map((grant) => [grant.accountId, grant.userId]));
  const pending = [...accounts]
    .map(([accountId, user]) => ({ accountId, user, plan: planAccount(books, { ...terms, accountId }) }))
    .filter(({ plan }) => !isEmptyPlan(plan));
  const blocked = pending.find(({ plan }) => plan.needs.length > 0);
  if (blocked !== undefined) return stepFor(books, blocked.plan);
  // Of other users first, so that the event's own payment is written last.
  const others = pending.filter(({ user }) => user !== userId);
  const [first] = others;
  if (first !== undefined) {
    const isLast = others.length === 1 && offers.length === 0;
    return { kind: "bring", accountId: first.accountId, deficits: new Map(), isLast };
  }
  if (userId !== null) return { kind: "grant", userId, offers };
  return own === undefined ? { kind: "none" } : storeNews(own, books, offers, refusal);
}

/** Lines of others must get back what they paid of a debt before it falls. */
function stepFor(books: Books, { needs, deficits }: AccountPlan): Step {
  const lines = books.payments.flatMap(({ grants }) => grants);
  const payer = lines.find(({ line }) => line !== null && needs.includes(line));
  if (payer === undefined) return { kind: "read", names: needs.map(invoiceOf) };
  return { kind: "bring", accountId: payer.accountId, deficits, isLast: false };
}

/** Stores what is new where no credits move. */
function storeNews(own: PaymentState, books: Books, offers: readonly Offer[], refusal: Refusal | null): Step {
  const standing = standingOf(own, offers, refusal);
  const [before] = own.known;
  const isNews = standing.status !== before?.status || standing.reason !== before.reason;
  if (!books.payments.some(({ isChanged }) => isChanged) && !isNews) return { kind: "none" };
  const isOfTrial = refusal === "trial_over" && before === undefined && books.payments.length === 1;
  if (isOfTrial) return { kind: "none" };
  const isLeft = standing.status === "unmatched" && isNews;
  return { kind: "store", outcome: isLeft ? "unmatched" : "remembered", ...standing };
}

/** How a payment stands that its event does not grant. */
export function standingOfKnown({ known, grants }: Pick<PaymentState, "known" | "grants">): Standing {
  return standingOf({ known, grants }, [], null);
}

function standingOf(
  { known, grants }: { readonly known: readonly StoredPayment[]; readonly grants: readonly unknown[] },
  offers: readonly Offer[],
  refusal: Refusal | null,
): Standing {
  if (grants.length > 0) return GRANTED;
  if (refusal === "trial_over" || refusal === "nothing") return { status: "waiting", reason: null };
  const isErased = known.some(({ reason }) => reason === "person_erased");
  const forNobody = isErased ? "person_erased" : "no_user";
  const before = known.find(({ reason }) => reason !== null)?.reason ?? null;
  const reason = refusal ?? (offers.length > 0 ? forNobody : before);
  return reason === null ? { status: "waiting", reason } : { status: "unmatched", reason };
}

export const GRANTED: Standing = { status: "granted", reason: null };
