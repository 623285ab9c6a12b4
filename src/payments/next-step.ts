import { type Offer, offersOf, type Reason } from "./offer.ts";
import type { StripeSetting } from "./setting.ts";
import { motionOf, type PaymentState } from "./state.ts";
import type { Outcome, StoredPayment } from "./stored-payment.ts";

/** What is to be done with a payment next. Each step is one batch. */
export type Step =
  | { readonly kind: "grant"; readonly userId: string; readonly offers: readonly Offer[] }
  /** The balances that one account has of the payment are brought to what is due. `isLast`: no other account has any. */
  | { readonly kind: "bring"; readonly accountId: number; readonly isLast: boolean }
  | ({ readonly kind: "store"; readonly outcome: Outcome } & Standing)
  | { readonly kind: "none" };

/** How a payment stands. */
export type Standing =
  | { readonly status: "granted" | "waiting"; readonly reason: null }
  | { readonly status: "unmatched"; readonly reason: string };

/** Who may be granted something, and what. */
export interface Granting {
  readonly setting: Pick<StripeSetting, "prices">;
  /** Whether it may grant: a refund of what nobody could grant does not. */
  readonly mayGrant: boolean;
  /** Whom the administrator grants it instead. */
  readonly settle?: { readonly userId: string } | undefined;
}

/** What the payment would grant now. None where it may not, or has granted. */
export function offersNow({ facts, grants, customerUser }: PaymentState, granting: Granting): readonly Offer[] {
  const { mayGrant, settle, setting } = granting;
  if (!mayGrant || grants.length > 0) return [];
  if (settle !== undefined) return [{ userId: settle.userId, parts: [], hasMore: false }];
  return offersOf(facts, setting, customerUser);
}

/** Says what is to be done next. `refusal` is why its grant was refused just now. */
export function nextStep(state: PaymentState, offers: readonly Offer[], refusal: Reason | null): Step {
  const userId = offers.find((offer) => offer.userId !== null)?.userId ?? null;
  if (userId !== null && refusal === null) return { kind: "grant", userId, offers };
  const unsettled = state.grants.filter((grant) => motionOf(grant, state.money) !== null);
  const [accountId, ...others] = new Set(unsettled.map((grant) => grant.accountId));
  if (accountId !== undefined) return { kind: "bring", accountId, isLast: others.length === 0 };
  return storeNews(state, offers, refusal);
}

/** Stores what is new where no credits move. */
function storeNews({ known, grants, isChanged }: PaymentState, offers: readonly Offer[], refusal: Reason | null): Step {
  const standing = standingOf({ known, grants }, offers, refusal);
  const [before] = known;
  const isNews = standing.status !== before?.status || standing.reason !== before.reason;
  if (!isChanged && !isNews) return { kind: "none" };
  const isLeft = standing.status === "unmatched" && isNews;
  return { kind: "store", outcome: isLeft ? "unmatched" : "remembered", ...standing };
}

function standingOf(
  { known, grants }: { readonly known: readonly StoredPayment[]; readonly grants: readonly unknown[] },
  offers: readonly Offer[],
  refusal: Reason | null,
): Standing {
  if (grants.length > 0) return GRANTED;
  const isErased = known.some(({ reason }) => reason === "person_erased");
  const forNobody = isErased ? "person_erased" : "no_user";
  const before = known.find(({ reason }) => reason !== null)?.reason ?? null;
  const reason = refusal ?? (offers.length > 0 ? forNobody : before);
  return reason === null ? { status: "waiting", reason } : { status: "unmatched", reason };
}

export const GRANTED: Standing = { status: "granted", reason: null };
