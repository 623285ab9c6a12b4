/**
 * Compares credits with money, without shares, batches or changes. The remaining and spent credits of a user's lines must not
 * cost more than the paid money, less credits, refunds and debts. Credits that were spent before a refund or a dispute are forgiven.
 */
export class PaidFor {
  readonly #invoices = new Map<string, { readonly nets: Map<string, number>; back: number }>();
  readonly #credits = new Map<string, { readonly invoice: string; readonly line: string; readonly amount: number }>();

  /** A paid invoice, with the net amounts of its lines above 0. */
  pay(invoice: string, nets: readonly (readonly [line: string, net: number])[]): void {
    this.#invoices.set(invoice, { nets: new Map(nets), back: this.#invoices.get(invoice)?.back ?? 0 });
  }

  credit(id: string, invoice: string, line: string, amount: number): void {
    this.#credits.set(id, { invoice, line, amount });
  }

  /** The refunded and withheld money of an invoice's payment. */
  setBack(invoice: string, amount: number): void {
    const known = this.#invoices.get(invoice);
    if (known === undefined) this.#invoices.set(invoice, { nets: new Map(), back: amount });
    else known.back = amount;
  }

  /** The cost of remaining and spent credits, less the paid money. Above 0, credits were stolen. */
  excess(standing: readonly Standing[], debt: number): number {
    let excess = -debt;
    for (const [invoice, { nets, back }] of this.#invoices) {
      const all = [...nets.values()].reduce((sum, net) => sum + net, 0);
      for (const [line, net] of nets) {
        const own = standing.filter((one) => one.line === `${invoice}:${line}`);
        if (own.length === 0) continue;
        const worth = (steps: number, initial: number) => (steps * net) / initial;
        const spent = Math.max(...own.map((one) => worth(one.spentSteps, one.initialSteps)));
        const stands = Math.max(...own.map((one) => worth(one.remainingSteps, one.initialSteps)));
        const wentBack = (Math.min(back, all) * net) / all;
        const credits = [...this.#credits.values()].filter((one) => one.invoice === invoice && one.line === line);
        const credited = credits.reduce((sum, { amount }) => sum + amount, 0);
        excess += stands + spent - (net - credited - wentBack + Math.min(wentBack, spent));
      }
    }
    return excess;
  }
}

/** A balance of a line. */
export interface Standing {
  /** `<invoice>:<line>`. */
  readonly line: string;
  readonly initialSteps: number;
  readonly remainingSteps: number;
  readonly spentSteps: number;
}
