import type { Unit } from "../books/amounts/amount.ts";
import { issueBalances } from "../books/credits/grant.ts";
import { writingValues } from "../books/ledger/account.ts";
import { type Decision, replay, writeAll } from "../books/ledger/decision.ts";
import { insertPaymentBalanceChanges, type PaymentBalanceChange } from "../books/ledger/insert-clawbacks.ts";
import { creditsGranted, type LedgerMessage } from "../books/ledger/messages.ts";
import type { NewBalances } from "../books/ledger/new-balances.ts";
import type { AccountAtRead } from "../books/ledger/read-account.ts";
import type { Statement } from "../db/sql.ts";
import { assert } from "../errors.ts";
import type { TenantCtx } from "../runtime.ts";
import type { Payer } from "./carry.ts";
import { deriveMoney } from "./money.ts";
import {
  type Effect,
  type Granting,
  grantsToAccount,
  newGrant,
  planChanges,
  planEffect,
  type Rejection,
  statusOfKnown,
} from "./next-step.ts";
import { accountOfInvoice, type Offer } from "./offer.ts";
import { type GrantTerms, NO_MARKS, type PlannedOffer, planOffer } from "./plan-offer.ts";
import { openInvoice, type PaymentState, shownKey } from "./state.ts";
import { insertGrants } from "./store-payment.ts";
import type { PaymentChange } from "./stripe-event.ts";
import type { StripeSetting } from "./stripe-setting.ts";

/** A change of a payment, by an event or by an administrator's settlement. */
export interface Move extends Granting {
  readonly setting: StripeSetting;
  readonly change: Omit<PaymentChange, "eventId" | "link" | "asked"> & {
    readonly eventId: string | null;
    /** For the log. Null without an event. */
    readonly asked: PaymentChange["asked"] | null;
  };
  /** For the log: the key of the event's payment, if the move changes another payment. */
  readonly eventPaymentKey?: string | undefined;
  /** The administrator's grant, instead of the one from Stripe's data. Throws to reject. */
  readonly settle?: {
    readonly userId: string;
    readonly fingerprint: string;
    readonly packs: readonly string[];
    readonly plan: (state: PaymentState, terms: SettleTerms) => NewBalances;
  };
}

export type SettleTerms = Pick<GrantTerms, "nowMs" | "newId" | "packOf">;

/** Returns the statements that store the payment, and the customer of its invoice. Sent in the batch of the changes. */
export type Storing = (effect: Effect, planned: PlannedOffer | null) => readonly Statement[];

interface AccountInput {
  readonly state: PaymentState;
  readonly account: AccountAtRead;
}

interface GrantDecisionInput extends AccountInput, SettleTerms {
  readonly offers: readonly Offer[];
  readonly payer: Payer | null;
  readonly paymentId: string;
  /** The packs of the user's past trials. */
  readonly trials: ReadonlySet<string>;
}

/** Decides a grant, and to take in the same batch the amounts that are already due back. Or returns why there is no grant. */
export function decidePaymentGrant(
  ctx: TenantCtx,
  move: Move,
  input: GrantDecisionInput,
  storing: Storing,
): Decision<true> | Rejection {
  const { state, account, paymentId } = input;
  const planned = planGrants(move, input);
  if (typeof planned === "string") return planned;
  const { grants } = planned;
  const issuing = grants.length === 0 ? null : issueBalances(ctx, account, grants);
  const balances = grants.flatMap((grant) => grant.balances);
  const balanceIds = balances.map(({ id }) => id);
  const facts = planned.account === null ? state.facts : [...state.facts, planned.account.fact];
  const changes = planChanges({ money: deriveMoney(facts) }, balances.map(newGrant));
  const moved = balancesOf(
    changes,
    balances.map(({ id, unit }) => ({ balanceId: id, unit })),
  );
  const packIds = [...new Set(grants.map(({ packId }) => packId))];
  const writing = writingValues(account);
  return writeAll(
    [
      ...storing(planEffect(planned), planned),
      ...(issuing?.statements ?? []),
      ...(issuing === null ? [] : [insertGrants({ ...writing, paymentId, grants: JSON.stringify(balanceIds) })]),
      ...insertPaymentBalanceChanges(writing, changes, move.change.note),
    ],
    () => {
      issuing?.count();
      return true;
    },
    {
      audit: { action: "payment.settled", target: shownKey(state.names), details: { packIds }, balanceIds },
      messages: () => [
        ...grantMessages(account.userId, grants, changes.length),
        ...movedMessages(account.userId, state, { changes, moved }),
      ],
    },
  );
}

/** Returns the messages about grants. `changes` is the number of entries after those of the grants. */
function grantMessages(userId: string, grants: readonly NewBalances[], changes: number): LedgerMessage[] {
  return grants.map((grant, index) => {
    const after = grants.slice(index + 1).reduce((sum, { balances }) => sum + balances.length, changes);
    return creditsGranted(userId, grant, { after });
  });
}

/** Returns the balances of the first offer that can be granted, or the reason why the first offer cannot be granted. */
function planGrants(
  { setting, settle, change }: Move,
  { state, offers, payer, nowMs, newId, packOf, trials }: GrantDecisionInput,
): PlannedOffer | Rejection {
  const terms = { nowMs, newId, packOf };
  if (settle !== undefined) {
    const invoice = openInvoice(state);
    const account = invoice === null ? null : accountOfInvoice(invoice, setting, payer);
    return { grants: [settle.plan(state, terms)], account, marks: NO_MARKS };
  }
  const offerTerms = { ...terms, trials, currency: setting.currency, note: change.note };
  const planned = offers.map((offer) => planOffer(offer, offerTerms));
  return planned.find((plan) => typeof plan !== "string") ?? planned[0] ?? "no_user";
}

/** Decides to take and give back credits of one account, so that the payment's balances match the amounts due. */
export function decideChanges({ change }: Move, { state, account }: AccountInput, storing: Storing): Decision<true> {
  const changes = planChanges(state, grantsToAccount(state, account.accountId));
  if (changes.length === 0) return replay(true);
  const moved = balancesOf(changes, state.grants);
  const outcome = changes.some(({ isMore }) => isMore) ? ("taken" as const) : ("restored" as const);
  return writeAll(
    [
      ...storing({ ...statusOfKnown(state), outcome }, null),
      ...insertPaymentBalanceChanges(writingValues(account), changes, change.note),
    ],
    () => true,
    {
      audit: { action: "payment.settled", target: shownKey(state.names) },
      messages: () => movedMessages(account.userId, state, { changes, moved }),
    },
  );
}

/** A balance that a change moves. */
interface MovedBalance {
  readonly balanceId: string;
  readonly unit: Unit;
}

/** Returns the balances of a payment's changes, which are among those that it granted. */
function balancesOf(changes: readonly PaymentBalanceChange[], granted: readonly MovedBalance[]): MovedBalance[] {
  const units = new Map(granted.map(({ balanceId, unit }) => [balanceId, unit]));
  return changes.map(({ balanceId }) => {
    const unit = units.get(balanceId);
    assert(unit !== undefined, "a balance change is of a grant of the payment");
    return { balanceId, unit };
  });
}

/** Returns the messages about a batch's changes, which are its last entries: first what is taken, then what is given back. */
function movedMessages(
  userId: string,
  state: PaymentState,
  { changes, moved }: { readonly changes: readonly PaymentBalanceChange[]; readonly moved: readonly MovedBalance[] },
): LedgerMessage[] {
  const given = changes.filter(({ isMore }) => !isMore).length;
  const taken = changes.length - given;
  const messageOf = (
    type: "payment.taken" | "payment.restored",
    ofType: typeof moved,
    after: number,
  ): LedgerMessage => ({
    type,
    subject: userId,
    data: { userId, paymentKey: shownKey(state.names) },
    changes: ofType,
    last: { after },
    mustMove: true,
  });
  return [
    ...(taken > 0 ? [messageOf("payment.taken", moved.slice(0, taken), given)] : []),
    ...(given > 0 ? [messageOf("payment.restored", moved.slice(taken), 0)] : []),
  ];
}
