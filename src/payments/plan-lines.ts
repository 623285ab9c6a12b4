import {
  addFractions,
  type Fraction,
  fraction,
  leastOf,
  mostOf,
  multiplyFractions,
  ONE,
  roundUp,
  subtractFractions,
  ZERO,
} from "../books/amounts/amount.ts";
import type { Steps } from "../db/schema.ts";
import { assert } from "../errors.ts";
import {
  creditOf,
  type DebtPayer,
  dueOf,
  fractionText,
  readFraction,
  type StoredDebt,
  type StoredLine,
} from "./line.ts";
import type { PaymentState } from "./state.ts";
import type { StoredGrant } from "./stored-payment.ts";

/** The fields of a payment's balance that a plan needs. `remainingSteps` includes due holds that the batch returns. */
export type MovingGrant = Pick<
  StoredGrant,
  | "balanceId"
  | "accountId"
  | "line"
  | "initialSteps"
  | "remainingSteps"
  | "dueSteps"
  | "takenSteps"
  | "operatorSteps"
  | "isSurplus"
  | "isClosed"
  | "isErased"
>;

/** A payment's line during planning. */
export interface PlannedLine {
  readonly payment: PaymentState;
  readonly grants: readonly MovingGrant[];
  readonly before: StoredLine | null;
  line: StoredLine;
}

/** Returns the share of a balance that is due back because of refunds and disputes of its payment (S4). */
export const shareOfGrant = ({ money }: Pick<PaymentState, "money">, { isSurplus }: Pick<MovingGrant, "isSurplus">) =>
  isSurplus === 1 ? ONE : money.share;

/** Returns the share of a line that paid debts: `p` of S6. */
const paidShare = ({ paid, net }: StoredLine): Fraction => fraction(paid, net);

/** Returns the amount that is due back from a balance: the share of S4 plus `r` and `p` of its line, at most the whole balance. */
export function dueOfGrant(share: Fraction, grant: Pick<MovingGrant, "initialSteps">, line: StoredLine | null): Steps {
  if (line === null) return dueOf(grant.initialSteps, share);
  const all = addFractions(addFractions(share, readFraction(line.returned)), paidShare(line));
  return dueOf(grant.initialSteps, leastOf(all, ONE));
}

/** Returns a balance after `due` is due back. It computes what the SQL of insert-takings.ts does. */
export function afterMotion(grant: MovingGrant, due: Steps): { readonly remaining: number; readonly taken: number } {
  const { remainingSteps: remaining, takenSteps: taken } = grant;
  if (due === grant.dueSteps || grant.isClosed === 1) return { remaining, taken };
  const delta = due === grant.initialSteps ? -remaining : Math.max(taken - due, -remaining);
  return { remaining: remaining + delta, taken: taken - delta };
}

const ofOperator = ({ operatorSteps }: MovingGrant): number => Math.max(0, operatorSteps);

/**
 * Applies new credits of a line: takes the share `r`, as far as every balance still has it, and computes the amount that the line adds
 * to its debt. The rest of the credit was for credits that are already spent or refunded.
 */
export function settleLine({ payment, grants, line }: Pick<PlannedLine, "payment" | "grants" | "line">): StoredLine {
  const [first] = grants;
  if (first === undefined) return line;
  const share = shareOfGrant(payment, first);
  const credited = creditOf(payment.facts, line);
  const newCredit = subtractFractions(credited, readFraction(line.credited));
  let returned = readFraction(line.returned);
  if (newCredit.numerator > 0n) {
    const availableShares = grants.map((grant) => {
      const { remaining } = afterMotion(grant, dueOfGrant(share, grant, line));
      return fraction(remaining + ofOperator(grant), grant.initialSteps);
    });
    const part = multiplyFractions(newCredit, fraction(1, line.net));
    returned = addFractions(returned, availableShares.reduce(leastOf, leastOf(part, subtractFractions(ONE, returned))));
  }
  const after = { ...line, credited: fractionText(credited), returned: fractionText(returned) };
  return { ...after, owed: owedOf(share, grants, after) };
}

/** Returns the amount that a line adds to its debt, rounded up. */
function owedOf(share: Fraction, grants: readonly MovingGrant[], line: StoredLine): number {
  const returned = readFraction(line.returned);
  const credited = addFractions(returned, paidShare(line));
  const lack = grants
    .map((grant) => {
      const due = dueOfGrant(share, grant, line);
      return fraction(Math.max(0, due - afterMotion(grant, due).taken - ofOperator(grant)), grant.initialSteps);
    })
    .reduce(mostOf, ZERO);
  const beyond = mostOf(ZERO, subtractFractions(addFractions(share, credited), ONE));
  const refunded = leastOf(addFractions(lack, beyond), credited);
  const spent = subtractFractions(readFraction(line.credited), multiplyFractions(returned, fraction(line.net)));
  return roundUp(addFractions(spent, multiplyFractions(refunded, fraction(line.net))));
}

/** Returns whether a line's amounts depend on its balances. Then the batch aborts if the balances have changed. */
export const dependsOnBalances = ({ returned, paid }: StoredLine): boolean => paid > 0 || returned[0] !== "0";

interface WorkingDebt extends Omit<StoredDebt, "accountId" | "amount" | "sinceMs" | "payers"> {
  /** Null when the user has no account yet. */
  readonly accountId: number | null;
  /** Null for a new debt. */
  readonly before: number | null;
  amount: number;
  sinceMs: number;
  readonly payers: Map<string, DebtPayer>;
}

export interface ChangedDebt {
  readonly id: string;
  readonly customer: string | null;
  readonly currency: string;
  readonly before: number | null;
  readonly amount: number;
  readonly sinceMs: number;
}

export interface ChangedPayer extends DebtPayer {
  readonly debt: string;
}

export interface DebtTerms {
  readonly nowMs: number;
  /** The id of a new debt. */
  readonly newDebtId: () => string;
  /** By how much these debts will decrease, because lines of other accounts will owe less. */
  readonly deficits?: ReadonlyMap<string, number>;
}

/** The debts that a batch may change, during planning. If an amount is negative, the lines that paid the debt must get that amount back. */
export class DebtBook {
  readonly #debts: Map<string, WorkingDebt>;
  readonly #terms: DebtTerms;
  readonly #changedPayers = new Map<string, ChangedPayer>();

  constructor(stored: readonly StoredDebt[], terms: DebtTerms) {
    this.#terms = terms;
    this.#debts = new Map(
      stored.map((debt) => {
        const payers = new Map(debt.payers.map((payer) => [payer.line, payer]));
        return [debt.id, { ...debt, before: debt.amount, payers }];
      }),
    );
  }

  /** Returns the id of the debt of a user and a customer in a currency. Adds the debt if there is none. */
  idOf(accountId: number | null, customer: string, currency: string): string {
    for (const debt of this.#debts.values()) {
      if (debt.accountId === accountId && debt.customer === customer && debt.currency === currency) return debt.id;
    }
    const id = this.#terms.newDebtId();
    const debt = { id, accountId, customer, currency, before: null, amount: 0, sinceMs: this.#terms.nowMs };
    this.#debts.set(id, { ...debt, payers: new Map() });
    return id;
  }

  /** Changes a debt's amount. A debt that an erasure ended does not change. */
  add(id: string, delta: number): void {
    const debt = this.#debts.get(id);
    if (debt === undefined || debt.customer === null || delta === 0) return;
    if (debt.amount <= 0 && debt.amount + delta > 0) debt.sinceMs = this.#terms.nowMs;
    debt.amount += delta;
  }

  /** Lets a new line pay the debts of its user or customer, oldest first. Returns the paid amount. */
  pay(
    accountId: number | null,
    customer: string,
    { key, net, currency }: Pick<StoredLine, "key" | "net" | "currency">,
  ): number {
    const due = [...this.#debts.values()].filter(
      (debt) =>
        debt.amount > 0 &&
        debt.currency === currency &&
        ((accountId !== null && debt.accountId === accountId) || (customer !== "" && debt.customer === customer)),
    );
    let paid = 0;
    for (const debt of due.toSorted((a, b) => a.sinceMs - b.sinceMs || (a.id < b.id ? -1 : 1))) {
      const part = Math.min(debt.amount, net - paid);
      if (part <= 0) break;
      debt.amount -= part;
      paid += part;
      this.#setPayer(debt, { line: key, amount: part, atMs: this.#terms.nowMs });
    }
    return paid;
  }

  #setPayer(debt: WorkingDebt, payer: DebtPayer): void {
    debt.payers.set(payer.line, payer);
    this.#changedPayers.set(`${debt.id} ${payer.line}`, { debt: debt.id, ...payer });
  }

  get deficits(): ReadonlyMap<string, number> {
    const { deficits } = this.#terms;
    const left = [...this.#debts.values()].map(({ id, amount }) => [id, (deficits?.get(id) ?? 0) - amount] as const);
    return new Map(left.filter(([, deficit]) => deficit > 0));
  }

  /** Returns the lines that paid a debt and would get back `deficit` in total, the newest first. */
  payersOf(id: string, deficit: number): readonly { readonly line: string; readonly amount: number }[] {
    const payers = [...(this.#debts.get(id)?.payers.values() ?? [])].filter(({ amount }) => amount > 0);
    let left = deficit;
    return payers
      .toSorted((a, b) => b.atMs - a.atMs || (a.line < b.line ? 1 : -1))
      .flatMap(({ line, amount }) => {
        const part = Math.min(left, amount);
        left -= part;
        return part > 0 ? [{ line, amount: part }] : [];
      });
  }

  /** Gives a line back an amount that it paid towards a debt. */
  giveBack(id: string, line: string, amount: number): void {
    const debt = this.#debts.get(id);
    const payer = debt?.payers.get(line);
    assert(debt !== undefined && payer !== undefined, "only a line that paid a debt gets an amount back");
    debt.amount += amount;
    this.#setPayer(debt, { ...payer, amount: payer.amount - amount });
  }

  get changes(): { readonly debts: readonly ChangedDebt[]; readonly payers: readonly ChangedPayer[] } {
    const changed = [...this.#debts.values()].filter(({ before, amount }) => before !== amount);
    return { debts: changed, payers: [...this.#changedPayers.values()] };
  }
}
