import type { Statement } from "../db/sql.ts";
import type { TenantCtx } from "../runtime.ts";
import { type Payer, payerAfter } from "./carry.ts";
import type { Move } from "./decide.ts";
import { type Fact, withoutAsked, withoutUser } from "./facts.ts";
import { logStatement } from "./log.ts";
import { amountsOfPayment } from "./money-days.ts";
import type { Effect, Rejection } from "./next-step.ts";
import type { PlannedOffer } from "./plan-offer.ts";
import { findHint } from "./reasons.ts";
import { openInvoice, type PaymentState, shownKey } from "./state.ts";
import { type PaymentWrite, storePayment } from "./store-payment.ts";
import { insertPayerUser, writePayer } from "./stored-payer.ts";

/** A step of a payment that is to be stored. */
export interface StepToStore {
  readonly move: Move;
  readonly state: PaymentState;
  /** The customer who pays the payment's invoice, and the keys under which it may be stored. */
  readonly payer: Payer | null;
  readonly payerKeys: readonly string[];
  /** The id of a payment that is not stored yet. */
  readonly newId: string;
  /** Names this write. */
  readonly nonce: string;
  readonly rejection: Rejection | null;
  readonly effect: Effect;
  readonly planned: PlannedOffer | null;
  /** The user of the step's grant. */
  readonly grantee: string | null;
}

/** Returns the statements that store a payment after a step, the customer of its invoice, and the event's entry in the log. */
export const writesOfStep = (ctx: TenantCtx, step: StepToStore): Statement[] => [
  ...storePayment(paymentToStore(ctx, step)),
  ...payerWrites(ctx, step),
  ...logWrites(ctx, step),
];

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
function factsToStore(state: PaymentState, grantAttempt: GrantAttempt, planned: PlannedOffer | null): readonly Fact[] {
  const facts = planned?.account == null ? state.facts : [...state.facts, planned.account.fact];
  if (keepsUsers(state, grantAttempt)) return facts;
  return facts.map(isErased(state, grantAttempt) ? withoutAsked : withoutUser);
}

/** Returns a payment as it is stored after a step. */
function paymentToStore({ environment, now }: TenantCtx, step: StepToStore): PaymentWrite {
  const { state, nonce, planned, rejection } = step;
  const nowMs = now();
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

/** Returns the statements that change the customer of an invoice (S6). */
function payerWrites({ environment }: TenantCtx, step: StepToStore): Statement[] {
  const { state, payer, payerKeys, planned, rejection, grantee } = step;
  const invoice = openInvoice(state);
  if (payer === null || planned?.account == null || invoice === null) return [];
  // The customer of an erased person is stored only under its keyed hash (E4).
  const isHashed = rejection === "person_erased" && payer.version === 0;
  const before = isHashed ? { ...payer, key: payerKeys[1] ?? "" } : payer;
  const after = payerAfter(before, invoice, planned.account, planned.marks);
  return [
    ...writePayer(environment.id, payerKeys, before, after),
    ...(grantee === null
      ? []
      : [insertPayerUser({ environmentId: environment.id, userId: grantee, customer: after.key })]),
  ];
}

/** Returns the statement that logs the event's outcome. */
function logWrites(ctx: TenantCtx, { move, state, rejection, effect, grantee }: StepToStore): Statement[] {
  const { eventId, type, asked } = move.change;
  if (eventId === null || asked === null) return [];
  const { objectId, pack } = asked;
  const { outcome } = effect;
  // The batch aborts if one of these users was erased (E4). The log names no other user.
  const facts = factsToStore(state, { rejection, hasGrants: grantee !== null }, null);
  const guarded = [grantee, ...facts.map(({ userId }) => userId)];
  const user = guarded.includes(asked.user) ? asked.user : null;
  const reason = outcome === "unmatched" || outcome === "ignored" ? effect.reason : null;
  const hint = reason === null ? null : findHint(reason, type, asked.hint);
  const paymentKey = move.eventPaymentKey ?? shownKey(state.names);
  return [logStatement(ctx, { eventId, type, outcome, reason, objectId, asked: { pack, user }, hint, paymentKey })];
}
