import { assert } from "../lib/assert.ts";
import type { DebtPayer, StoredDebt, StoredLine } from "./line.ts";

interface WorkingDebt extends Omit<StoredDebt, "accountId" | "amount" | "sinceMs" | "payers"> {
  /** Null where the user has no account yet. */
  readonly accountId: number | null;
  /** Null: it is new. */
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
  /** So much less of these debts counts: other accounts' lines are about to owe less. */
  readonly deficits?: ReadonlyMap<string, number>;
}

/** The debts that a batch may change, while it is planned. An amount below 0 is a deficit: lines must get back what they paid. */
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

  /** The id of the debt of a user, a customer and a currency. */
  idOf(accountId: number | null, customer: string, currency: string): string {
    for (const debt of this.#debts.values()) {
      if (debt.accountId === accountId && debt.customer === customer && debt.currency === currency) return debt.id;
    }
    const id = this.#terms.newDebtId();
    const debt = { id, accountId, customer, currency, before: null, amount: 0, sinceMs: this.#terms.nowMs };
    this.#debts.set(id, { ...debt, payers: new Map() });
    return id;
  }

  /** What is owed changes. A debt that an erasure ended stays ended. */
  add(id: string, delta: number): void {
    const debt = this.#debts.get(id);
    if (debt === undefined || debt.customer === null || delta === 0) return;
    if (debt.amount <= 0 && debt.amount + delta > 0) debt.sinceMs = this.#terms.nowMs;
    debt.amount += delta;
  }

  /** A new line pays what is owed by its user or its customer, the oldest first. Answers what it paid. */
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

  /** The lines that paid of a debt and would get so much back, the newest first. */
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

  /** A line gets back what it paid of a debt. */
  giveBack(id: string, line: string, amount: number): void {
    const debt = this.#debts.get(id);
    const payer = debt?.payers.get(line);
    assert(debt !== undefined && payer !== undefined, "only a line that paid gets back what it paid");
    debt.amount += amount;
    this.#setPayer(debt, { ...payer, amount: payer.amount - amount });
  }

  get changes(): { readonly debts: readonly ChangedDebt[]; readonly payers: readonly ChangedPayer[] } {
    const changed = [...this.#debts.values()].filter(({ before, amount }) => before !== amount);
    return { debts: changed, payers: [...this.#changedPayers.values()] };
  }
}
