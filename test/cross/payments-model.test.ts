import { env } from "cloudflare:workers";
import { afterAll, describe, expect, it, vi } from "vitest";
import { randomId } from "../../src/lib/ids.ts";
import { FAULTS, faultyD1 } from "../support/faulty-d1.ts";
import { expectLedgerInvariants } from "../support/invariants.ts";
import { type PaymentsWorld, PRICES, paymentsWorld } from "../support/payments.ts";
import { createRandom, type Random } from "../support/random.ts";
import { isSoak, soakCount, soakPart, timeoutOf } from "../support/soak.ts";
import {
  charge,
  dispute,
  eventOf,
  invoice,
  invoicePayment,
  refund,
  session,
  type TestEvent,
} from "../support/stripe-events.ts";
import { inTurn, makeClient } from "../support/world.ts";

afterAll(expectLedgerInvariants);

const NAMES = [
  "completed",
  "asyncPaid",
  "invoicePaid",
  "tie",
  "refunded30",
  "refunded100",
  "refundFailed",
  "withdrawn",
  "reinstated",
] as const;
type Name = (typeof NAMES)[number];
type Events = Readonly<Record<Name, TestEvent>>;

/** The events of one payment of 1000 for 250.5 cents. `isTied`: the session names its invoice too. */
function eventsOf(w: PaymentsWorld, isTied: boolean): Events {
  const [pi, cs, ch, inv] = [randomId("pi_"), randomId("cs_"), randomId("ch_"), randomId("in_")];
  const metadata = { pack: "wallet", quantity: "250.5" };
  const fields = { client_reference_id: "u", metadata, payment_intent: pi, invoice: isTied ? inv : null };
  const bill = { metadata: { user: "u" }, lines: [{ id: "il_1", price: PRICES.wallet }] };
  const at = (seconds: number) => w.nowS + seconds;
  return {
    completed: eventOf("checkout.session.completed", at(0), session(cs, fields)),
    asyncPaid: eventOf("checkout.session.async_payment_succeeded", at(1), session(cs, fields)),
    invoicePaid: eventOf("invoice.paid", at(1), invoice(inv, bill)),
    tie: eventOf("invoice_payment.paid", at(1), invoicePayment(randomId("inpay_"), inv, pi)),
    refunded30: eventOf("charge.refunded", at(2), charge(ch, pi, 300)),
    refunded100: eventOf("charge.refunded", at(3), charge(ch, pi, 1000)),
    refundFailed: eventOf("refund.failed", at(4), refund(randomId("re_"), ch, pi, 700, "failed")),
    withdrawn: eventOf("charge.dispute.funds_withdrawn", at(5), dispute("dp_1", ch, pi, 200, [-200])),
    reinstated: eventOf("charge.dispute.funds_reinstated", at(6), dispute("dp_1", ch, pi, 200, [-200, 150])),
  };
}

const INITIAL = 250_500_000;
interface ModelBalance {
  readonly by: "session" | "invoice";
  remaining: number;
  taken: number;
  /** In thousandths. */
  share: number;
  isRevoked: boolean;
}

/** What is due, said another way than in src: everything in plain numbers, for these events alone. */
class Model {
  readonly #known = new Set<Name>();
  readonly balances: ModelBalance[] = [];
  readonly holds = new Map<string, { readonly balance: ModelBalance; readonly steps: number }>();
  isExpired = false;
  constructor(readonly isTied: boolean) {}

  #has(...names: Name[]): boolean {
    return names.some((name) => this.#known.has(name));
  }

  /** Whether session and invoice are known to be one payment. */
  get #isOne(): boolean {
    return this.#has("tie") || (this.isTied && this.#has("completed", "asyncPaid"));
  }

  get #due(): number {
    let refunded = this.#has("refunded100") ? 1000 : this.#has("refunded30") ? 300 : 0;
    if (this.#has("refundFailed")) refunded = Math.max(0, refunded - 700);
    const withheld = this.#has("reinstated") ? 50 : this.#has("withdrawn") ? 200 : 0;
    return Math.min(1000, refunded + withheld);
  }

  take(name: Name): void {
    this.#known.add(name);
    const by = name === "invoicePaid" ? "invoice" : name === "completed" || name === "asyncPaid" ? "session" : null;
    const others = this.balances.filter((balance) => this.#isOne || balance.by === by);
    if (by !== null && others.length === 0) {
      this.balances.push({ by, remaining: INITIAL, taken: 0, share: 0, isRevoked: false });
    }
    for (const balance of this.balances) this.#bring(balance);
  }

  #bring(balance: ModelBalance): void {
    const isFirst = balance === this.balances[0];
    const ofIntent = balance.by === "session" ? this.#due : 0;
    const share = this.#isOne ? (isFirst ? this.#due : 1000) : ofIntent;
    if (share === balance.share) return;
    balance.share = share;
    const due = Math.floor((INITIAL * share) / 1000);
    const delta = share === 1000 ? -balance.remaining : Math.max(-balance.remaining, balance.taken - due);
    balance.remaining += delta;
    balance.taken -= delta;
    balance.isRevoked = share === 1000;
  }

  /** Pays from balances in their order, or not at all. */
  pay(steps: number): { readonly balance: ModelBalance; readonly steps: number }[] | null {
    const live = this.isExpired ? [] : this.balances.filter(({ isRevoked }) => !isRevoked);
    if (live.reduce((sum, { remaining }) => sum + remaining, 0) < steps) return null;
    const legs: { balance: ModelBalance; steps: number }[] = [];
    let left = steps;
    for (const balance of live) {
      const paid = Math.min(left, balance.remaining);
      if (paid > 0) legs.push({ balance, steps: paid });
      balance.remaining -= paid;
      left -= paid;
    }
    return legs;
  }

  giveBack({ balance, steps }: { readonly balance: ModelBalance; readonly steps: number }): void {
    if (balance.isRevoked) balance.taken += steps;
    else balance.remaining += steps;
  }
}

const steps = (cents: number): number => Math.round(cents * 1_000_000);

async function expectLike(w: PaymentsWorld, model: Model, said: string): Promise<void> {
  const found = (await w.balances("u")).map(([, remaining, status]) => `${steps(remaining)} ${status === "revoked"}`);
  const modelled = model.balances.map(({ remaining, isRevoked }) => `${remaining} ${isRevoked}`);
  expect(found.toSorted(), said).toEqual(modelled.toSorted());
  const taken = (await w.payments())
    .flatMap(({ grants }: { grants: { taken: number }[] }) => grants.map((grant) => steps(grant.taken)))
    .toSorted();
  expect(taken, said).toEqual(model.balances.map((balance) => balance.taken).toSorted());
}

/** A history of one payment at random, beside its model. */
async function live(random: Random): Promise<void> {
  const w = await paymentsWorld();
  const call = makeClient(w.clock, {}, randomId, inTurn(2));
  const isTied = random.chance(0.6);
  const events = eventsOf(w, isTied);
  const model = new Model(isTied);
  const use = { userId: "u", event: "chat" };
  const key = w.app.keys.sk_live;
  const told: string[] = [];
  const legs = new Map<string, ReturnType<Model["pay"]>>();
  const deliver = async (name: Name) => {
    // Which of two grants was first is told by the clock.
    w.clock.advance(1);
    expect((await w.send(events[name], call)).status).toBe(200);
    model.take(name);
    told.push(name);
  };
  for (let turn = 0; turn < 14; turn++) {
    const act = random.weighted({ event: 6, debit: 2, hold: 2, release: 2 });
    const cents = random.integer(1, 120);
    if (act === "event") await deliver(random.pick(NAMES));
    else if (act === "release") {
      const [id] = [...legs.keys()];
      if (id === undefined) continue;
      await call("POST", `/api/v1/usage/reservations/${id}/release`, { key, body: {} });
      for (const leg of legs.get(id) ?? []) model.giveBack(leg);
      legs.delete(id);
      told.push("release");
    } else {
      const quantities = { count: 0, cents };
      const id = randomId("res_");
      const [path, body] =
        act === "debit"
          ? ["events", { ...use, eventId: id, quantities }]
          : ["reservations", { ...use, reservationId: id, quantities, expiresInSeconds: 86_400 }];
      const { status } = await call("POST", `/api/v1/usage/${path}`, { key, body });
      const paid = model.pay(steps(cents));
      told.push(`${act} ${cents}`);
      expect(status, told.join()).toBe(paid === null ? 402 : 200);
      if (act === "hold" && paid !== null) legs.set(id, paid);
    }
    await expectLike(w, model, told.join());
  }
  for (const name of NAMES.toSorted(() => random.fraction() - 0.5)) await deliver(name);
  await expectLike(w, model, told.join());
  for (const name of NAMES) expect((await w.send(events[name], call)).body.outcome, told.join()).toBe("ignored");
}

const HISTORIES = soakCount(4, 8);
const ROUNDS = soakCount(2, 2);
const seed = Number(env.PROOF_SEED || "20260115");

describe("a payment", () => {
  it("stands as its model says, whatever comes in whatever order, amid debits, holds and their returns", {
    timeout: timeoutOf(HISTORIES, 3_000),
  }, async () => {
    const random = createRandom(seed);
    const tell = soakPart("model of payments", HISTORIES, "payments", seed);
    for (let history = 0; history < HISTORIES; history++) {
      await live(random);
      tell();
    }
  });

  it("ends alike when all its events come at once, several times, to several isolates", {
    timeout: timeoutOf(ROUNDS, 10_000),
  }, async () => {
    vi.spyOn(scheduler, "wait").mockResolvedValue();
    const random = createRandom(seed + 1);
    const tell = soakPart("events of a payment at once", ROUNDS, "payments", seed);
    for (let round = 0; round < ROUNDS; round++) {
      const w = await paymentsWorld();
      const call = makeClient(w.clock, {}, randomId, inTurn(3));
      const events = Object.values(eventsOf(w, true));
      const storm = [...events, ...events, ...events].toSorted(() => random.fraction() - 0.5);
      const answers = await Promise.all(storm.map((event) => w.send(event, call)));
      expect(answers.map(({ status }) => status)).toEqual(storm.map(() => 200));
      // Refunded 1000, of which 700 failed; 200 withheld, of which 150 came back.
      const [payment, ...others] = await w.payments();
      expect(others).toEqual([]);
      expect(payment).toMatchObject({ status: "granted", captured: 1000, refunded: 300, withheld: 50 });
      const own = payment.grants.filter((grant: { taken: number; initial: number }) => grant.taken !== grant.initial);
      expect(own).toMatchObject([{ initial: 250.5, taken: 87.675, short: 0 }]);
      expect((await w.balances("u")).filter(([, , status]) => status === "active")).toEqual([
        ["cents", 162.825, "active"],
      ]);
      tell();
    }
  });
});

describe("an event whose trip to the database fails", () => {
  it.each(isSoak ? FAULTS : (["amid", "after"] as const))(
    "%s, at any trip, ends as it would have when Stripe sends it again",
    { timeout: timeoutOf(FAULTS.length, 60_000) },
    async (fault) => {
      vi.spyOn(scheduler, "wait").mockResolvedValue();
      vi.spyOn(console, "warn").mockReturnValue();
      const faulty = faultyD1(env.DB);
      const w = await paymentsWorld({ DB: faulty.d1 });
      const story = ["refunded30", "completed", "refunded100", "refundFailed", "invoicePaid", "tie"] as const;
      for (const [index, name] of story.entries()) {
        for (let at = 1; ; at++) {
          const events = eventsOf(w, false);
          const model = new Model(false);
          faulty.plan(null);
          for (const before of story.slice(0, index)) {
            w.clock.advance(1);
            await w.deliver(events[before]);
            model.take(before);
          }
          w.clock.advance(1);
          faulty.plan({ fault, at });
          const answer = await w.send(events[name]);
          const wasHit = faulty.trips() >= at;
          faulty.plan(null);
          if (answer.status !== 200) expect(answer.status).toBe(503);
          await w.send(events[name]);
          model.take(name);
          const payments = await w.payments("&limit=2");
          const taken = payments.flatMap(({ grants, names }: { grants: { taken: number }[]; names: string[] }) =>
            JSON.stringify(events).includes(names[0] ?? "none") ? grants.map((grant) => steps(grant.taken)) : [],
          );
          const said = `${fault} ${name} ${at}`;
          expect(taken.toSorted(), said).toEqual(model.balances.map((balance) => balance.taken).toSorted());
          if (!wasHit) break;
        }
      }
    },
  );
});
