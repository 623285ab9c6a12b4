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
  /** The key of the event's own payment, if another payment is moved. For the log. */
  readonly ownKey?: string | undefined;
  /** The event's credits of other invoices, as facts of their payments. */
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

/** The statements that store a plan's changes, and with `all` all other news, in one batch with its motions. */
export type Storing = (books: Books, plan: AccountPlan, outcome: PaymentOutcome, all: boolean) => readonly Statement[];

interface PlanOf {
  readonly books: Books;
  readonly state: PaymentState;
  readonly account: AccountAtRead;
  readonly newDebtId: () => string;
}

interface GrantOf extends PlanOf, Terms {
  readonly offers: readonly Offer[];
  readonly paymentId: string;
  readonly trials: ReadonlySet<string>;
}

/** A grant, and in the same batch the amounts that are already due back. Otherwise the reason why there is no grant. */
export function decidePaymentGrant(
  ctx: TenantCtx,
  move: Move,
  of: GrantOf,
  storing: Storing,
): Decision<true> | Refusal {
  const { books, state, account, paymentId } = of;
  const planned = planGrants(move, of);
  if (typeof planned === "string") return planned;
  if (planned.length === 0) return "nothing";
  const grants = planned.map(({ grant }) => grant);
  const { statements, count } = issueBalances(ctx, account, grants);
  const issued = planned.map(({ line, grant }): Issued => ({ payment: state, line, balances: grant.balances }));
  const plan = planAccount(books, { ...termsOf(of), issued });
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
        ...granted(account.userId, grants, plan.motions.length),
        ...movedMessages(account.userId, plan.motions),
      ],
    },
  );
}

function granted(userId: string, grants: readonly NewBalances[], motions: number): LedgerMessage[] {
  return grants.map((grant, index) => {
    const later = grants.slice(index + 1).reduce((sum, { balances }) => sum + balances.length, motions);
    return creditsGranted(userId, grant, { after: later });
  });
}

/** Amounts that due holds return in the same batch count as available. */
function termsOf({ account, newDebtId }: PlanOf) {
  const returns = new Map<string, number>();
  for (const { balanceId, amountSteps } of account.due.flatMap(({ legs }) => legs)) {
    returns.set(balanceId, (returns.get(balanceId) ?? 0) + amountSteps);
  }
  return { accountId: account.accountId, nowMs: account.nowMs, newDebtId, returns };
}

/** The balances of the first offer that can be granted. Otherwise the reason why the first offer cannot. */
function planGrants(
  { setting, settle, change }: Move,
  { state, offers, nowMs, newId, packOf, trials }: GrantOf,
): readonly PlannedGrant[] | Refusal {
  const terms = { nowMs, newId, packOf };
  if (settle !== undefined) return settle.plan(state, terms);
  const all = { ...terms, trials, currency: setting.currency, note: change.note };
  const planned = offers.map((offer) => planOffer(offer, all));
  return planned.find((plan) => typeof plan !== "string") ?? planned[0] ?? "no_user";
}

interface MotionsOf extends PlanOf {
  readonly deficits: ReadonlyMap<string, number>;
  readonly isLast: boolean;
}

/** Takes and gives back credits of one account until its payments' balances match the amounts due. */
export function decideMotions(ctx: TenantCtx, move: Move, of: MotionsOf, storing: Storing): Decision<true> {
  const { books, state, account, deficits, isLast } = of;
  const plan = planAccount(books, { ...termsOf(of), deficits });
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

/** The messages about a batch's motions, which are its last entries: for each payment the taken amounts, then the returned ones. */
function movedMessages(userId: string, motions: readonly PlannedMotion[]): LedgerMessage[] {
  const groups: { readonly of: PlannedMotion; count: number }[] = [];
  for (const motion of motions) {
    const last = groups.at(-1);
    if (last !== undefined && last.of.payment === motion.payment && last.of.isMore === motion.isMore) last.count++;
    else groups.push({ of: motion, count: 1 });
  }
  let after = motions.length;
  return groups.map(({ of: { payment, isMore }, count }) => {
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
