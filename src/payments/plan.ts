import type { Fraction } from "../books/amounts/amount.ts";
import type { PaymentMotion } from "../books/ledger/insert-takings.ts";
import type { NewBalance } from "../books/ledger/new-balances.ts";
import { creditOf, lineOf, type StoredDebt, type StoredLine } from "./line.ts";
import {
  type ChangedDebt,
  type ChangedPayer,
  DebtBook,
  type DebtTerms,
  dependsOnBalances,
  dueOfGrant,
  type MovingGrant,
  type PlannedLine,
  settleLine,
  shareOfGrant,
} from "./plan-lines.ts";
import type { PaymentState } from "./state.ts";

/** Everything that an event concerns: its payment, the payments whose lines it credits or whose lines paid a debt, and the debts. */
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
  /** The remaining amounts on which the plan depends. The batch aborts if they have changed. */
  readonly assumedRemaining: readonly { readonly balanceId: string; readonly remainingSteps: number }[];
  /** Debts that would become negative, until other accounts' lines get back the parts that they paid. */
  readonly deficits: ReadonlyMap<string, number>;
  /** The keys of these lines. */
  readonly needs: readonly string[];
}

export interface AccountTerms extends DebtTerms {
  /** Null when the user has no account yet. */
  readonly accountId: number | null;
  readonly issued?: readonly Issued[];
  /** The amounts that due holds return in the same batch. */
  readonly returns?: ReadonlyMap<string, number>;
}

/** Plans the changes that bring one account from its current state to the amounts due. Pure, except for ids of new debts. */
export function planAccount(books: Books, terms: AccountTerms): AccountPlan {
  const { accountId, issued = [], returns = new Map() } = terms;
  const book = new DebtBook(books.debts, terms);
  const known = books.payments.flatMap((payment) => linesOf(payment, accountId, returns));
  for (const planned of known) settle(planned, book, books, accountId);
  const newLines = issued.flatMap((grant) => newLineOf(grant));
  const isCredited = ({ payment, line }: PlannedLine) => creditOf(payment.facts, line).numerator > 0n;
  for (const planned of newLines.toSorted((a, b) => Number(isCredited(b)) - Number(isCredited(a)))) {
    planned.line = { ...planned.line, paid: book.pay(accountId, books.customer, planned.line) };
    settle(planned, book, books, accountId);
  }
  const lines = [...known, ...newLines];
  const needs = giveBackDeficits(lines, book, books, accountId);
  const changed = lines.filter(({ before, line }) => JSON.stringify(before) !== JSON.stringify(line));
  const grants = books.payments.flatMap((payment) => grantsOf(payment, accountId, returns));
  const newGrants = issued.flatMap(({ payment, line, balances }) =>
    balances.map((balance) => ({ payment, grant: grantOf(balance, line) })),
  );
  const motions = [...grants, ...newGrants].flatMap(({ payment, grant }) => motionOf(payment, grant, lines) ?? []);
  return {
    motions: motions.toSorted((a, b) => Number(b.isMore) - Number(a.isMore)),
    ...{ lines: changed, ...book.changes, deficits: book.deficits, needs },
    assumedRemaining: changed
      .filter(({ before, line }) => before !== null && dependsOnBalances(line))
      .flatMap((line) => line.grants.map(({ balanceId, remainingSteps }) => ({ balanceId, remainingSteps }))),
  };
}

export const isEmptyPlan = ({ motions, lines }: AccountPlan): boolean => motions.length === 0 && lines.length === 0;

interface GrantOfAccount {
  readonly payment: PaymentState;
  readonly grant: MovingGrant;
}

function grantsOf(
  payment: PaymentState,
  accountId: number | null,
  returns: ReadonlyMap<string, number>,
): GrantOfAccount[] {
  return payment.grants
    .filter((grant) => grant.accountId === accountId)
    .map((grant) => ({ payment, grant: withReturn(grant, returns.get(grant.balanceId) ?? 0) }));
}

/** Returns a grant after holds returned some steps. A return to a revoked balance is taken back immediately (U9). */
export function withReturn(grant: MovingGrant, steps: number): MovingGrant {
  if (steps === 0) return grant;
  if (grant.isClosed === 1) return { ...grant, operatorSteps: grant.operatorSteps + steps };
  const isRevoked = grant.dueSteps === grant.initialSteps;
  if (isRevoked) return { ...grant, takenSteps: (grant.takenSteps + steps) as typeof grant.takenSteps };
  return { ...grant, remainingSteps: (grant.remainingSteps + steps) as typeof grant.remainingSteps };
}

function linesOf(payment: PaymentState, accountId: number | null, returns: ReadonlyMap<string, number>): PlannedLine[] {
  const grantsOfAccount = grantsOf(payment, accountId, returns).map(({ grant }) => grant);
  return payment.lines.flatMap((line) => {
    const grants = grantsOfAccount.filter((grant) => grant.line === line.key && grant.isErased === 0);
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

/** Applies new credits of a line, and changes its debt by the difference. */
function settle(planned: PlannedLine, book: DebtBook, books: Books, accountId: number | null): void {
  const { owed } = planned.line;
  const settled = settleLine(planned);
  const isTouched = settled.owed > 0 || settled.paid > 0 || settled.credited[0] !== "0";
  const debt = settled.debt ?? (isTouched ? book.idOf(accountId, books.customer, settled.currency) : null);
  planned.line = { ...settled, debt };
  if (debt !== null) book.add(debt, settled.owed - owed);
}

/**
 * If a debt would become negative, gives that amount back to the newest lines that paid it. Returns the keys of such lines that belong
 * to other accounts.
 */
function giveBackDeficits(
  lines: readonly PlannedLine[],
  book: DebtBook,
  books: Books,
  accountId: number | null,
): string[] {
  const needs = new Set<string>();
  for (let isMore = true; isMore; ) {
    isMore = false;
    for (const [id, deficit] of book.deficits) {
      for (const { line: key, amount } of book.payersOf(id, deficit)) {
        const payer = lines.find(({ line }) => line.key === key);
        if (payer === undefined) {
          needs.add(key);
          continue;
        }
        book.giveBack(id, key, amount);
        payer.line = { ...payer.line, paid: payer.line.paid - amount };
        settle(payer, book, books, accountId);
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
