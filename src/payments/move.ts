import { grantRefusals } from "../credits/grant.ts";
import { idIn } from "../db/databases.ts";
import { retryOnConflict } from "../db/retry-on-conflict.ts";
import { batch, type Statement } from "../db/sql.ts";
import { PurserError } from "../errors.ts";
import type { User } from "../ledger/account.ts";
import { type Decision, replay } from "../ledger/decision.ts";
import type { AccountAtRead } from "../ledger/send.ts";
import { writeForUser } from "../ledger/write.ts";
import { choosePack, type Pack, selectPack } from "../packs/find.ts";
import type { TenantCtx } from "../runtime.ts";
import { personGuards } from "../tombstones/check.ts";
import { withTombstones } from "../tombstones/known.ts";
import { decideGrant, decideMotions, type Move, type Storing } from "./decide.ts";
import { nextStep, offersNow, type Standing, type Step } from "./next-step.ts";
import type { Offer, Reason } from "./offer.ts";
import { type PaymentState, shownKey, stateOf } from "./state.ts";
import { guardNoCustomer, storePayment } from "./store-payment.ts";
import { OUTCOMES, type Outcome, readPayment, selectCustomer, selectPayments } from "./stored-payment.ts";

/** An unmatched payment is told when it still is one after so long. */
const TELL_AFTER_MS = 10 * 60 * 1_000;

const CONFLICTS = new Set(["guard_payment", "payment_names_taken", "guard_person", "tombstones_being_erased"] as const);

export interface Moved {
  readonly outcome: Outcome;
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
  return retryOnConflict(CONFLICTS, ctx.newId(""), () => run.toItsEnd());
}

type Rows = Parameters<typeof readPayment>[0][];
type PackOf = (pack: string) => Pack | null;

/** What stays the same in every attempt of a move, and what it did so far. */
class Run {
  readonly #ctx: TenantCtx;
  readonly #move: Move;
  readonly #paymentId: string;
  readonly #balanceIds: string[] = [];
  #outcome: Outcome = "ignored";
  /** The last write that was sent. Where its answer was lost, the payment says that it landed. */
  #sent: { readonly nonce: string; readonly outcome: Outcome } | null = null;
  /** Why the grant was refused. */
  #refusal: Reason | null = null;

  constructor(ctx: TenantCtx, move: Move) {
    this.#ctx = ctx;
    this.#move = move;
    this.#paymentId = ctx.newId("pay_");
  }

  async toItsEnd(): Promise<Moved> {
    this.#refusal = null;
    for (;;) {
      const state = this.#stateOf(...(await batch(this.#ctx.db, this.#reads())));
      const step = nextStep(state, offersNow(state, this.#move), this.#refusal);
      if (await this.#isEnd(state, step)) return { outcome: this.#outcome, paymentKey: shownKey(state.names) };
    }
  }

  /** Does a step. Whether nothing more is to be done, as far as is known. */
  async #isEnd(state: PaymentState, step: Step): Promise<boolean> {
    switch (step.kind) {
      case "grant":
        await this.#grant(step.userId, step.offers);
        return this.#outcome === "granted";
      case "bring":
        await this.#bring(step.accountId);
        return step.isLast && this.#outcome !== "ignored";
      case "store":
        await this.#store(state, step);
        return true;
      case "none":
        return true;
    }
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
    if (state.known.some(({ writtenBy }) => writtenBy === this.#sent?.nonce)) this.#landed();
    this.#sent = null;
    return state;
  }

  #landed(): void {
    if (this.#sent !== null) this.#outcome = stronger(this.#outcome, this.#sent.outcome);
    this.#sent = null;
  }

  /** The statements that store the payment with this outcome. */
  #storing(state: PaymentState): Storing {
    return (standing, outcome) => {
      const { change, settle } = this.#move;
      const { environment, newId, now } = this.#ctx;
      const nonce = newId("");
      this.#sent = { nonce, outcome };
      const [kept] = state.known;
      const unmatched = state.known.find((payment) => payment.status === "unmatched");
      const tellAtMs = unmatched === undefined ? now() + TELL_AFTER_MS : unmatched.tellAtMs;
      return storePayment({
        ...{ environmentId: environment.id, nowMs: now(), writtenBy: nonce, ...standing, outcome },
        ...{ known: state.known, names: state.names, facts: factsToKeep(state, standing) },
        customer: customerToKeep(state, standing),
        id: kept?.id ?? this.#paymentId,
        settledBy: settle?.stamp ?? kept?.settledBy ?? null,
        tellAtMs: standing.status === "unmatched" ? tellAtMs : null,
        surplus: state.grants.flatMap(({ balanceId, isSurplus }) => (isSurplus === 1 ? [balanceId] : [])),
        event: change.eventId === null ? null : { ...change, eventId: change.eventId },
      });
    };
  }

  async #store(state: PaymentState, { outcome, ...standing }: Extract<Step, { kind: "store" }>): Promise<void> {
    const ctx = this.#ctx;
    const { environment, db } = ctx;
    const { customer, customerUser } = state;
    // Somebody may say meanwhile whose the customer is.
    const isForNobody = standing.reason === "no_user" && customer !== null && customerUser === null;
    const guard = isForNobody ? [guardNoCustomer({ environmentId: environment.id, customer })] : [];
    const userOfCustomer = customerToKeep(state, standing) === null ? null : customerUser;
    const named = [userOfCustomer, ...factsToKeep(state, standing).map(({ userId }) => userId)];
    const ids = named.filter((userId) => userId !== null);
    const send = async (guards: readonly Statement[]) =>
      batch(db, [...guards, ...guard, ...this.#storing(state)(standing, outcome)]);
    // Nobody is named who was erased since the payment was read (E4).
    if (ids.length === 0) await send([]);
    else await withTombstones(ctx, async (known, first) => send([first, ...(await personGuards(ctx, known, ids))]));
    this.#landed();
  }

  /** Decides on the state as it is read with the account. */
  async #write(
    user: User,
    packs: readonly string[],
    decide: (state: PaymentState, account: AccountAtRead, packOf: PackOf) => Decision<true>,
  ): Promise<void> {
    const ctx = this.#ctx;
    await writeForUser(ctx, {
      user,
      nonce: ctx.newId(""),
      read: () => [...this.#reads(), ...packs.map((pack) => selectPack(ctx, pack))] as const,
      decide: ([payments, customers, ...packRows], account) =>
        decide(this.#stateOf(payments, customers), account, (pack) =>
          choosePack(pack, packRows[packs.indexOf(pack)] ?? []),
        ),
      refusals: grantRefusals(ctx),
    });
    this.#landed();
  }

  async #grant(userId: string, offers: readonly Offer[]): Promise<void> {
    const { settle } = this.#move;
    const packs = settle?.packs ?? offers.flatMap(({ parts }) => parts.flatMap(({ pack }) => pack ?? []));
    const read = [...new Set(packs)];
    try {
      await this.#write({ userId }, read, (state, account, packOf) => {
        const own = offersNow(state, this.#move).filter((offer) => offer.userId === userId);
        const isRead = own.every(({ parts }) => parts.every(({ pack }) => pack === null || read.includes(pack)));
        if (own.length === 0 || !isRead) return replay(true);
        const paymentId = state.known[0]?.id ?? this.#paymentId;
        const terms = { nowMs: account.nowMs, newId: this.#newId, packOf, paymentId };
        const decided = decideGrant(
          this.#ctx,
          this.#move,
          { state, account, offers: own, ...terms },
          this.#storing(state),
        );
        if (typeof decided !== "string") return decided;
        this.#refusal = decided;
        return replay(true);
      });
    } catch (error) {
      this.#refusal = settle === undefined ? reasonOf(error) : null;
      if (this.#refusal === null) throw error;
    }
  }

  readonly #newId = (index: number): string => {
    this.#balanceIds[index] ??= idIn(this.#ctx.environment.database, this.#ctx.newId("crb_"));
    return this.#balanceIds[index];
  };

  async #bring(accountId: number): Promise<void> {
    await this.#write({ accountId }, [], (state, account) =>
      decideMotions(this.#ctx, this.#move, { state, account, accountId }, this.#storing(state)),
    );
  }
}

/** Whether it still matters whose it is. Whom a grant was for, its account says; an erased person is not named again (E4). */
const isForSomebody = ({ status, reason }: Standing): boolean => status !== "granted" && reason !== "person_erased";

const customerToKeep = ({ customer }: PaymentState, standing: Standing): string | null =>
  isForSomebody(standing) ? customer : null;

/** What is stored of its facts. */
function factsToKeep({ facts }: PaymentState, standing: Standing): PaymentState["facts"] {
  if (isForSomebody(standing)) return facts;
  return facts.map((fact) => (fact.userId === null ? fact : { ...fact, userId: null }));
}

const REFUSALS = new Map<string, Reason>([
  ["test_quota_exceeded", "quota"],
  ["person_erased", "person_erased"],
]);

function reasonOf(error: unknown): Reason | null {
  if (!(error instanceof PurserError)) return null;
  // The user has as many balances as there may be (L6).
  return error.details?.limit === undefined ? (REFUSALS.get(error.code) ?? null) : "quota";
}
