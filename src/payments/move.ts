import { issueBalances, quotaRefusal } from "../credits/grant.ts";
import { idIn } from "../db/databases.ts";
import { retryOnConflict } from "../db/retry-on-conflict.ts";
import { batch, type Statement } from "../db/sql.ts";
import { PurserError } from "../errors.ts";
import { type User, writingValues } from "../ledger/account.ts";
import { type Decision, replay, write } from "../ledger/decision.ts";
import type { NewBalances } from "../ledger/insert-entries.ts";
import { insertPaymentMotions } from "../ledger/insert-payment-motions.ts";
import { creditsGranted, type LedgerMessage } from "../ledger/messages.ts";
import type { AccountAtRead } from "../ledger/send.ts";
import { writeForUser } from "../ledger/write.ts";
import { choosePack, type Pack, selectPack } from "../packs/find.ts";
import type { TenantCtx } from "../runtime.ts";
import type { PaymentChange } from "./event.ts";
import { type Offer, offersOf, planOffer, type Reason } from "./offer.ts";
import type { StripeSetting } from "./setting.ts";
import { type Motion, motionOf, type PaymentState, shownKey, stateOf } from "./state.ts";
import { guardNoCustomer, insertGrants, storePayment } from "./store-payment.ts";
import { OUTCOMES, type Outcome, readPayment, selectCustomer, selectPayments } from "./stored-payment.ts";

/** An unmatched payment is told when it still is one after so long. */
const TELL_AFTER_MS = 10 * 60 * 1_000;

const CONFLICTS = new Set(["guard_payment", "payment_names_taken"] as const);

/** What is to be done with a payment: an event's news, or a settlement by the administrator. */
export interface Move {
  readonly setting: StripeSetting;
  readonly change: Omit<PaymentChange, "eventId" | "link"> & { readonly eventId: string | null };
  /** Whether it may grant: a refund of what nobody could grant does not. */
  readonly mayGrant: boolean;
  /** What the administrator grants instead of what Stripe said. Throws to refuse. */
  readonly settle?: {
    readonly userId: string;
    readonly stamp: string;
    readonly packs: readonly string[];
    readonly plan: (state: PaymentState, terms: Terms) => readonly NewBalances[];
  };
}

interface Terms {
  readonly nowMs: number;
  readonly newId: (index: number) => string;
  readonly packOf: (pack: string) => Pack | null;
}

export interface Moved {
  readonly outcome: Outcome;
  readonly state: PaymentState;
  readonly paymentKey: string;
}

/** Which of two outcomes says more. */
export const stronger = (a: Outcome, b: Outcome): Outcome => (OUTCOMES.indexOf(a) <= OUTCOMES.indexOf(b) ? a : b);

/**
 * Brings a payment to the state that is due: reads what is stored, and goes step by step until nothing is to be done. Each
 * step is one batch, with the fact that moved it. So a repeat completes what was cut, and finds nothing else to do.
 */
export async function movePayment(ctx: TenantCtx, move: Move): Promise<Moved> {
  const run = new Run(ctx, move);
  return retryOnConflict(CONFLICTS, ctx.newId(""), async () => {
    run.begin();
    for (;;) {
      const state = await run.read();
      if (!(await run.step(state))) return { outcome: run.outcome, state, paymentKey: shownKey(state.names) };
    }
  });
}

type Rows = Parameters<typeof readPayment>[0][];

class Run {
  outcome: Outcome = "ignored";
  readonly #ctx: TenantCtx;
  readonly #move: Move;
  readonly #paymentId: string;
  readonly #balanceIds: string[] = [];
  /** The last write that was sent. Where its answer was lost, the payment says that it landed. */
  #sent: { readonly nonce: string; readonly outcome: Outcome } | null = null;
  readonly #erased = new Set<number>();
  /** Why the grant was refused. */
  #reason: Reason | null = null;

  constructor(ctx: TenantCtx, move: Move) {
    this.#ctx = ctx;
    this.#move = move;
    this.#paymentId = ctx.newId("pay_");
  }

  begin(): void {
    this.#reason = null;
  }

  #reads() {
    const environmentId = this.#ctx.environment.id;
    const { names, customer } = this.#move.change;
    return [
      selectPayments({ environmentId, names: JSON.stringify(names) }),
      selectCustomer({ environmentId, customer: customer ?? "" }),
    ] as const;
  }

  #stateOf(rows: Rows, customers: readonly { userId: string }[]): PaymentState {
    const state = stateOf(rows.map(readPayment), this.#move.change, customers[0]?.userId ?? null);
    const sent = this.#sent;
    if (sent !== null && state.known.some(({ writtenBy }) => writtenBy === sent.nonce)) this.#landed();
    this.#sent = null;
    return state;
  }

  #landed(): void {
    if (this.#sent !== null) this.outcome = stronger(this.outcome, this.#sent.outcome);
    this.#sent = null;
  }

  async read(): Promise<PaymentState> {
    return this.#stateOf(...(await batch(this.#ctx.db, this.#reads())));
  }

  /** Does the next step. False when nothing more is to be done. */
  async step(state: PaymentState): Promise<boolean> {
    const { grants, money } = state;
    const offers = this.#offers(state);
    const offer = offers.find(({ userId }) => userId !== null);
    if (offer?.userId !== undefined && offer.userId !== null && this.#reason === null) {
      await this.#grant(offer.userId, offers);
      return this.outcome !== "granted";
    }
    const unsettled = grants
      .filter((grant) => !this.#erased.has(grant.accountId) && motionOf(grant, money) !== null)
      .map(({ accountId }) => accountId);
    const [accountId] = unsettled;
    if (accountId === undefined) return this.#store(state, offers);
    await this.#settleAccount(accountId);
    return unsettled.some((other) => other !== accountId) || this.outcome === "ignored" || this.#erased.has(accountId);
  }

  /** What the payment would grant now. None where it may not, or has granted. */
  #offers(state: PaymentState): readonly Offer[] {
    const { mayGrant, settle, setting } = this.#move;
    if (!mayGrant || state.grants.length > 0) return [];
    if (settle !== undefined) return [{ userId: settle.userId, parts: [], hasMore: false }];
    return offersOf(state.facts, setting, state.customerUser);
  }

  /** What is stored of its facts. Whom a grant was for, its account says; an erased person is not named again (E4). */
  #facts({ facts }: PaymentState, status: "granted" | "unmatched" | "waiting"): PaymentState["facts"] {
    if (status !== "granted" && this.#reason !== "person_erased") return facts;
    return facts.map((fact) => (fact.userId === null ? fact : { ...fact, userId: null }));
  }

  /** The statements that store the payment with this outcome. */
  #storing(state: PaymentState, status: "granted" | "unmatched" | "waiting", outcome: Outcome): Statement[] {
    const { change, settle } = this.#move;
    const nonce = this.#ctx.newId("");
    this.#sent = { nonce, outcome };
    const [kept] = state.known;
    const unmatched = state.known.find((payment) => payment.status === "unmatched");
    const nowMs = this.#ctx.now();
    const reason = status !== "unmatched" ? null : (this.#reason ?? unmatched?.reason ?? "no_user");
    const tellAtMs = unmatched === undefined ? nowMs + TELL_AFTER_MS : unmatched.tellAtMs;
    return storePayment({
      ...{ environmentId: this.#ctx.environment.id, nowMs, writtenBy: nonce, status, reason, outcome },
      ...{ known: state.known, names: state.names, facts: this.#facts(state, status) },
      customer: status === "granted" ? null : state.customer,
      id: kept?.id ?? this.#paymentId,
      settledBy: settle?.stamp ?? kept?.settledBy ?? null,
      tellAtMs: status === "unmatched" ? tellAtMs : null,
      surplus: state.grants.flatMap(({ balanceId, isSurplus }) => (isSurplus === 1 ? [balanceId] : [])),
      event: change.eventId === null ? null : { ...change, eventId: change.eventId },
    });
  }

  /** Stores what is new where no credits move. */
  async #store(state: PaymentState, offers: readonly Offer[]): Promise<boolean> {
    const { known, grants, customer } = state;
    const before = known[0];
    const wasErased = known.some(({ reason }) => reason === "person_erased");
    if (offers.length > 0 && this.#reason === null) this.#reason = wasErased ? "person_erased" : "no_user";
    const isUnmatched =
      grants.length === 0 && (this.#reason !== null || known.some((one) => one.status === "unmatched"));
    const status = grants.length > 0 ? "granted" : isUnmatched ? "unmatched" : "waiting";
    const isNews =
      status !== before?.status || (status === "unmatched" && (this.#reason ?? before.reason) !== before.reason);
    if (!state.isChanged && !isNews) return false;
    const isLeft = status === "unmatched" && isNews;
    const storing = this.#storing(state, status, isLeft ? "unmatched" : "remembered");
    const { environment, db } = this.#ctx;
    const isForNobody =
      this.#reason === "no_user" &&
      customer !== null &&
      state.customerUser === null &&
      offers.some(({ userId }) => userId === null);
    const guard = isForNobody ? [guardNoCustomer({ environmentId: environment.id, customer })] : [];
    await batch(db, [...guard, ...storing]);
    this.#landed();
    return false;
  }

  /** Decides on the state as it is read with the account. False for an account of an erased person, which is not found. */
  async #write(
    user: User,
    packs: readonly string[],
    decide: (state: PaymentState, packOf: Terms["packOf"], account: AccountAtRead) => Decision<true>,
  ): Promise<boolean> {
    const ctx = this.#ctx;
    const answer = await writeForUser(ctx, {
      user,
      nonce: ctx.newId(""),
      read: () => [...this.#reads(), ...packs.map((pack) => selectPack(ctx, pack))] as const,
      decide: ([payments, customers, ...packRows], account) => {
        const packOf = (pack: string) => choosePack(pack, packRows[packs.indexOf(pack)] ?? []);
        return decide(this.#stateOf(payments, customers), packOf, account);
      },
      refusals: quotaRefusal(ctx),
    });
    if (answer !== null) this.#landed();
    return answer !== null;
  }

  async #grant(userId: string, offers: readonly Offer[]): Promise<void> {
    const { settle } = this.#move;
    const packs = settle?.packs ?? offers.flatMap(({ parts }) => parts.flatMap(({ pack }) => pack ?? []));
    const read = [...new Set(packs)];
    try {
      await this.#write({ userId }, read, (state, packOf, account) => {
        const own = this.#offers(state).filter((offer) => offer.userId === userId);
        const isRead = own.every(({ parts }) => parts.every(({ pack }) => pack === null || read.includes(pack)));
        if (own.length === 0 || !isRead) return replay(true);
        const planned = this.#plan(state, own, {
          nowMs: account.nowMs,
          newId: (index) => this.#balanceId(index),
          packOf,
        });
        if (typeof planned !== "string") return this.#granting(state, account, planned);
        this.#reason = planned;
        return replay(true);
      });
    } catch (error) {
      this.#reason = settle === undefined ? reasonOf(error) : null;
      if (this.#reason === null) throw error;
    }
  }

  /** The balances of the first offer that can be granted, else why the first cannot. */
  #plan(state: PaymentState, offers: readonly Offer[], terms: Terms): readonly NewBalances[] | Reason {
    const { setting, settle, change } = this.#move;
    if (settle !== undefined) return settle.plan(state, terms);
    const all = { ...terms, currency: setting.currency, note: change.note };
    const planned = offers.map((offer) => planOffer(offer, all));
    return planned.find((plan) => typeof plan !== "string") ?? planned[0] ?? "no_user";
  }

  #balanceId(index: number): string {
    this.#balanceIds[index] ??= idIn(this.#ctx.environment.database, this.#ctx.newId("crb_"));
    return this.#balanceIds[index];
  }

  /** A grant, and in the same batch what is due back already. */
  #granting(state: PaymentState, account: AccountAtRead, grants: readonly NewBalances[]): Decision<true> {
    const { statements, count } = issueBalances(this.#ctx, account, grants);
    const issued = grants.flatMap(({ balances }) => balances);
    const motions = issued.flatMap(({ id, amountSteps }) => {
      const granted = { balanceId: id, initialSteps: amountSteps, accountId: 0, part: 0, of: 1, isSurplus: 0 as const };
      return motionOf(granted, state.money) ?? [];
    });
    const balanceIds = issued.map(({ id }) => id);
    const packIds = [...new Set(grants.map(({ packId }) => packId))];
    const paymentId = state.known[0]?.id ?? this.#paymentId;
    return write(
      [
        ...this.#storing(state, "granted", "granted"),
        ...statements,
        insertGrants({ ...writingValues(account), paymentId, balanceIds: JSON.stringify(balanceIds) }),
        ...insertPaymentMotions(writingValues(account), motions, this.#move.change.note),
      ],
      () => {
        count();
        return true;
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

  /** Brings the balances that one account has of the payment to what is due of them. */
  async #settleAccount(accountId: number): Promise<void> {
    const isThere = await this.#write({ accountId }, [], (state, _packOf, account) => {
      const motions = state.grants
        .filter((grant) => grant.accountId === accountId)
        .flatMap((grant) => motionOf(grant, state.money) ?? [])
        .toSorted((a, b) => Number(b.isMore) - Number(a.isMore));
      if (motions.length === 0) return replay(true);
      const outcome = motions.some(({ isMore }) => isMore) ? "taken" : "restored";
      return write(
        [
          ...this.#storing(state, "granted", outcome),
          ...insertPaymentMotions(writingValues(account), motions, this.#move.change.note),
        ],
        () => true,
        {
          act: { action: "payment.settled", target: shownKey(state.names) },
          messages: () => moved(account.userId, state, motions),
        },
      );
    });
    // An erasure revoked its balances: nothing is taken of them, and nothing comes back (S4).
    if (!isThere) this.#erased.add(accountId);
  }
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

const REFUSALS = new Map<string, Reason>([
  ["test_quota_exceeded", "quota"],
  ["person_erased", "person_erased"],
]);

function reasonOf(error: unknown): Reason | null {
  return error instanceof PurserError ? (REFUSALS.get(error.code) ?? null) : null;
}
