import { grantRefusals } from "../books/credits/grant.ts";
import type { User } from "../books/ledger/account.ts";
import { type Decision, replay } from "../books/ledger/decision.ts";
import type { AccountAtRead } from "../books/ledger/send.ts";
import { writeForUser } from "../books/ledger/write.ts";
import { choosePack, type Pack, selectPack } from "../catalog/packs/pack.ts";
import { attempt } from "../db/attempt.ts";
import { idIn } from "../db/databases.ts";
import { batch, type Statement } from "../db/sql.ts";
import { personGuards } from "../db/tombstones/check.ts";
import { withTombstones } from "../db/tombstones/known.ts";
import type { TenantCtx } from "../runtime.ts";
import {
  type BooksRows,
  customerToKeep,
  type EventBooks,
  factsToKeep,
  linesAfter,
  moneyToKeep,
  paymentsToStore,
  readBooks,
  selectBooks,
} from "./books.ts";
import { decideGrant, decideMotions, type Move, type Storing } from "./decide.ts";
import { factsOf } from "./facts.ts";
import { hintOf, QUANTITY_DISREGARDED } from "./hints.ts";
import { logStatement, selectLogged } from "./log.ts";
import { GRANTED, nextStep, offersNow, type Refusal, type Standing, type Step, standingOfKnown } from "./next-step.ts";
import { type Offer, type Reason, reasonOf } from "./offer.ts";
import type { AccountPlan } from "./plan.ts";
import { OUTCOMES } from "./schemas.ts";
import { type PaymentState, shownKey } from "./state.ts";
import { guardNoCustomer, type PaymentWrite, storePayment } from "./store-payment.ts";
import { type Outcome, selectTrials } from "./stored-payment.ts";

/** An unmatched payment is told when it still is one after so long. */
const TELL_AFTER_MS = 10 * 60 * 1_000;

const NOTHING: AccountPlan = {
  ...{ motions: [], lines: [], debts: [], payers: [], judged: [], deficits: new Map(), needs: [] },
};

export interface Moved {
  readonly outcome: Outcome;
  readonly paymentKey: string;
  /** Whether the log has the event already. */
  readonly isLogged: boolean;
  /** Whether nothing was granted because the user had the trial. */
  readonly isTrialOver: boolean;
}

/** Which of two outcomes says more. */
export const stronger = (a: Outcome, b: Outcome): Outcome => (OUTCOMES.indexOf(a) <= OUTCOMES.indexOf(b) ? a : b);

/**
 * Brings a payment to the state that is due: reads what is stored, and goes step by step until nothing is to be done. Each
 * step is one batch, with the fact that moved it. So a repeat completes what was cut, and finds nothing else to do.
 */
export async function movePayment(ctx: TenantCtx, move: Move): Promise<Moved> {
  const run = new Run(ctx, move);
  return attempt(ctx, () => run.toItsEnd());
}

/** What a grant reads besides. */
interface Found {
  readonly packOf: (pack: string) => Pack | null;
  readonly trials: ReadonlySet<string>;
}

/** Whether a quantity is named of a pack with items. */
const disregardsQuantity = ({ facts }: PaymentState, { packOf }: Found): boolean =>
  [...factsOf(facts, "session"), ...factsOf(facts, "intent")].some(
    ({ data: { pack, quantity } }) => quantity !== null && pack !== null && (packOf(pack)?.items.length ?? 0) > 0,
  );

/** What stays the same in every attempt of a move, and what it did so far. */
class Run {
  readonly #ctx: TenantCtx;
  readonly #move: Move;
  readonly #balanceIds: string[] = [];
  #outcome: Outcome = "ignored";
  /** The last write that was sent. Where its answer was lost, the payment says that it landed. */
  #sent: { readonly nonce: string; readonly outcome: Outcome } | null = null;
  /** Why the grant was refused. */
  #refusal: Refusal | null = null;
  /** What the log says of a grant. */
  #remark: string | null = null;
  /** More payments that are read: lines of theirs paid debts. */
  readonly #more = new Set<string>();
  /** The ids of what is new, the same in every attempt. */
  readonly #paymentIds = new Map<string, string>();
  #isLogged = false;

  constructor(ctx: TenantCtx, move: Move) {
    this.#ctx = ctx;
    this.#move = move;
  }

  async toItsEnd(): Promise<Moved> {
    this.#refusal = null;
    for (;;) {
      const eventId = this.#move.change.eventId ?? "";
      const logged = selectLogged({ environmentId: this.#ctx.environment.id, eventId });
      const [[known], ...rows] = await batch(this.#ctx.db, [logged, ...this.#reads("")] as const);
      this.#isLogged = known !== undefined;
      const books = this.#booksOf(rows);
      const terms = { nowMs: this.#ctx.now(), newDebtId: this.#newDebtId };
      const step = nextStep(books, offersNow(books.own, this.#move), this.#refusal, terms);
      if (await this.#isEnd(books, step)) {
        const isTrialOver = this.#refusal === "trial_over";
        const paymentKey = shownKey(books.own.names);
        return { outcome: this.#outcome, paymentKey, isLogged: this.#isLogged, isTrialOver };
      }
    }
  }

  /** Does a step. Whether nothing more is to be done, as far as is known. */
  async #isEnd(books: EventBooks, step: Step): Promise<boolean> {
    switch (step.kind) {
      case "grant":
        await this.#grant(step.userId, step.offers);
        return this.#outcome === "granted";
      case "bring":
        await this.#bring(step);
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
    if (this.#sent !== null && written.includes(this.#sent.nonce)) this.#landed();
    this.#sent = null;
    return books;
  }

  #landed(): void {
    if (this.#sent !== null) this.#outcome = stronger(this.#outcome, this.#sent.outcome);
    this.#sent = null;
  }

  /** The statements that store what a batch touches, with this outcome. `grantee`: whose grant it has. */
  #storing(books: EventBooks, standing: Standing, grantee: string | null = null): Storing {
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

  /** Notes what the event did, in the batch that does it. */
  #logOf({ own }: EventBooks, standing: Standing, outcome: Outcome, grantee: string | null): Statement[] {
    const { eventId, type, asked } = this.#move.change;
    if (eventId === null || asked === null) return [];
    const { objectId, pack } = asked;
    // The batch aborts where these were erased (E4). Nobody else is named.
    const guarded = [grantee, ...factsToKeep(own, standing).map(({ userId }) => userId)];
    const user = guarded.includes(asked.user) ? asked.user : null;
    const why = outcome === "unmatched" ? (standing.reason as Reason | null) : null;
    const hint = why === null ? this.#remark : hintOf(why, type, asked.hint);
    const entry = { eventId, type, outcome, reason: why, objectId, asked: { pack, user }, hint };
    return [logStatement(this.#ctx, { ...entry, paymentKey: shownKey(own.names) })];
  }

  #writeOf(
    state: PaymentState,
    standing: Standing,
    { nonce, outcome, plan, isOwn }: { nonce: string; outcome: Outcome; plan: AccountPlan; isOwn: boolean },
  ): PaymentWrite {
    const { change, settle } = this.#move;
    const { environment, now } = this.#ctx;
    const [kept] = state.known;
    const unmatched = state.known.find((payment) => payment.status === "unmatched");
    const tellAtMs = unmatched === undefined ? now() + TELL_AFTER_MS : unmatched.tellAtMs;
    return {
      ...{ environmentId: environment.id, nowMs: now(), writtenBy: nonce, ...standing, outcome },
      ...{ known: state.known, names: state.names, facts: factsToKeep(state, standing) },
      ...{ customer: customerToKeep(state, standing), lines: linesAfter(state, plan) },
      id: this.#idOf(state),
      settledBy: (isOwn ? settle?.stamp : undefined) ?? kept?.settledBy ?? null,
      tellAtMs: standing.status === "unmatched" ? tellAtMs : null,
      surplus: state.grants.flatMap(({ balanceId, isSurplus }) => (isSurplus === 1 ? [balanceId] : [])),
      event: change.eventId === null ? null : { ...change, eventId: change.eventId },
      ...moneyToKeep(state),
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
    // Somebody may say meanwhile whose the customer is.
    const isForNobody = standing.reason === "no_user" && customer !== null && customerUser === null;
    const guard = isForNobody ? [guardNoCustomer({ environmentId: environment.id, customer })] : [];
    const userOfCustomer = customerToKeep(books.own, standing) === null ? null : customerUser;
    const named = paymentsToStore(books, NOTHING, standing, true).flatMap(({ payment, standing: own }) =>
      factsToKeep(payment, own).map(({ userId }) => userId),
    );
    const ids = [userOfCustomer, ...named].filter((userId) => userId !== null);
    const send = async (guards: readonly Statement[]) =>
      batch(db, [...guards, ...guard, ...this.#storing(books, standing)(books, NOTHING, outcome, true)]);
    // Nobody is named who was erased since the payment was read (E4).
    if (ids.length === 0) await send([]);
    else await withTombstones(ctx, async (known, first) => send([first, ...(await personGuards(ctx, known, ids))]));
    this.#landed();
  }

  /** Decides on the state as it is read with the account. */
  async #write(
    user: User,
    { packs, trials }: { readonly packs: readonly string[]; readonly trials: readonly string[] },
    decide: (books: EventBooks, account: AccountAtRead, found: Found) => Decision<true>,
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
    this.#landed();
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
        const decided = decideGrant(this.#ctx, this.#move, of, this.#storing(books, GRANTED, userId));
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

  async #bring({ accountId, deficits, isLast }: Extract<Step, { kind: "bring" }>): Promise<void> {
    await this.#write({ accountId }, { packs: [], trials: [] }, (books, account) => {
      const of = { books, state: books.own, account, deficits, isLast, newDebtId: this.#newDebtId };
      return decideMotions(this.#ctx, this.#move, of, this.#storing(books, standingOfKnown(books.own)));
    });
  }
}
