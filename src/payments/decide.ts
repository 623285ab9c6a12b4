import { issueBalances } from "../books/credits/grant.ts";
import { writingValues } from "../books/ledger/account.ts";
import { type Decision, replay, writeAll } from "../books/ledger/decision.ts";
import { insertPaymentMotions, movedIn } from "../books/ledger/insert-takings.ts";
import { creditsGranted, type LedgerMessage } from "../books/ledger/messages.ts";
import type { NewBalances } from "../books/ledger/new-balances.ts";
import type { AccountAtRead } from "../books/ledger/read-account.ts";
import { countActivity } from "../db/activity.ts";
import type { Statement } from "../db/sql.ts";
import type { TenantCtx } from "../runtime.ts";
import type { PaymentChange } from "./event.ts";
import type { Granting, Refusal } from "./next-step.ts";
import { type GrantTerms, type Offer, type PlannedGrant, planOffer } from "./offer.ts";
import { type AccountPlan, type Books, type Issued, isEmptyPlan, type PlannedMotion, planAccount } from "./plan.ts";
import { type PaymentState, shownKey } from "./state.ts";
import { insertGrants } from "./store-payment.ts";
import { storeDebts } from "./stored-debts.ts";
import type { PaymentOutcome } from "./stored-payment.ts";
import type { StripeSetting } from "./stripe-setting.ts";

/** A change of a payment, by an event or by an administrator's settlement. */
export interface Move extends Granting {
  readonly setting: StripeSetting;
  readonly change: Omit<PaymentChange, "eventId" | "link" | "credits" | "asked"> & {
    readonly eventId: string | null;
    /** For the log. Null without an event. */
    readonly asked: PaymentChange["asked"] | null;
  };
  /** For the log: the key of the event's payment, if the move changes another payment. */
  readonly eventPaymentKey?: string | undefined;
  /** The event's credits for other invoices, as facts of their payments. */
  readonly credited?: readonly Credited[];
  /** The administrator's grant, instead of the one from Stripe's data. Throws to refuse. */
  readonly settle?: {
    readonly userId: string;
    readonly stamp: string;
    readonly packs: readonly string[];
    readonly plan: (state: PaymentState, terms: Terms) => readonly PlannedGrant[];
  };
}

export interface Credited {
  readonly invoice: string;
  readonly facts: PaymentChange["facts"];
}

type Terms = Pick<GrantTerms, "nowMs" | "newId" | "packOf">;

/** Returns the statements that store a plan's changes, and with `all` everything else that is new. Sent in the batch of the motions. */
export type Storing = (books: Books, plan: AccountPlan, outcome: PaymentOutcome, all: boolean) => readonly Statement[];

interface AccountInput {
  readonly books: Books;
  readonly state: PaymentState;
  readonly account: AccountAtRead;
  readonly newDebtId: () => string;
}

interface GrantDecisionInput extends AccountInput, Terms {
  readonly offers: readonly Offer[];
  readonly paymentId: string;
  readonly trials: ReadonlySet<string>;
}

/** Decides a grant, and to take in the same batch the amounts that are already due back. Or returns why there is no grant. */
export function decidePaymentGrant(
  ctx: TenantCtx,
  move: Move,
  input: GrantDecisionInput,
  storing: Storing,
): Decision<true> | Refusal {
  const { books, state, account, paymentId } = input;
  const planned = planGrants(move, input);
  if (typeof planned === "string") return planned;
  if (planned.length === 0) return "nothing";
  const grants = planned.map(({ grant }) => grant);
  const { statements, count } = issueBalances(ctx, account, grants);
  const issued = planned.map(({ line, grant }): Issued => ({ payment: state, line, balances: grant.balances }));
  const plan = planAccount(books, { ...termsOf(input), issued });
  const rows = issued.flatMap(({ line, balances }) => balances.map(({ id }) => ({ id, line })));
  const balanceIds = rows.map(({ id }) => id);
  const packIds = [...new Set(grants.map(({ packId }) => packId))];
  const writing = writingValues(account);
  return writeAll(
    [
      ...storing(books, plan, "granted", true),
      ...statements,
      insertGrants({ ...writing, paymentId, grants: JSON.stringify(rows) }),
      ...storeDebts(writing, plan),
      ...insertPaymentMotions(writing, plan.motions, move.change.note),
    ],
    (found) => {
      count();
      return countTaken(ctx, account, found);
    },
    {
      audit: { action: "payment.settled", target: shownKey(state.names), details: { packIds }, balanceIds },
      messages: () => [
        ...grantMessages(account.userId, grants, plan.motions.length),
        ...movedMessages(account.userId, plan.motions),
      ],
    },
  );
}

/** Returns the messages about grants. `motions` is the number of entries after those of the grants. */
function grantMessages(userId: string, grants: readonly NewBalances[], motions: number): LedgerMessage[] {
  return grants.map((grant, index) => {
    const after = grants.slice(index + 1).reduce((sum, { balances }) => sum + balances.length, motions);
    return creditsGranted(userId, grant, { after });
  });
}

/** Returns the terms of a plan. Amounts that due holds return in the same batch count as available. */
function termsOf({ account, newDebtId }: AccountInput) {
  const returns = new Map<string, number>();
  for (const { balanceId, amountSteps } of account.due.flatMap(({ legs }) => legs)) {
    returns.set(balanceId, (returns.get(balanceId) ?? 0) + amountSteps);
  }
  return { accountId: account.accountId, nowMs: account.nowMs, newDebtId, returns };
}

/** Returns the balances of the first offer that can be granted, or the reason why the first offer cannot be granted. */
function planGrants(
  { setting, settle, change }: Move,
  { state, offers, nowMs, newId, packOf, trials }: GrantDecisionInput,
): readonly PlannedGrant[] | Refusal {
  const terms = { nowMs, newId, packOf };
  if (settle !== undefined) return settle.plan(state, terms);
  const offerTerms = { ...terms, trials, currency: setting.currency, note: change.note };
  const planned = offers.map((offer) => planOffer(offer, offerTerms));
  return planned.find((plan) => typeof plan !== "string") ?? planned[0] ?? "no_user";
}

interface MotionsDecisionInput extends AccountInput {
  readonly deficits: ReadonlyMap<string, number>;
  readonly isLast: boolean;
}

/** Decides to take and give back credits of one account, so that its payments' balances match the amounts due. */
export function decideMotions(
  ctx: TenantCtx,
  move: Move,
  input: MotionsDecisionInput,
  storing: Storing,
): Decision<true> {
  const { books, state, account, deficits, isLast } = input;
  const plan = planAccount(books, { ...termsOf(input), deficits });
  // The next step reads or returns the amounts that other lines must get back first.
  if (isEmptyPlan(plan) || (deficits.size === 0 && plan.needs.length > 0)) return replay(true);
  const { motions } = plan;
  const outcome = motions.length === 0 ? "remembered" : motions.some(({ isMore }) => isMore) ? "taken" : "restored";
  const writing = writingValues(account);
  return writeAll(
    [
      ...storing(books, plan, outcome, isLast),
      ...storeDebts(writing, plan),
      ...insertPaymentMotions(writing, motions, move.change.note),
    ],
    (rows) => countTaken(ctx, account, rows),
    {
      audit: { action: "payment.settled", target: shownKey(state.names) },
      messages: () => movedMessages(account.userId, motions),
    },
  );
}

/** Counts taken and returned amounts, for the overview. */
function countTaken({ environment }: TenantCtx, { nowMs }: AccountAtRead, rows: readonly unknown[][]): true {
  for (const { unit, deltaSteps } of movedIn(rows)) {
    if (deltaSteps < 0) countActivity(environment, "refunded", nowMs, unit, -deltaSteps);
    if (deltaSteps > 0) countActivity(environment, "restored", nowMs, unit, deltaSteps);
  }
  return true;
}

/** Returns the messages about a batch's motions, which are its last entries: for each payment, first what is taken, then what is given back. */
function movedMessages(userId: string, motions: readonly PlannedMotion[]): LedgerMessage[] {
  const groups: { readonly first: PlannedMotion; count: number }[] = [];
  for (const motion of motions) {
    const last = groups.at(-1);
    if (last?.first.payment === motion.payment && last.first.isMore === motion.isMore) last.count++;
    else groups.push({ first: motion, count: 1 });
  }
  let after = motions.length;
  return groups.map(({ first: { payment, isMore }, count }) => {
    after -= count;
    return {
      type: isMore ? "payment.taken" : "payment.restored",
      subject: userId,
      data: { userId, paymentKey: shownKey(payment.names) },
      motions: Array.from({ length: count }, () => ({})),
      last: { after },
      mustMove: true,
    };
  });
}
