import type { Fraction } from "../books/amounts/amount.ts";
import type { PaymentMotion } from "../books/ledger/insert-takings.ts";
import type { NewBalance } from "../books/ledger/new-balances.ts";
import { creditOf, lineOf, type StoredDebt, type StoredLine } from "./line.ts";
import {
  type ChangedDebt,
  type ChangedPayer,
  DebtBook,
  type DebtTerms,
  dueOfGrant,
  isLineJudged,
  type MovingGrant,
  type PlannedLine,
  settleLine,
  shareOfGrant,
} from "./plan-lines.ts";
import type { PaymentState } from "./state.ts";

/** Everything that an event concerns: its payment, those whose lines it credits or that paid a debt, and the debts. */
export interface Books {
  readonly payments: readonly PaymentState[];
  readonly debts: readonly StoredDebt[];
  /** The Stripe customer of the event's invoice; empty for none. */
  readonly customer: string;
}

/** A balance that the batch issues, with or without a line. */
export interface Issued {
  readonly payment: PaymentState;
  readonly line: string | null;
  readonly balances: readonly Pick<NewBalance, "id" | "amountSteps">[];
}

export type PlannedMotion = PaymentMotion & { readonly payment: PaymentState };

/** The changes of one account's balances, lines and debts. They are written in one batch. */
export interface AccountPlan {
  /** Amounts to take, and then amounts to give back. */
  readonly motions: readonly PlannedMotion[];
  readonly lines: readonly PlannedLine[];
  readonly debts: readonly ChangedDebt[];
  readonly payers: readonly ChangedPayer[];
  /** The remaining amounts on which the plan depends. */
  readonly judged: readonly { readonly balanceId: string; readonly remainingSteps: number }[];
  /** Debts that would become negative, until other accounts' lines get back the parts that they paid. */
  readonly deficits: ReadonlyMap<string, number>;
  readonly needs: readonly string[];
}

export interface AccountTerms extends DebtTerms {
  /** Null when the user has none yet. */
  readonly accountId: number | null;
  readonly issued?: readonly Issued[];
  /** The amounts that due holds return in the same batch. */
  readonly returns?: ReadonlyMap<string, number>;
}

/** The difference between the amounts due and the current state of one account. Pure, except for ids of new debts. */
export function planAccount(books: Books, terms: AccountTerms): AccountPlan {
  const { accountId, issued = [], returns = new Map() } = terms;
  const book = new DebtBook(books.debts, terms);
  const known = books.payments.flatMap((payment) => linesOf(payment, accountId, returns));
  for (const one of known) settle(one, book, books, accountId);
  const fresh = issued.flatMap((one) => newLineOf(one));
  const isCredited = ({ payment, line }: PlannedLine) => creditOf(payment.facts, line).numerator > 0n;
  for (const one of fresh.toSorted((a, b) => Number(isCredited(b)) - Number(isCredited(a)))) {
    one.line = { ...one.line, paid: book.pay(accountId, books.customer, one.line) };
    settle(one, book, books, accountId);
  }
  const lines = [...known, ...fresh];
  const needs = relieve(lines, book, books, accountId);
  const changed = lines.filter(({ before, line }) => JSON.stringify(before) !== JSON.stringify(line));
  const grants = books.payments.flatMap((payment) => grantsOf(payment, accountId, returns));
  const news = issued.flatMap(({ payment, line, balances }) =>
    balances.map((balance) => ({ payment, grant: grantOf(balance, line) })),
  );
  const motions = [...grants, ...news].flatMap(({ payment, grant }) => motionOf(payment, grant, lines) ?? []);
  return {
    motions: motions.toSorted((a, b) => Number(b.isMore) - Number(a.isMore)),
    ...{ lines: changed, ...book.changes, deficits: book.deficits, needs },
    judged: changed
      .filter(({ before, line }) => before !== null && isLineJudged(line))
      .flatMap(({ grants: own }) => own.map(({ balanceId, remainingSteps }) => ({ balanceId, remainingSteps }))),
  };
}

export const isEmptyPlan = ({ motions, lines }: AccountPlan): boolean => motions.length === 0 && lines.length === 0;

interface OwnGrant {
  readonly payment: PaymentState;
  readonly grant: MovingGrant;
}

function grantsOf(payment: PaymentState, accountId: number | null, returns: ReadonlyMap<string, number>): OwnGrant[] {
  return payment.grants
    .filter((grant) => grant.accountId === accountId)
    .map((grant) => ({ payment, grant: withReturn(grant, returns.get(grant.balanceId) ?? 0) }));
}

/** A return to a revoked balance is taken back immediately (U9). */
export function withReturn(grant: MovingGrant, steps: number): MovingGrant {
  if (steps === 0) return grant;
  if (grant.isClosed === 1) return { ...grant, operatorSteps: grant.operatorSteps + steps };
  const isRevoked = grant.dueSteps === grant.initialSteps;
  if (isRevoked) return { ...grant, takenSteps: (grant.takenSteps + steps) as typeof grant.takenSteps };
  return { ...grant, remainingSteps: (grant.remainingSteps + steps) as typeof grant.remainingSteps };
}

function linesOf(payment: PaymentState, accountId: number | null, returns: ReadonlyMap<string, number>): PlannedLine[] {
  const own = grantsOf(payment, accountId, returns).map(({ grant }) => grant);
  return payment.lines.flatMap((line) => {
    const grants = own.filter((grant) => grant.line === line.key && grant.isErased === 0);
    return grants.length === 0 ? [] : [{ payment, grants, before: line, line }];
  });
}

function newLineOf({ payment, line: key, balances }: Issued): PlannedLine[] {
  const line = key === null ? null : lineOf(payment.facts, key);
  if (line === null) return [];
  return [{ payment, grants: balances.map((balance) => grantOf(balance, key)), before: null, line }];
}

function grantOf({ id, amountSteps }: Issued["balances"][number], line: string | null): MovingGrant {
  const none = 0 as typeof amountSteps;
  return {
    ...{ balanceId: id, accountId: 0, line, initialSteps: amountSteps, remainingSteps: amountSteps },
    ...{ dueSteps: none, takenSteps: none, operatorSteps: 0, isSurplus: 0, isClosed: 0, isErased: 0 },
  };
}

function settle(one: PlannedLine, book: DebtBook, books: Books, accountId: number | null): void {
  const { owed } = one.line;
  const settled = settleLine(one);
  const isTouched = settled.owed > 0 || settled.paid > 0 || settled.credited[0] !== "0";
  const debt = settled.debt ?? (isTouched ? book.idOf(accountId, books.customer, settled.currency) : null);
  one.line = { ...settled, debt };
  if (debt !== null) book.add(debt, settled.owed - owed);
}

/** If a debt would become negative, the newest lines that paid it get that amount back. Returns those of other accounts. */
function relieve(lines: readonly PlannedLine[], book: DebtBook, books: Books, accountId: number | null): string[] {
  const needs = new Set<string>();
  for (let isMore = true; isMore; ) {
    isMore = false;
    for (const [id, deficit] of book.deficits) {
      for (const { line: key, amount } of book.payersOf(id, deficit)) {
        const own = lines.find(({ line }) => line.key === key);
        if (own === undefined) {
          needs.add(key);
          continue;
        }
        book.giveBack(id, key, amount);
        own.line = { ...own.line, paid: own.line.paid - amount };
        settle(own, book, books, accountId);
        isMore = true;
      }
    }
  }
  return [...needs];
}

function motionOf(payment: PaymentState, grant: MovingGrant, lines: readonly PlannedLine[]): PlannedMotion | null {
  const planned = lines.find(({ line }) => line.key === grant.line);
  const line: StoredLine | null = planned?.line ?? payment.lines.find(({ key }) => key === grant.line) ?? null;
  const share: Fraction = shareOfGrant(payment, grant);
  const dueSteps = dueOfGrant(share, grant, line);
  if (dueSteps === grant.dueSteps) return null;
  const isWhole = dueSteps === grant.initialSteps;
  return { payment, balanceId: grant.balanceId, dueSteps, isWhole, isMore: dueSteps > grant.dueSteps };
}
