import { grantRefusals } from "../books/credits/grant.ts";
import type { User } from "../books/ledger/account.ts";
import { type Decision, replay } from "../books/ledger/decision.ts";
import type { AccountAtRead } from "../books/ledger/read-account.ts";
import { writeForUser } from "../books/ledger/write.ts";
import { choosePack, type Pack, selectPack } from "../catalog/pack.ts";
import { attempt } from "../db/attempt.ts";
import { withTombstones } from "../db/known-tombstones.ts";
import { idIn } from "../db/session.ts";
import { batch, type Statement } from "../db/sql.ts";
import { personGuards } from "../db/tombstones.ts";
import type { TenantCtx } from "../runtime.ts";
import {
  type BooksRows,
  customerToStore,
  type EventBooks,
  factsToStore,
  linesAfter,
  moneyToStore,
  paymentsToStore,
  readBooks,
  selectBooks,
} from "./books.ts";
import { decideMotions, decidePaymentGrant, type Move, type Storing } from "./decide.ts";
import { factsOf } from "./facts.ts";
import { logStatement, selectLogged } from "./log.ts";
import {
  GRANTED,
  nextStep,
  offersNow,
  type PaymentStanding,
  type Refusal,
  type Step,
  standingOfKnown,
} from "./next-step.ts";
import type { Offer } from "./offer.ts";
import type { AccountPlan } from "./plan.ts";
import { hintOf, QUANTITY_DISREGARDED, type Reason, reasonOf } from "./reasons.ts";
import { OUTCOMES } from "./schemas.ts";
import { type PaymentState, shownKey } from "./state.ts";
import { guardNoCustomer, type PaymentWrite, storePayment } from "./store-payment.ts";
import { type PaymentOutcome, selectTrials } from "./stored-payment.ts";

/** When a message reports a payment that is still unmatched. */
const REPORT_AFTER_MS = 10 * 60 * 1_000;

const EMPTY_PLAN: AccountPlan = {
  ...{ motions: [], lines: [], debts: [], payers: [], assumedRemaining: [], deficits: new Map(), needs: [] },
};

export interface Moved {
  readonly outcome: PaymentOutcome;
  readonly paymentKey: string;
  /** Whether the log already has the event. */
  readonly isLogged: boolean;
  /** Whether nothing was granted because the user had already had the trial. */
  readonly isTrialOver: boolean;
}

/** Returns the more important of two outcomes. */
export const moreImportant = (a: PaymentOutcome, b: PaymentOutcome): PaymentOutcome =>
  OUTCOMES.indexOf(a) <= OUTCOMES.indexOf(b) ? a : b;

/**
 * Brings a payment to the state that its facts require, step by step. Each step reads, and writes one batch that includes the new
 * facts. So if an event was interrupted, its repetition completes it; otherwise a repetition changes nothing.
 */
export async function movePayment(ctx: TenantCtx, move: Move): Promise<Moved> {
  const run = new Run(ctx, move);
  return attempt(ctx, () => run.finish());
}

/** Further rows that a grant reads. */
interface FoundBooks {
  readonly packOf: (pack: string) => Pack | null;
  readonly trials: ReadonlySet<string>;
}

/** Returns whether a quantity is given for a pack with items. */
const disregardsQuantity = ({ facts }: PaymentState, { packOf }: FoundBooks): boolean =>
  [...factsOf(facts, "session"), ...factsOf(facts, "intent")].some(
    ({ data: { pack, quantity } }) => quantity !== null && pack !== null && (packOf(pack)?.items.length ?? 0) > 0,
  );

/** The state of a move during its attempts, with its results so far. */
class Run {
  readonly #ctx: TenantCtx;
  readonly #move: Move;
  readonly #balanceIds: string[] = [];
  #outcome: PaymentOutcome = "ignored";
  /** The last write that was sent. If its response was lost, the payment's `writtenBy` shows that it succeeded. */
  #sent: { readonly nonce: string; readonly outcome: PaymentOutcome } | null = null;
  /** Why the grant was refused. */
  #refusal: Refusal | null = null;
  /** A remark about the grant, for the log. */
  #remark: string | null = null;
  /** Names of further payments to read, because their lines paid debts. */
  readonly #more = new Set<string>();
  /** The ids of new payments, the same in every attempt. */
  readonly #paymentIds = new Map<string, string>();
  #isLogged = false;

  constructor(ctx: TenantCtx, move: Move) {
    this.#ctx = ctx;
    this.#move = move;
  }

  async finish(): Promise<Moved> {
    this.#refusal = null;
    for (;;) {
      const eventId = this.#move.change.eventId ?? "";
      const logged = selectLogged({ environmentId: this.#ctx.environment.id, eventId });
      const [[logRow], ...rows] = await batch(this.#ctx.db, [logged, ...this.#reads("")] as const);
      this.#isLogged = logRow !== undefined;
      const books = this.#booksOf(rows);
      const terms = { nowMs: this.#ctx.now(), newDebtId: this.#newDebtId };
      const step = nextStep(books, offersNow(books.eventPayment, this.#move), this.#refusal, terms);
      if (await this.#take(books, step)) {
        const isTrialOver = this.#refusal === "trial_over";
        const paymentKey = shownKey(books.eventPayment.names);
        return { outcome: this.#outcome, paymentKey, isLogged: this.#isLogged, isTrialOver };
      }
    }
  }

  /** Takes a step. Returns whether it was the last one. */
  async #take(books: EventBooks, step: Step): Promise<boolean> {
    switch (step.kind) {
      case "grant":
        await this.#grant(step.userId, step.offers);
        return this.#outcome === "granted";
      case "adjust":
        await this.#adjust(step);
        return step.isLast && this.#outcome !== "ignored";
      case "read":
        for (const name of step.names) this.#more.add(name);
        return false;
      case "store":
        await this.#store(books, step);
        return true;
      case "none":
        return true;
    }
  }

  #reads(userId: string) {
    return selectBooks(this.#ctx.environment.id, this.#move, this.#more, userId);
  }

  #booksOf(rows: BooksRows): EventBooks {
    const books = readBooks(this.#move, rows);
    const written = books.payments.flatMap((payment) => payment.known.map(({ writtenBy }) => writtenBy));
    if (this.#sent !== null && written.includes(this.#sent.nonce)) this.#confirm();
    this.#sent = null;
    return books;
  }

  #confirm(): void {
    if (this.#sent !== null) this.#outcome = moreImportant(this.#outcome, this.#sent.outcome);
    this.#sent = null;
  }

  /** Returns the function that stores a batch's changes with an outcome. `grantee` is the user of its grant. */
  #storing(books: EventBooks, standing: PaymentStanding, grantee: string | null = null): Storing {
    return (_, plan, outcome, all) => {
      const nonce = this.#ctx.newId("");
      this.#sent = { nonce, outcome };
      return [
        ...paymentsToStore(books, plan, standing, all).flatMap((toStore) => {
          const isEventPayment = toStore.payment === books.eventPayment;
          const write = { nonce, outcome, plan, isEventPayment };
          return storePayment(this.#writeOf(toStore.payment, toStore.standing, write));
        }),
        ...this.#logOf(books, standing, outcome, grantee),
      ];
    };
  }

  /** Returns the statement that logs the event's outcome. Sent in the batch of its effect. */
  #logOf(
    { eventPayment }: EventBooks,
    standing: PaymentStanding,
    outcome: PaymentOutcome,
    grantee: string | null,
  ): Statement[] {
    const { eventId, type, asked } = this.#move.change;
    if (eventId === null || asked === null) return [];
    const { objectId, pack } = asked;
    // The batch aborts if one of these users was erased (E4). The log names no other user.
    const guarded = [grantee, ...factsToStore(eventPayment, standing).map(({ userId }) => userId)];
    const user = guarded.includes(asked.user) ? asked.user : null;
    const reason = outcome === "unmatched" ? (standing.reason as Reason | null) : null;
    const hint = reason === null ? this.#remark : hintOf(reason, type, asked.hint);
    const paymentKey = this.#move.eventPaymentKey ?? shownKey(eventPayment.names);
    const entry = { eventId, type, outcome, reason, objectId, asked: { pack, user }, hint, paymentKey };
    return [logStatement(this.#ctx, entry)];
  }

  #writeOf(
    state: PaymentState,
    standing: PaymentStanding,
    write: { nonce: string; outcome: PaymentOutcome; plan: AccountPlan; isEventPayment: boolean },
  ): PaymentWrite {
    const { nonce, outcome, plan, isEventPayment } = write;
    const { change, settle } = this.#move;
    const { environment, now } = this.#ctx;
    const [kept] = state.known;
    const unmatched = state.known.find((payment) => payment.status === "unmatched");
    const tellAtMs = unmatched === undefined ? now() + REPORT_AFTER_MS : unmatched.tellAtMs;
    return {
      ...{ environmentId: environment.id, nowMs: now(), writtenBy: nonce, ...standing, outcome },
      ...{ known: state.known, names: state.names, facts: factsToStore(state, standing) },
      ...{ customer: customerToStore(state, standing), lines: linesAfter(state, plan) },
      id: this.#idOf(state),
      settledBy: (isEventPayment ? settle?.stamp : undefined) ?? kept?.settledBy ?? null,
      tellAtMs: standing.status === "unmatched" ? tellAtMs : null,
      surplus: state.grants.flatMap(({ balanceId, isSurplus }) => (isSurplus === 1 ? [balanceId] : [])),
      event: change.eventId === null ? null : { ...change, eventId: change.eventId },
      ...moneyToStore(state),
    };
  }

  #idOf({ known, names }: PaymentState): string {
    const name = names[0] ?? "";
    const id = known[0]?.id ?? this.#paymentIds.get(name) ?? this.#ctx.newId("pay_");
    this.#paymentIds.set(name, id);
    return id;
  }

  async #store(books: EventBooks, { outcome, ...standing }: Extract<Step, { kind: "store" }>): Promise<void> {
    const ctx = this.#ctx;
    const { environment, db } = ctx;
    const { customer, customerUser } = books.eventPayment;
    // The guard aborts if another event has named the customer's user since the read.
    const hasUnknownUser = standing.reason === "no_user" && customer !== null && customerUser === null;
    const guard = hasUnknownUser ? [guardNoCustomer({ environmentId: environment.id, customer })] : [];
    const userOfCustomer = customerToStore(books.eventPayment, standing) === null ? null : customerUser;
    const usersInFacts = paymentsToStore(books, EMPTY_PLAN, standing, true).flatMap((toStore) =>
      factsToStore(toStore.payment, toStore.standing).map(({ userId }) => userId),
    );
    const ids = [userOfCustomer, ...usersInFacts].filter((userId) => userId !== null);
    const send = async (guards: readonly Statement[]) =>
      batch(db, [...guards, ...guard, ...this.#storing(books, standing)(books, EMPTY_PLAN, outcome, true)]);
    // The guards abort if one of these users was erased since the read (E4).
    if (ids.length === 0) await send([]);
    else await withTombstones(ctx, async (known, first) => send([first, ...(await personGuards(ctx, known, ids))]));
    this.#confirm();
  }

  /** Writes for an account. `decide` receives the payments and debts that were read together with the account. */
  async #write(
    user: User,
    { packs, trials }: { readonly packs: readonly string[]; readonly trials: readonly string[] },
    decide: (books: EventBooks, account: AccountAtRead, found: FoundBooks) => Decision<true>,
  ): Promise<void> {
    const ctx = this.#ctx;
    await writeForUser(ctx, {
      user,
      read: () =>
        [
          ...this.#reads("userId" in user ? user.userId : ""),
          selectTrials(ctx, user, { refs: JSON.stringify(trials) }),
          ...packs.map((pack) => selectPack(ctx, pack)),
        ] as const,
      decide: ([payments, customers, debts, trialRows, ...packRows], account) =>
        decide(this.#booksOf([payments, customers, debts]), account, {
          trials: new Set(trialRows.map(({ externalRef }) => externalRef)),
          packOf: (pack) => choosePack(pack, packRows[packs.indexOf(pack)] ?? []),
        }),
      refusals: grantRefusals(ctx),
    });
    this.#confirm();
  }

  async #grant(userId: string, offers: readonly Offer[]): Promise<void> {
    const { settle } = this.#move;
    const parts = offers.flatMap((offer) => offer.parts);
    const read = {
      packs: [...new Set(settle?.packs ?? parts.flatMap(({ pack }) => pack ?? []))],
      trials: parts.filter(({ isTrial }) => isTrial).map(({ externalRef }) => externalRef),
    };
    try {
      await this.#write({ userId }, read, (books, account, found) => {
        const { eventPayment: state } = books;
        const currentOffers = offersNow(state, this.#move).filter((offer) => offer.userId === userId);
        const isRead = currentOffers
          .flatMap((offer) => offer.parts)
          .every(
            ({ pack, isTrial, externalRef }) =>
              (pack === null || read.packs.includes(pack)) && (!isTrial || read.trials.includes(externalRef)),
          );
        if (currentOffers.length === 0 || !isRead) return replay(true);
        const terms = { nowMs: account.nowMs, newId: this.#newId, newDebtId: this.#newDebtId, ...found };
        this.#remark = settle === undefined && disregardsQuantity(state, found) ? QUANTITY_DISREGARDED : null;
        const input = { books, state, account, offers: currentOffers, paymentId: this.#idOf(state), ...terms };
        const decision = decidePaymentGrant(this.#ctx, this.#move, input, this.#storing(books, GRANTED, userId));
        if (typeof decision !== "string") return decision;
        this.#refusal = decision;
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

  readonly #newDebtId = (): string => this.#ctx.newId("dbt_");

  async #adjust({ accountId, deficits, isLast }: Extract<Step, { kind: "adjust" }>): Promise<void> {
    await this.#write({ accountId }, { packs: [], trials: [] }, (books, account) => {
      const { eventPayment: state } = books;
      const input = { books, state, account, deficits, isLast, newDebtId: this.#newDebtId };
      return decideMotions(this.#ctx, this.#move, input, this.#storing(books, standingOfKnown(state)));
    });
  }
}
