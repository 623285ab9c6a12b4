import type { StoryEvent, StoryOptions } from "./payment-story.ts";
import { BEFORE } from "./stripe-versions.ts";

export const INITIAL = 250_500_000;

/** The events that grant by the session. It names its intent, so both are one payment. */
const OF_SESSION: readonly StoryEvent[] = ["completed", "asyncPaid", "received"];

export interface ModelBalance {
  readonly by: "session" | "invoice";
  readonly expiresAt: number;
  remaining: number;
  taken: number;
  /** The share that was taken back, in thousandths. */
  share: number;
  isRevoked: boolean;
  owed?: { readonly minor: number; readonly holdIds: readonly string[] };
}

interface Leg {
  readonly balance: ModelBalance;
  readonly minor: number;
}

interface Hold {
  readonly legs: readonly Leg[];
  readonly expiresAt: number;
}

/** A model of one payment and the events of its story, in plain numbers. It is written independently of src. */
export class PaymentModel {
  readonly known = new Set<StoryEvent>();
  readonly balances: ModelBalance[] = [];
  readonly holds = new Map<string, Hold>();
  readonly #options: Pick<StoryOptions, "isTied" | "isSubscription" | "version">;
  readonly #lifeMs: number;
  readonly #now: () => number;

  constructor(options: Pick<StoryOptions, "isTied" | "isSubscription" | "version">, now: () => number, lifeMs: number) {
    this.#options = options;
    this.#now = now;
    this.#lifeMs = lifeMs;
  }

  /** A copy in the same state. */
  copy(now = this.#now): PaymentModel {
    const copy = new PaymentModel(this.#options, now, this.#lifeMs);
    const copies = new Map(this.balances.map((balance) => [balance, { ...balance }]));
    for (const name of this.known) copy.known.add(name);
    copy.balances.push(...copies.values());
    for (const [id, { legs, expiresAt }] of this.holds) {
      // Each hold is on one of the copied balances.
      const copiedLegs = legs.map(({ balance, minor }) => ({ balance: copies.get(balance) ?? balance, minor }));
      copy.holds.set(id, { legs: copiedLegs, expiresAt });
    }
    return copy;
  }

  #has(...names: StoryEvent[]): boolean {
    return names.some((name) => this.known.has(name));
  }

  /** Whether session and invoice are known to be one payment. */
  get #isOne(): boolean {
    if (this.#has("tie") || (this.#options.isTied && this.#has("completed", "asyncPaid"))) return true;
    return this.#options.version === BEFORE && this.#has("invoicePaid", "received");
  }

  get #due(): number {
    let refunded = this.#has("refunded100") ? 1000 : this.#has("refunded30") ? 300 : 0;
    if (this.#has("refundFailed")) refunded = Math.max(0, refunded - 700);
    const withheld = this.#has("reinstated") ? 50 : this.#has("withdrawn") ? 200 : 0;
    return Math.min(1000, refunded + withheld);
  }

  #shareOf(balance: ModelBalance): number {
    if (!this.#isOne) return balance.by === "session" ? this.#due : 0;
    // If both have granted, the later grant is taken back whole.
    return balance === this.balances[0] ? this.#due : 1000;
  }

  /** Whether an event grants the session or the invoice. An invoice of no subscription waits until its payment intent is known. */
  #grants(name: StoryEvent): ModelBalance["by"] | null {
    if (OF_SESSION.includes(name)) return "session";
    const isKnown = this.#has("tie") || this.#options.isSubscription === true || this.#options.version === BEFORE;
    return (name === "invoicePaid" || name === "tie") && this.#has("invoicePaid") && isKnown ? "invoice" : null;
  }

  take(name: StoryEvent): void {
    this.known.add(name);
    const by = this.#grants(name);
    const isGranted = this.balances.some((balance) => this.#isOne || balance.by === by);
    const isGrant = by !== null && !isGranted;
    // A write for the user first returns due holds (U8).
    if (isGrant || this.balances.some((balance) => this.#shareOf(balance) !== balance.share)) this.returnDue();
    if (isGrant) {
      const expiresAt = this.#now() + this.#lifeMs;
      this.balances.push({ by, expiresAt, remaining: INITIAL, taken: 0, share: 0, isRevoked: false });
    }
    for (const balance of this.balances) this.#setShare(balance, this.#shareOf(balance));
  }

  #setShare(balance: ModelBalance, share: number): void {
    if (share === balance.share) return;
    balance.share = share;
    const due = Math.floor((INITIAL * share) / 1000);
    const delta = share === 1000 ? -balance.remaining : Math.max(-balance.remaining, balance.taken - due);
    balance.remaining += delta;
    balance.taken -= delta;
    balance.isRevoked = share === 1000;
    const holdIds = [...this.holds.keys()];
    const minor = Math.min(due - balance.taken, this.#held(balance, holdIds));
    balance.owed = { minor: balance.isRevoked ? 0 : Math.max(0, minor), holdIds };
  }

  #held(balance: ModelBalance, ids: readonly string[]): number {
    const legs = ids.flatMap((id) => this.holds.get(id)?.legs ?? []);
    return legs.reduce((sum, leg) => (leg.balance === balance ? sum + leg.minor : sum), 0);
  }

  /** After a settlement, balances pay owed amounts from the returned amount (S4). */
  #payOwed(id: string, legs: readonly Leg[], before: ReadonlyMap<ModelBalance, number>): void {
    for (const { balance } of legs) {
      const { owed } = balance;
      if (owed === undefined || balance.isRevoked || !owed.holdIds.includes(id)) continue;
      const pays = Math.min(owed.minor, Math.max(0, balance.remaining - (before.get(balance) ?? 0)));
      balance.remaining -= pays;
      balance.taken += pays;
      balance.owed = { ...owed, minor: Math.min(owed.minor - pays, this.#held(balance, owed.holdIds)) };
    }
  }

  get #remaining(): ReadonlyMap<ModelBalance, number> {
    return new Map(this.balances.map((balance) => [balance, balance.remaining]));
  }

  #settle(id: string): void {
    const [legs, before] = [this.holds.get(id)?.legs ?? [], this.#remaining];
    this.#giveBack(id);
    this.#payOwed(id, legs, before);
  }

  /** Pays from balances in order, `first` before the others. Returns null if credits do not suffice. */
  pay(minor: number, first: readonly Leg[] = []): Leg[] | null {
    const live = this.balances.filter(({ isRevoked, expiresAt }) => !isRevoked && expiresAt > this.#now());
    const isFirst = (balance: ModelBalance) => first.some((leg) => leg.balance === balance);
    if (live.reduce((sum, { remaining }) => sum + remaining, 0) < minor) return null;
    const legs: Leg[] = [];
    let left = minor;
    for (const balance of [...live.filter(isFirst), ...live.filter((balance) => !isFirst(balance))]) {
      const paid = Math.min(left, balance.remaining);
      if (paid > 0) legs.push({ balance, minor: paid });
      balance.remaining -= paid;
      left -= paid;
    }
    return legs;
  }

  /** A debit, or a hold with an id. Returns whether credits sufficed. */
  spend(minor: number, hold?: { readonly id: string; readonly seconds: number }): boolean {
    this.returnDue();
    const legs = this.pay(minor);
    if (legs !== null && hold !== undefined) {
      this.holds.set(hold.id, { legs, expiresAt: this.#now() + hold.seconds * 1_000 });
    }
    return legs !== null;
  }

  release(id: string): void {
    this.returnDue();
    this.#settle(id);
  }

  /** A commit: held credits return and pay first (U6). Returns whether credits sufficed. If not, the hold remains. */
  commit(id: string, minor: number): boolean {
    this.returnDue();
    const before = this.balances.map((balance) => ({ ...balance }));
    const [hold, remaining] = [this.holds.get(id), this.#remaining];
    this.#giveBack(id);
    if (this.pay(minor, hold?.legs) !== null) {
      this.#payOwed(id, hold?.legs ?? [], remaining);
      return true;
    }
    for (const [index, balance] of this.balances.entries()) Object.assign(balance, before[index]);
    if (hold !== undefined) this.holds.set(id, hold);
    return false;
  }

  returnDue(): void {
    for (const [id, { expiresAt }] of this.holds) if (expiresAt <= this.#now()) this.#settle(id);
  }

  #giveBack(id: string): void {
    for (const { balance, minor } of this.holds.get(id)?.legs ?? []) {
      if (balance.isRevoked) balance.taken += minor;
      else balance.remaining += minor;
    }
    this.holds.delete(id);
  }

  /** The remaining and taken amounts and whether balances are revoked, in a fixed order. */
  get standing(): string[] {
    return this.balances.map(({ remaining, taken, isRevoked }) => `${remaining} ${taken} ${isRevoked}`).toSorted();
  }
}
