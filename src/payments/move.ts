import { grantRejections } from "../books/credits/grant.ts";
import type { User } from "../books/ledger/account.ts";
import { type Decision, replay } from "../books/ledger/decision.ts";
import type { AccountAtRead } from "../books/ledger/read-account.ts";
import { writeForUser } from "../books/ledger/write.ts";
import { choosePack, type Pack, selectPack } from "../catalog/pack.ts";
import { attempt, findConstraint } from "../db/attempt.ts";
import { withTombstones } from "../db/known-tombstones.ts";
import { idIn } from "../db/session.ts";
import { batch, type RowsOf, type Statement } from "../db/sql.ts";
import { personGuards } from "../db/tombstones.ts";
import type { TenantCtx } from "../runtime.ts";
import type { Payer } from "./carry.ts";
import { decideChanges, decidePaymentGrant, type Move, type Storing } from "./decide.ts";
import { findRejectionReason, logFault, MustWait, SameFailures } from "./failed-move.ts";
import { selectLogged } from "./log.ts";
import { nextStep, offersNow, type Rejection, type Step } from "./next-step.ts";
import { type Offer, TRIAL_REFS, TRIAL_REFS_END } from "./offer.ts";
import { moreImportant, type PaymentOutcome } from "./outcomes.ts";
import type { IgnoredReason } from "./reasons.ts";
import { derivePaymentState, type PaymentState, shownKey } from "./state.ts";
import { keepsUsers, writesOfStep } from "./step-writes.ts";
import { guardNoCustomer } from "./store-payment.ts";
import { payerKeys, readPayer, selectPayer } from "./stored-payer.ts";
import { readPayment, selectCustomer, selectPayments, selectTrials } from "./stored-payment.ts";

export interface Moved {
  readonly outcome: PaymentOutcome;
  readonly paymentKey: string;
  /** Whether the log already has the event. */
  readonly isLogged: boolean;
  /** Why the event did nothing. */
  readonly reason: IgnoredReason | null;
}

/**
 * Brings a payment to the state that its facts require, step by step. Each step reads, and writes one batch that includes the new
 * facts. So if an event was interrupted, its repetition completes it; otherwise a repetition changes nothing.
 */
export async function applyChange(ctx: TenantCtx, move: Move): Promise<Moved> {
  const run = new PaymentProcessor(ctx, move);
  return attempt(ctx, () => run.finish());
}

/** A customer, and the keys under which it may be stored. */
interface InvoicePayer {
  readonly customer: string;
  readonly keys: readonly string[];
  /** The name of its row if it has none yet, the same in every attempt. */
  readonly newId: string;
}

/** Returns the queries for a payment, and for the customer of its invoice. */
const selectPayment = (environmentId: number, names: readonly string[], payer: InvoicePayer | null) =>
  [
    selectPayments({ environmentId, names: JSON.stringify(names) }),
    selectCustomer({ environmentId, customer: payer?.customer ?? "" }),
    selectPayer({ environmentId, keys: JSON.stringify(payer?.keys ?? []) }),
  ] as const;
type PaymentRows = RowsOf<ReturnType<typeof selectPayment>>;

/** A payment as it was read, with the customer who pays its invoice. */
interface Read {
  readonly state: PaymentState;
  readonly payer: Payer | null;
}

/** The state of a move during its attempts, with its results so far. */
class PaymentProcessor {
  readonly #ctx: TenantCtx;
  readonly #move: Move;
  readonly #balanceIds: string[] = [];
  #outcome: PaymentOutcome = "ignored";
  /** The last write that was sent. If its response was lost, the payment's `writtenBy` shows that it succeeded. */
  #sent: { readonly nonce: string; readonly outcome: PaymentOutcome } | null = null;
  /** Why the grant was rejected. */
  #rejection: Rejection | null = null;
  /** The customer of the invoice. */
  #payer: InvoicePayer | null = null;
  /** The customer that the stored payment tells if the event does not. */
  #storedCustomer: string | null = null;
  readonly #grantFailures = new SameFailures();
  readonly #storeFailures = new SameFailures();
  /** The id of a new payment, the same in every attempt. */
  #paymentId: string | null = null;
  #isLogged = false;
  /** Whether the last attempt to store the payment named an erased user. */
  #wasErased = false;

  constructor(ctx: TenantCtx, move: Move) {
    this.#ctx = ctx;
    this.#move = move;
  }

  async finish(): Promise<Moved> {
    this.#rejection = null;
    await this.#setPayer(this.#move.change.customer);
    for (;;) {
      const eventId = this.#move.change.eventId ?? "";
      const logged = selectLogged({ environmentId: this.#ctx.environment.id, eventId });
      const [[logRow], ...rows] = await batch(this.#ctx.db, [logged, ...this.#reads()] as const);
      this.#isLogged ||= logRow !== undefined;
      const read = this.#readOf(rows);
      if (read === null) {
        await this.#setPayer(this.#storedCustomer);
        continue;
      }
      const { state } = read;
      const step = nextStep(state, offersNow(state, this.#move, read.payer), this.#rejection, this.#move);
      if (await this.#take(read, step)) {
        const reason = step.kind === "none" ? step.reason : null;
        return { outcome: this.#outcome, paymentKey: shownKey(state.names), isLogged: this.#isLogged, reason };
      }
    }
  }

  /** Takes a step. Returns whether it was the last one. */
  async #take(read: Read, step: Step): Promise<boolean> {
    switch (step.kind) {
      case "grant":
        return this.#grant(step.userId, step.offers);
      case "adjust":
        await this.#adjust(step.accountId);
        return step.isLast && this.#outcome !== "ignored";
      case "store":
        return this.#store(read, step);
      case "none":
        return true;
    }
  }

  async #setPayer(customer: string | null): Promise<void> {
    if (customer === null || customer === "" || customer === this.#payer?.customer) return;
    this.#payer = { customer, keys: await payerKeys(this.#ctx, customer), newId: this.#ctx.newId("payer_") };
  }

  #reads() {
    return selectPayment(this.#ctx.environment.id, this.#move.change.names, this.#payer);
  }

  /** Joins the rows with the event. Returns null if the customer's row must be read first. */
  #readOf([rows, customers, payers]: PaymentRows): Read | null {
    const state = derivePaymentState(rows.map(readPayment), this.#move.change, customers[0]?.userId ?? null);
    const written = state.known.map(({ writtenBy }) => writtenBy);
    if (this.#sent !== null && written.includes(this.#sent.nonce)) this.#confirm();
    this.#sent = null;
    this.#storedCustomer = state.payerOf;
    if ((state.payerOf ?? "") !== "" && this.#payer === null) return null;
    return {
      state,
      payer: this.#payer === null ? null : readPayer(payers[0], this.#payer.customer, this.#payer.newId),
    };
  }

  #confirm(): void {
    if (this.#sent !== null) {
      this.#outcome = moreImportant(this.#outcome, this.#sent.outcome);
      this.#isLogged ||= this.#move.change.eventId !== null;
    }
    this.#sent = null;
  }

  /** Returns the function that stores a batch's changes. `grantee` is the user of its grant. */
  #storing({ state, payer }: Read, grantee: string | null): Storing {
    return (effect, planned) => {
      const nonce = this.#ctx.newId("");
      this.#sent = { nonce, outcome: effect.outcome };
      const step = { move: this.#move, rejection: this.#rejection, newId: this.#idOf(state), nonce, effect, planned };
      return writesOfStep(this.#ctx, { ...step, state, payer, payerKeys: this.#payer?.keys ?? [], grantee });
    };
  }

  #idOf({ known }: PaymentState): string {
    this.#paymentId ??= this.#ctx.newId("pay_");
    return known[0]?.id ?? this.#paymentId;
  }

  /** Returns whether the payment is stored. Otherwise it names an erased user, whom the next step leaves out. */
  async #store(read: Read, { effect, planned }: Extract<Step, { kind: "store" }>): Promise<boolean> {
    const ctx = this.#ctx;
    this.#storeFailures.attempt(JSON.stringify([read.state.known, read.payer, effect]));
    const { environment, db } = ctx;
    const { customer, customerUser } = read.state;
    // The guard aborts if another event has named the customer's user since the read.
    const hasUnknownUser = effect.reason === "no_user" && customer !== null && customerUser === null;
    const guard = hasUnknownUser ? [guardNoCustomer({ environmentId: environment.id, customer })] : [];
    const usersOfFacts = read.state.facts.map(({ userId }) => userId);
    const isNamed = keepsUsers(read.state, { rejection: this.#rejection, hasGrants: false });
    const ids = isNamed ? [customerUser, ...usersOfFacts].filter((userId) => userId !== null) : [];
    const send = async (guards: readonly Statement[]) =>
      batch(db, [...guards, ...guard, ...this.#storing(read, null)(effect, planned)]);
    // The guards abort if one of these users was erased (E4).
    try {
      if (ids.length === 0) await send([]);
      else await withTombstones(ctx, async (known, first) => send([first, ...(await personGuards(ctx, known, ids))]));
    } catch (error) {
      const isErased = findConstraint(error) === "guard_person";
      // At first the state is read again: its user may have been erased since.
      if (!isErased || !this.#wasErased) {
        this.#wasErased = isErased;
        throw error;
      }
      this.#rejection = "person_erased";
      return false;
    }
    this.#confirm();
    return true;
  }

  /** Writes for an account. `decide` receives the payment that was read with the account. Returns whether a batch was sent. */
  async #write(
    user: User,
    packs: readonly string[],
    decide: (read: Read, account: AccountAtRead, found: FoundAccounts) => Decision<true>,
  ): Promise<boolean> {
    const ctx = this.#ctx;
    this.#grantFailures.forget();
    await writeForUser(ctx, {
      user,
      read: () =>
        [
          ...this.#reads(),
          selectTrials(ctx, user, { from: TRIAL_REFS, to: TRIAL_REFS_END }),
          ...packs.map((pack) => selectPack(ctx, pack)),
        ] as const,
      decide: ([payments, customers, payers, trialRows, ...packRows], account) => {
        const read = this.#readOf([payments, customers, payers]);
        if (read === null) return replay(true);
        const rest = { trialRows, packRows, account: { ...account, nowMs: 0 } };
        this.#grantFailures.attempt(JSON.stringify([payments, customers, payers, rest]));
        return decide(read, account, {
          trials: new Set(trialRows.map(({ externalRef }) => externalRef.slice(TRIAL_REFS.length))),
          packOf: (pack) => choosePack(pack, packRows[packs.indexOf(pack)] ?? []),
        });
      },
      rejections: { ...grantRejections(ctx), guard_owed: () => new MustWait() },
    });
    const isWritten = this.#sent !== null;
    this.#confirm();
    return isWritten;
  }

  /** Returns whether the payment is granted, or settled without a grant. */
  async #grant(userId: string, offers: readonly Offer[]): Promise<boolean> {
    const { settle } = this.#move;
    const packs = [...new Set(settle?.packs ?? offers.flatMap(({ parts }) => parts.flatMap(({ pack }) => pack ?? [])))];
    try {
      return await this.#write({ userId }, packs, (read, account, { trials, packOf }) => {
        const { state, payer } = read;
        const currentOffers = offersNow(state, this.#move, payer).filter((offer) => offer.userId === userId);
        const isRead = currentOffers
          .flatMap(({ parts }) => parts)
          .every(({ pack }) => pack === null || packs.includes(pack));
        if (currentOffers.length === 0 || !isRead) return replay(true);
        const terms = { nowMs: account.nowMs, newId: this.#newId, packOf };
        const ofCustomer = new Set([...trials, ...(payer?.trials ?? [])]);
        const input = { state, account, offers: currentOffers, payer, paymentId: this.#idOf(state), ...terms };
        const decision = decidePaymentGrant(
          this.#ctx,
          this.#move,
          { ...input, trials: ofCustomer },
          this.#storing(read, userId),
        );
        if (typeof decision !== "string") return decision;
        this.#rejection = decision;
        return replay(true);
      });
    } catch (error) {
      this.#rejection = settle === undefined ? findRejectionReason(error) : null;
      if (this.#rejection === null) throw error;
      if (this.#rejection === "fault") logFault(this.#move.change.type, error);
      return false;
    }
  }

  readonly #newId = (index: number): string => {
    this.#balanceIds[index] ??= idIn(this.#ctx.environment.database, this.#ctx.newId("crb_"));
    return this.#balanceIds[index];
  };

  async #adjust(accountId: number): Promise<void> {
    await this.#write({ accountId }, [], (read, account) =>
      decideChanges(this.#move, { state: read.state, account }, this.#storing(read, null)),
    );
  }
}

/** Further rows that a grant reads. */
interface FoundAccounts {
  readonly packOf: (pack: string) => Pack | null;
  /** The packs of the user's past trials. */
  readonly trials: ReadonlySet<string>;
}
