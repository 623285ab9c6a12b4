import { describe, expect, it } from "vitest";
import type { PaymentChange } from "../../src/payments/stripe-event.ts";
import { INITIAL, PaymentModel } from "../support/payment-model.ts";
import { PRICES, STORY_EVENTS, type Story, storyOf } from "../support/payment-story.ts";
import {
  changeOf,
  copyBooks,
  type PureAccounts,
  type PureShop,
  returnPurely,
  takePurely,
} from "../support/pure-payments.ts";
import { BEFORE, TODAY } from "../support/stripe-versions.ts";

// Pure functions decide the due amount of a payment. This test applies every event in every state that the ten events can reach,
// in any order and with any repetitions, and compares each state with the model. So it covers all 10! orders. The last case also
// has a debit, a hold, its return and the expiry, in any order but without repetitions.

const isSoak = (process.env.SOAK_OPERATIONS ?? "") !== "";
const seed = Number(process.env.PROOF_SEED) || (Date.now() % 1_000_000) + 1;

const wallet: ReturnType<PureShop["packOf"]> = {
  ...{
    id: "cpk_1",
    appId: "app_1",
    packNumber: 1,
    lastItemNumber: 0,
    name: "Wallet",
    nameKey: "wallet",
    version: 1,
    createdAtMs: 0,
  },
  ...{ archivedAtMs: null, defaultExpiryDays: null },
  ...{ unit: "cents", matches: "[]", priority: 100, items: [] },
};
const shop: PureShop = {
  setting: { currency: "usd", prices: [{ price: PRICES.wallet, packId: "wallet", quantity: 250.5, expires: "pack" }] },
  packOf: () => wallet,
};

const DEBIT = 120_250_000;
const HOLD = 100_000_000;
type Act = (typeof STORY_EVENTS)[number] | "debit" | "hold" | "return" | "expiry";
// To finish in time, the case with usage leaves out the session's asynchronous payment, whose data is that of the session, and two
// other events, which differ from run to run. The soak leaves out no other events.
const DISTINCT_EVENTS = STORY_EVENTS.filter((name) => name !== "asyncPaid");
const EVENTS_WITH_USAGE = DISTINCT_EVENTS.filter(
  (_, index) => isSoak || ![seed, seed + 1 + (seed % 8)].some((leftOut) => leftOut % DISTINCT_EVENTS.length === index),
);

type Changes = Readonly<Record<(typeof STORY_EVENTS)[number], PaymentChange>>;

function changesOf(story: Story): Changes {
  const read = STORY_EVENTS.map((name) => [name, changeOf(story[name])] as const);
  // Each name has its change.
  return Object.fromEntries(read) as Changes;
}

const numbers = new Map<string, number>();
const numbered = new WeakMap<object, number>();
/** Returns the same number for equal objects, which must be immutable. This shortens the key of a world. */
function numberOf(value: object): number {
  const existing = numbered.get(value);
  if (existing !== undefined) return existing;
  const json = JSON.stringify(value);
  const number = numbers.get(json) ?? numbers.size;
  numbers.set(json, number);
  numbered.set(value, number);
  return number;
}

/** A state of Purser's books and of the model. */
class World {
  readonly books: PureAccounts;
  readonly model: PaymentModel;
  readonly history: readonly Act[];
  readonly #changes: Changes;
  #isExpired = false;
  #legs: readonly { id: string; minor: number }[] = [];

  constructor(changes: Changes, model: (now: () => number) => PaymentModel, before?: World, act?: Act) {
    this.#changes = changes;
    this.model = model(() => (this.#isExpired ? 1 : 0));
    this.books = before === undefined ? { payments: [], balances: {}, payers: {} } : copyBooks(before.books);
    this.history = act === undefined ? [] : [...(before?.history ?? []), act];
    if (before !== undefined) {
      this.#isExpired = before.#isExpired;
      this.#legs = before.#legs;
    }
    if (act !== undefined) this.#do(act);
  }

  after(act: Act): World {
    return new World(this.#changes, (now) => this.model.copy(now), this, act);
  }

  #do(act: Act): void {
    const isAgain = this.history.indexOf(act) < this.history.length - 1;
    if (act === "expiry") {
      if (isAgain) return;
      this.#isExpired = true;
      for (const balance of Object.values(this.books.balances)) balance.isExpired = true;
    } else if (act === "debit" || act === "hold") {
      if (isAgain) return;
      const minor = act === "debit" ? DEBIT : HOLD;
      const legs = this.#pay(minor);
      expect(this.model.spend(minor, act === "hold" ? { id: "res_1", seconds: 9 } : undefined)).toBe(legs !== null);
      if (act === "hold") this.#hold(legs ?? []);
    } else if (act === "return") {
      this.model.release("res_1");
      for (const { id, minor } of this.#legs) returnPurely(this.books, id, minor);
      this.#legs = [];
    } else {
      takePurely(this.books, shop, this.#changes[act]);
      this.model.take(act);
    }
  }

  #hold(legs: readonly { id: string; minor: number }[]): void {
    this.#legs = [...legs];
    for (const { id, minor } of legs) {
      const balance = this.books.balances[id];
      if (balance !== undefined) balance.held += minor;
    }
  }

  /** Pays for one unit, the balance that was granted first pays first (rule U2). */
  #pay(minor: number): { id: string; minor: number }[] | null {
    const live = Object.entries(this.books.balances).filter(([, { isRevoked, isExpired }]) => !isRevoked && !isExpired);
    if (live.reduce((sum, [, { remaining }]) => sum + remaining, 0) < minor) return null;
    let left = minor;
    return live.flatMap(([id, balance]) => {
      const paid = Math.min(left, balance.remaining);
      balance.remaining -= paid;
      left -= paid;
      return paid > 0 ? [{ id, minor: paid }] : [];
    });
  }

  get standing(): string[] {
    const grants = this.books.payments.flatMap((payment) => payment.grants);
    return grants
      .map(({ balanceId, clawedBackMinor }) => {
        const balance = this.books.balances[balanceId];
        return `${balance?.remaining} ${clawedBackMinor} ${balance?.isRevoked}`;
      })
      .toSorted();
  }

  /** Equal for worlds that behave the same from now on. */
  get key(): string {
    const { known, balances, holds } = this.model;
    const spent = (["debit", "hold"] as const).map((act) => this.history.includes(act));
    const owing = balances.map(({ owed, ...balance }) => [
      balance,
      owed?.minor ?? 0,
      owed?.holdIds.some((id) => holds.has(id)),
    ]);
    const payments = this.books.payments.map(({ facts, grants, ...payment }) => [
      ...[payment, facts.map(numberOf), grants.map(numberOf)],
    ]);
    const books = [payments, this.books.balances, this.books.payers];
    const state = [books, [...known].toSorted(), owing, [...holds], this.#isExpired, spent, this.#legs];
    return JSON.stringify(state);
  }
}

describe.each([
  ["whose session names its invoice", { isTied: true, version: TODAY }, false],
  ["whose session does not name its invoice", { isTied: false, version: TODAY }, false],
  ["of a subscription's invoice", { isTied: false, isSubscription: true, version: TODAY }, false],
  [
    "of a subscription's invoice, which its session names",
    { isTied: true, isSubscription: true, version: TODAY },
    false,
  ],
  ["of an older API version, in which the invoice names its payment intent", { isTied: false, version: BEFORE }, false],
  ["whose events are all created in one second", { isTied: false, version: TODAY, isAtOnce: true }, false],
  ["whose session names its invoice, with a debit, a hold and the expiry", { isTied: true, version: TODAY }, true],
] as const)("a payment %s", (_, story, withUsage) => {
  it("matches the model after its events in every order", () => {
    const changes = changesOf(storyOf({ nowS: 1_768_478_400, userId: "u", id: "1", ...story }));
    const events = withUsage ? EVENTS_WITH_USAGE : STORY_EVENTS;
    const acts: readonly Act[] = withUsage ? [...events, "debit", "hold", "return", "expiry"] : events;
    const start = new World(changes, (now) => new PaymentModel(story, now, 1));
    const seen = new Set([start.key]);
    const ends = new Set<string>();
    const ahead = [start];
    for (const world of ahead) {
      for (const act of acts) {
        // The other cases repeat every event in every state.
        if (withUsage && world.history.includes(act)) continue;
        const next = world.after(act);
        const { standing, key } = next;
        if (standing.join() !== next.model.standing.join()) {
          expect(standing, `${next.history.join()}, PROOF_SEED=${seed}`).toEqual(next.model.standing);
        }
        if (next.model.known.size === STORY_EVENTS.length && !withUsage) ends.add(standing.join());
        if (!seen.has(key)) ahead.push(next);
        seen.add(key);
      }
    }
    expect(seen.size).toBeGreaterThan(2 ** events.length);
    // Refunds of 1000, of which 700 failed, and a dispute that still withholds 50 of the 1000 paid: 35 % is taken back.
    const stands = `${INITIAL * 0.65} ${INITIAL * 0.35} false`;
    // In some orders, session and invoice are both granted before they are known to be one payment. One is then taken back whole.
    const twice = "isSubscription" in story ? [`0 ${INITIAL} true,${stands}`] : [];
    if (!withUsage) expect([...ends].toSorted()).toEqual([...twice, stands]);
  }, 240_000);
});
