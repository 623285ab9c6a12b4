import type { Environment } from "../runtime.ts";
import type { Move } from "./decide.ts";
import { type Fact, withoutAsked, withoutUser } from "./facts.ts";
import { amountsOfPayment } from "./money-days.ts";
import type { Effect, Rejection } from "./next-step.ts";
import type { PlannedOffer } from "./plan-offer.ts";
import type { PaymentState } from "./state.ts";
import type { PaymentWrite } from "./store-payment.ts";

/** When a message reports a payment that is still unmatched. */
const REPORT_AFTER_MS = 10 * 60 * 1_000;

/** Why the grant of a payment was rejected, and whether it grants now. */
interface GrantAttempt {
  readonly rejection: Rejection | null;
  readonly hasGrants: boolean;
}

const isErased = (state: PaymentState, { rejection }: GrantAttempt): boolean =>
  rejection === "person_erased" || state.known.some(({ reason }) => reason === "person_erased");

/** Returns whether to store users. Balances have an account, and an erased person is not stored again (E4). */
export const keepsUsers = (state: PaymentState, grantAttempt: GrantAttempt): boolean =>
  !(grantAttempt.hasGrants || isErased(state, grantAttempt) || state.grants.length > 0);

/** Returns the facts of a payment as they are stored. */
export function factsToStore(
  state: PaymentState,
  grantAttempt: GrantAttempt,
  planned: PlannedOffer | null,
): readonly Fact[] {
  const facts = planned?.account == null ? state.facts : [...state.facts, planned.account.fact];
  if (keepsUsers(state, grantAttempt)) return facts;
  return facts.map(isErased(state, grantAttempt) ? withoutAsked : withoutUser);
}

/** A step of a payment that is to be stored. */
interface StepToStore {
  readonly environment: Environment;
  readonly nowMs: number;
  /** The id of a payment that is not stored yet. */
  readonly newId: string;
  readonly move: Move;
  readonly rejection: Rejection | null;
  /** Names this write. */
  readonly nonce: string;
  readonly effect: Effect;
  readonly planned: PlannedOffer | null;
}

/** Returns a payment as it is stored after a step. */
export function paymentToStore(state: PaymentState, step: StepToStore): PaymentWrite {
  const { environment, nowMs, nonce, planned, rejection } = step;
  const { status, reason, outcome } = step.effect;
  const { change, settle } = step.move;
  const { known, names } = state;
  const grantAttempt = { rejection, hasGrants: planned !== null && planned.grants.length > 0 };
  const facts = factsToStore(state, grantAttempt, planned);
  const isTold = status === "unmatched" || reason === "carry";
  const told = known.find((payment) =>
    reason === "carry" ? payment.reason === "carry" : payment.status === "unmatched",
  );
  return {
    ...{ environmentId: environment.id, nowMs, writtenBy: nonce, status, reason, outcome },
    ...{ known, names, facts },
    customer: keepsUsers(state, grantAttempt) ? state.customer : null,
    id: known[0]?.id ?? step.newId,
    settledBy: settle?.fingerprint ?? known[0]?.settledBy ?? null,
    notifyAtMs: !isTold ? null : told === undefined ? nowMs + REPORT_AFTER_MS : told.notifyAtMs,
    surplus: state.grants.flatMap(({ balanceId, isSurplus }) => (isSurplus === 1 ? [balanceId] : [])),
    event: change.eventId === null ? null : { ...change, eventId: change.eventId },
    ...amountsOfPayment(facts),
  };
}
