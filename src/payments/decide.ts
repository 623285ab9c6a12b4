import { countActivity } from "../activity/count.ts";
import { issueBalances } from "../credits/grant.ts";
import type { Statement } from "../db/sql.ts";
import { writingValues } from "../ledger/account.ts";
import { type Decision, replay, write } from "../ledger/decision.ts";
import type { NewBalances } from "../ledger/insert-entries.ts";
import { insertPaymentMotions, movedIn } from "../ledger/insert-payment-motions.ts";
import { creditsGranted, type LedgerMessage } from "../ledger/messages.ts";
import type { AccountAtRead } from "../ledger/send.ts";
import type { TenantCtx } from "../runtime.ts";
import type { PaymentChange } from "./event.ts";
import { GRANTED, type Granting, type Standing } from "./next-step.ts";
import { type GrantTerms, type Offer, planOffer, type Reason } from "./offer.ts";
import type { StripeSetting } from "./setting.ts";
import { type Motion, motionOf, type PaymentState, shownKey } from "./state.ts";
import { insertGrants } from "./store-payment.ts";
import type { Outcome } from "./stored-payment.ts";

/** What is to be done with a payment: an event's news, or a settlement by the administrator. */
export interface Move extends Granting {
  readonly setting: StripeSetting;
  readonly change: Omit<PaymentChange, "eventId" | "link"> & { readonly eventId: string | null };
  /** What the administrator grants instead of what Stripe said. Throws to refuse. */
  readonly settle?: {
    readonly userId: string;
    readonly stamp: string;
    readonly packs: readonly string[];
    readonly plan: (state: PaymentState, terms: Terms) => readonly NewBalances[];
  };
}

type Terms = Pick<GrantTerms, "nowMs" | "newId" | "packOf">;

/** The statements that store the payment. They go with those that move its credits, in one batch. */
export type Storing = (standing: Standing, outcome: Outcome) => readonly Statement[];

interface GrantOf extends Terms {
  readonly state: PaymentState;
  readonly account: AccountAtRead;
  readonly offers: readonly Offer[];
  readonly paymentId: string;
}

/** A grant, and in the same batch what is due back already. Else why there is none. */
export function decideGrant(ctx: TenantCtx, move: Move, of: GrantOf, storing: Storing): Decision<true> | Reason {
  const { state, account, paymentId } = of;
  const grants = planGrants(move, of);
  if (typeof grants === "string") return grants;
  const { statements, count } = issueBalances(ctx, account, grants);
  const issued = grants.flatMap(({ balances }) => balances);
  const motions = issued.flatMap(({ id, amountSteps }) => {
    const granted = { balanceId: id, initialSteps: amountSteps, accountId: 0, part: 0, of: 1, isSurplus: 0 as const };
    return motionOf(granted, state.money) ?? [];
  });
  const balanceIds = issued.map(({ id }) => id);
  const packIds = [...new Set(grants.map(({ packId }) => packId))];
  return write(
    [
      ...storing(GRANTED, "granted"),
      ...statements,
      insertGrants({ ...writingValues(account), paymentId, balanceIds: JSON.stringify(balanceIds) }),
      ...insertPaymentMotions(writingValues(account), motions, move.change.note),
    ],
    (rows) => {
      count();
      return countTaken(ctx, account, rows);
    },
    {
      act: { action: "payment.settled", target: shownKey(state.names), details: { packIds, balanceIds } },
      messages: () => [
        ...grants.map((grant, index) => {
          const later = grants.slice(index + 1).reduce((sum, { balances }) => sum + balances.length, motions.length);
          return creditsGranted(account.userId, grant, later);
        }),
        ...moved(account.userId, state, motions),
      ],
    },
  );
}

/** The balances of the first offer that can be granted, else why the first cannot. */
function planGrants(
  { setting, settle, change }: Move,
  { state, offers, nowMs, newId, packOf }: GrantOf,
): readonly NewBalances[] | Reason {
  const terms = { nowMs, newId, packOf };
  if (settle !== undefined) return settle.plan(state, terms);
  const all = { ...terms, currency: setting.currency, note: change.note };
  const planned = offers.map((offer) => planOffer(offer, all));
  return planned.find((plan) => typeof plan !== "string") ?? planned[0] ?? "no_user";
}

interface MotionsOf {
  readonly state: PaymentState;
  readonly account: AccountAtRead;
  readonly accountId: number;
}

/** Brings the balances that one account has of the payment to what is due of them. */
export function decideMotions(
  ctx: TenantCtx,
  move: Move,
  { state, account, accountId }: MotionsOf,
  storing: Storing,
): Decision<true> {
  const motions = state.grants
    .filter((grant) => grant.accountId === accountId)
    .flatMap((grant) => motionOf(grant, state.money) ?? [])
    .toSorted((a, b) => Number(b.isMore) - Number(a.isMore));
  if (motions.length === 0) return replay(true);
  return write(
    [
      ...storing(GRANTED, motions.some(({ isMore }) => isMore) ? "taken" : "restored"),
      ...insertPaymentMotions(writingValues(account), motions, move.change.note),
    ],
    (rows) => countTaken(ctx, account, rows),
    {
      act: { action: "payment.settled", target: shownKey(state.names) },
      messages: () => moved(account.userId, state, motions),
    },
  );
}

/** Counts what was taken back, for the overview. What is given back is not subtracted: it may be of another day. */
function countTaken({ environment }: TenantCtx, { nowMs }: AccountAtRead, rows: readonly unknown[][]): true {
  for (const { unit, deltaSteps } of movedIn(rows)) {
    if (deltaSteps < 0) countActivity(environment, "refunded", nowMs, unit, -deltaSteps);
  }
  return true;
}

/** What a batch tells of its motions, its last entries: what was taken, then what was given back. */
function moved(userId: string, { names }: PaymentState, motions: readonly Motion[]): LedgerMessage[] {
  const taken = motions.filter(({ isMore }) => isMore).length;
  const restored = motions.length - taken;
  const message = (type: "payment.taken" | "payment.restored", count: number, after: number): LedgerMessage[] =>
    count === 0
      ? []
      : [
          {
            type,
            subject: userId,
            data: { userId, paymentKey: shownKey(names) },
            motions: Array.from({ length: count }, () => ({})),
            last: { after },
          },
        ];
  return [...message("payment.taken", taken, restored), ...message("payment.restored", restored, 0)];
}
