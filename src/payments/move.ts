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

/** After this time a message reports a payment that is still unmatched. */
const TELL_AFTER_MS = 10 * 60 * 1_000;

const NOTHING: AccountPlan = {
  ...{ motions: [], lines: [], debts: [], payers: [], judged: [], deficits: new Map(), needs: [] },
};

export interface Moved {
  readonly outcome: PaymentOutcome;
  readonly paymentKey: string;
  /** Whether the log has the event already. */
  readonly isLogged: boolean;
  /** Whether nothing was granted because the user had the trial. */
  readonly isTrialOver: boolean;
}

/** The more important of two outcomes. */
export const stronger = (a: PaymentOutcome, b: PaymentOutcome): PaymentOutcome =>
  OUTCOMES.indexOf(a) <= OUTCOMES.indexOf(b) ? a : b;

/**
 * Brings a payment to the state that its facts require, step by step. Each step reads, and writes one batch that includes the new
 * fact. So a repeated event completes an interrupted one, and otherwise changes nothing.
 */
export async function movePayment(ctx: TenantCtx, move: Move): Promise<Moved> {
  const run = new Run(ctx, move);
  return attempt(ctx, () => run.finish());
}

/** The further rows that a grant reads. */
interface FoundBooks {
  readonly packOf: (pack: string) => Pack | null;
  readonly trials: ReadonlySet<string>;
}

/** Whether a quantity is given for a pack with items. */
const disregardsQuantity = ({ facts }: PaymentState, { packOf }: FoundBooks): boolean =>
  [...factsOf(facts, "session"), ...factsOf(facts, "intent")].some(
    ({ data: { pack, quantity } }) => quantity !== null && pack !== null && (packOf(pack)?.items.length ?? 0) > 0,
  );

/** The state of a move: constant over its attempts, and its results so far. */
class Run {
  readonly #ctx: TenantCtx;
  readonly #move: Move;
  readonly #balanceIds: string[] = [];
  #outcome: PaymentOutcome = "ignored";
  /** The last write that was sent. If its response was lost, the payment's `writtenBy` shows that it succeeded. */
  #sent: { readonly nonce: string; readonly outcome: PaymentOutcome } | null = null;
  /** Why the grant was refused. */
  #refusal: Refusal | null = null;
  /** The log's remark about a grant. */
  #remark: string | null = null;
  /** Further payments to read, because their lines paid debts. */
  readonly #more = new Set<string>();
  /** The ids of new rows, the same in every attempt. */
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
      const [[known], ...rows] = await batch(this.#ctx.db, [logged, ...this.#reads("")] as const);
      this.#isLogged = known !== undefined;
      const books = this.#booksOf(rows);
      const terms = { nowMs: this.#ctx.now(), newDebtId: this.#newDebtId };
      const step = nextStep(books, offersNow(books.own, this.#move), this.#refusal, terms);
      if (await this.#take(books, step)) {
        const isTrialOver = this.#refusal === "trial_over";
        const paymentKey = shownKey(books.own.names);
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
    if (this.#sent !== null) this.#outcome = stronger(this.#outcome, this.#sent.outcome);
    this.#sent = null;
  }

  /** The statements that store a batch's changes with this outcome. `grantee`: the user of its grant. */
  #storing(books: EventBooks, standing: PaymentStanding, grantee: string | null = null): Storing {
    return (_, plan, outcome, all) => {
      const nonce = this.#ctx.newId("");
      this.#sent = { nonce, outcome };
      return [
        ...paymentsToStore(books, plan, standing, all).flatMap(({ payment, standing: own }) =>
          storePayment(this.#writeOf(payment, own, { nonce, outcome, plan, isOwn: payment === books.own })),
        ),
        ...this.#logOf(books, standing, outcome, grantee),
      ];
    };
  }

  /** Logs the event's outcome, in the batch with its effect. */
  #logOf({ own }: EventBooks, standing: PaymentStanding, outcome: PaymentOutcome, grantee: string | null): Statement[] {
    const { eventId, type, asked } = this.#move.change;
    if (eventId === null || asked === null) return [];
    const { objectId, pack } = asked;
    // The batch aborts if these users were erased (E4). It names no others.
    const guarded = [grantee, ...factsToStore(own, standing).map(({ userId }) => userId)];
    const user = guarded.includes(asked.user) ? asked.user : null;
    const why = outcome === "unmatched" ? (standing.reason as Reason | null) : null;
    const hint = why === null ? this.#remark : hintOf(why, type, asked.hint);
    const entry = { eventId, type, outcome, reason: why, objectId, asked: { pack, user }, hint };
    return [logStatement(this.#ctx, { ...entry, paymentKey: this.#move.ownKey ?? shownKey(own.names) })];
  }

  #writeOf(
    state: PaymentState,
    standing: PaymentStanding,
    { nonce, outcome, plan, isOwn }: { nonce: string; outcome: PaymentOutcome; plan: AccountPlan; isOwn: boolean },
  ): PaymentWrite {
    const { change, settle } = this.#move;
    const { environment, now } = this.#ctx;
    const [kept] = state.known;
    const unmatched = state.known.find((payment) => payment.status === "unmatched");
    const tellAtMs = unmatched === undefined ? now() + TELL_AFTER_MS : unmatched.tellAtMs;
    return {
      ...{ environmentId: environment.id, nowMs: now(), writtenBy: nonce, ...standing, outcome },
      ...{ known: state.known, names: state.names, facts: factsToStore(state, standing) },
      ...{ customer: customerToStore(state, standing), lines: linesAfter(state, plan) },
      id: this.#idOf(state),
      settledBy: (isOwn ? settle?.stamp : undefined) ?? kept?.settledBy ?? null,
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
    const { customer, customerUser } = books.own;
    // Another event may name the customer's user meanwhile.
    const isForNobody = standing.reason === "no_user" && customer !== null && customerUser === null;
    const guard = isForNobody ? [guardNoCustomer({ environmentId: environment.id, customer })] : [];
    const userOfCustomer = customerToStore(books.own, standing) === null ? null : customerUser;
    const named = paymentsToStore(books, NOTHING, standing, true).flatMap(({ payment, standing: own }) =>
      factsToStore(payment, own).map(({ userId }) => userId),
    );
    const ids = [userOfCustomer, ...named].filter((userId) => userId !== null);
    const send = async (guards: readonly Statement[]) =>
      batch(db, [...guards, ...guard, ...this.#storing(books, standing)(books, NOTHING, outcome, true)]);
    // Users who were erased since the read are not named (E4).
    if (ids.length === 0) await send([]);
    else await withTombstones(ctx, async (known, first) => send([first, ...(await personGuards(ctx, known, ids))]));
    this.#confirm();
  }

  /** Decides on the state that was read together with the account. */
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
      decide: ([payments, customers, debts, had, ...packRows], account) =>
        decide(this.#booksOf([payments, customers, debts]), account, {
          trials: new Set(had.map(({ externalRef }) => externalRef)),
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
        const { own: state } = books;
        const own = offersNow(state, this.#move).filter((offer) => offer.userId === userId);
        const isRead = own
          .flatMap((offer) => offer.parts)
          .every(
            ({ pack, isTrial, externalRef }) =>
              (pack === null || read.packs.includes(pack)) && (!isTrial || read.trials.includes(externalRef)),
          );
        if (own.length === 0 || !isRead) return replay(true);
        const terms = { nowMs: account.nowMs, newId: this.#newId, newDebtId: this.#newDebtId, ...found };
        this.#remark = settle === undefined && disregardsQuantity(state, found) ? QUANTITY_DISREGARDED : null;
        const of = { books, state, account, offers: own, paymentId: this.#idOf(state), ...terms };
        const decided = decidePaymentGrant(this.#ctx, this.#move, of, this.#storing(books, GRANTED, userId));
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

  readonly #newDebtId = (): string => this.#ctx.newId("dbt_");

  async #adjust({ accountId, deficits, isLast }: Extract<Step, { kind: "adjust" }>): Promise<void> {
    await this.#write({ accountId }, { packs: [], trials: [] }, (books, account) => {
      const of = { books, state: books.own, account, deficits, isLast, newDebtId: this.#newDebtId };
      return decideMotions(this.#ctx, this.#move, of, this.#storing(books, standingOfKnown(books.own)));
    });
  }
}
