import { env } from "cloudflare:workers";
import { beforeEach, expect, it, vi } from "vitest";
import { expiriesPart } from "../../src/books/alerts/find-expiries.ts";
import { holdsPart } from "../../src/books/usage/expire.ts";
import { scheduled } from "../../src/cron.ts";
import { randomId } from "../../src/lib/ids.ts";
import { HOUR_MS } from "../../src/lib/time.ts";
import { FAULTS, type FaultyD1, faultyD1 } from "../support/faulty-d1.ts";
import { paymentsWorld } from "../support/payments.ts";
import { charge, eventOf, session } from "../support/stripe-events.ts";
import { makeEndpoint, storedMessages } from "../support/webhooks.ts";
import { type Answer, bound } from "../support/world.ts";

beforeEach(() => {
  // Repeated attempts do not wait, and every receiver accepts.
  vi.spyOn(scheduler, "wait").mockResolvedValue();
  vi.spyOn(globalThis, "fetch").mockImplementation(async () => new Response(null, { status: 200 }));
  vi.spyOn(console, "error").mockReturnValue();
});

/** A user `u` with 10 cents under the reference `first`, and functions that change them. */
async function world(faulty: FaultyD1) {
  const payments = await paymentsWorld({ DB: faulty.d1 });
  const { clock, app, call, deliver, nowS } = payments;
  const post = (path: string, body: object): Promise<Answer> =>
    call("POST", `/api/v1/${path}`, { key: app.keys.sk_live, body });
  const admin = (path: string, body: object) => call("POST", `/api/v1/admin/${path}`, { key: env.ADMIN_TOKEN, body });
  const cron = () => scheduled(bound({ DB: faulty.d1 }), { isolate: {}, now: clock.now, newId: randomId }, CRON_PARTS);
  const expiresAt = new Date(clock.ms + HOUR_MS).toISOString();
  const { body } = await post("credits/grant", {
    ...{ userId: "u", packId: "wallet", quantity: 10, externalRef: "first", expiresAt },
  });
  const balanceId: string = body.balanceId;
  const reserve = (more: object = {}) =>
    post("usage/reservations", {
      ...{ reservationId: `res_${app.environments.live.id}`, userId: "u", event: "x" },
      ...{ quantities: { count: 0, cents: 2 }, expiresInSeconds: 60, ...more },
    });
  const settle = (how: string, more: object) => post(`usage/reservations/res_${app.environments.live.id}/${how}`, more);
  const spend = (cents: number) =>
    post("usage/events", { userId: "u", eventId: "e", event: "x", quantities: { count: 0, cents } });
  /** Creates an alert for when the remaining cents are below the amount. */
  const alert = (amount: number) =>
    admin(`apps/${app.appId}/alerts`, { mode: "live", name: "Low", unit: "cents", below: { amount } });
  const buy = () =>
    deliver(
      eventOf(
        "checkout.session.completed",
        nowS,
        session("cs_1", { client_reference_id: "u", metadata: { pack: "wallet" }, payment_intent: "pi_1" }),
      ),
    );
  const takeBack = () => payments.send(eventOf("charge.refunded", nowS + 1, charge("ch_1", "pi_1", 1_000)));
  return { clock, app, post, admin, cron, balanceId, reserve, settle, spend, alert, buy, takeBack };
}
/** Only the parts that these tests need, so that the cron does no work that other test files left. */
const CRON_PARTS = [holdsPart, expiriesPart];
type World = Awaited<ReturnType<typeof world>>;

interface Effect {
  readonly sends: readonly string[];
  /** Runs before the endpoint exists, so it sends no message. */
  readonly prepare?: (w: World) => Promise<unknown>;
  /** Has the effect, and may be repeated. */
  readonly act: (w: World) => Promise<Answer | undefined>;
  /** The number of trips that may fail. Default 2. */
  readonly trips?: number;
}

const byCron = async (w: World): Promise<undefined> => void (await w.cron());
const later = (ms: number) => async (w: World) => {
  w.clock.advance(ms);
};

const effects: Readonly<Record<string, Effect>> = {
  "a grant": {
    sends: ["credits.granted"],
    act: (w) => w.post("credits/grant", { userId: "u", packId: "wallet", quantity: 1, externalRef: "second" }),
  },
  "an event": { sends: ["usage.recorded"], act: (w) => w.spend(1) },
  "an event that crosses an alert": {
    sends: ["credits.low", "usage.recorded"],
    prepare: (w) => w.alert(9),
    act: (w) => w.spend(2),
  },
  "a debit of everything": { sends: ["credits.depleted", "usage.recorded"], act: (w) => w.spend(10) },
  "a refund": {
    sends: ["credits.refunded"],
    act: (w) =>
      w.post("credits/refund", { userId: "u", externalRef: "first", refundRef: "r", share: { part: 1, of: 2 } }),
  },
  "a refund that crosses an alert": {
    sends: ["credits.low", "credits.refunded"],
    prepare: (w) => w.alert(9),
    act: (w) =>
      w.post("credits/refund", { userId: "u", externalRef: "first", refundRef: "r", share: { part: 1, of: 2 } }),
  },
  "a revoke": {
    sends: ["credits.depleted", "credits.revoked"],
    act: (w) => w.post("credits/revoke", { balanceId: w.balanceId, reason: "fraud" }),
  },
  "an adjustment": {
    sends: ["credits.adjusted", "credits.low"],
    prepare: (w) => w.alert(9),
    act: (w) => w.admin(`balances/${w.balanceId}/adjust`, { delta: -2, note: "by hand", adjustmentId: "a" }),
  },
  "a commit": {
    sends: ["usage.recorded"],
    prepare: (w) => w.reserve(),
    act: (w) => w.settle("commit", { eventId: "e", quantities: { count: 0, cents: 1 } }),
  },
  "a commit that crosses an alert that its hold did not cross": {
    sends: ["credits.low", "usage.recorded"],
    prepare: async (w) => [await w.alert(9), await w.reserve()],
    act: (w) => w.settle("commit", { eventId: "e", quantities: { count: 0, cents: 2 } }),
  },
  "a release": { sends: [], prepare: (w) => w.reserve(), act: (w) => w.settle("release", {}) },
  "an event that returns a due hold": {
    sends: ["reservation.expired", "usage.recorded"],
    prepare: async (w) => [await w.reserve(), await later(60_000)(w)],
    act: (w) => w.spend(1),
  },
  "the cron's return of a due hold": {
    sends: ["reservation.expired"],
    prepare: async (w) => [await w.reserve(), await later(60_000)(w)],
    act: byCron,
    trips: 6,
  },
  "the cron's charge of a due reservation": {
    sends: ["credits.low", "usage.recorded"],
    prepare: async (w) => [await w.alert(9), await w.reserve({ onExpiry: "charge" }), await later(60_000)(w)],
    act: byCron,
    trips: 6,
  },
  "an event that charges a due reservation": {
    sends: ["usage.recorded", "usage.recorded"],
    prepare: async (w) => [await w.reserve({ onExpiry: "charge" }), await later(60_000)(w)],
    act: (w) => w.spend(1),
    trips: 4,
  },
  "a refund at Stripe": {
    sends: ["credits.low", "payment.taken"],
    prepare: async (w) => [await w.alert(15), await w.buy()],
    act: (w) => w.takeBack(),
  },
};

/** Makes each trip fail in every way, once or permanently. */
const faultsOf = ({ trips = 2 }: Effect) =>
  FAULTS.flatMap((fault) => Array.from({ length: trips }, (_, n) => ({ fault, at: n + 1, persists: n % 2 === 1 })));

it.each(Object.entries(effects))(
  "%s sends its messages exactly once, whichever trip fails before, during or after its commit",
  { timeout: 120_000 },
  async (_, effect) => {
    const faulty = faultyD1(env.DB);
    let failed = 0;
    for (const plan of faultsOf(effect)) {
      faulty.plan(null);
      const w = await world(faulty);
      const { live } = w.app.environments;
      await effect.prepare?.(w);
      await makeEndpoint(live, ["credits.*", "payment.*", "reservation.*", "usage.recorded"]);
      const where = JSON.stringify(plan);
      const sentOnce = async () => {
        const messages = await storedMessages(live);
        for (const { deliveries } of messages) expect(deliveries, where).toBe(1);
        return messages.map(({ type }) => type).sort();
      };
      const entries = () =>
        env.DB.prepare(
          "SELECT count(*) AS n FROM accounts AS a JOIN credit_ledger AS l ON l.account_id = a.id WHERE a.environment_id = ?",
        )
          .bind(live.id)
          .first<number>("n");
      const before = (await entries()) ?? 0;
      faulty.plan(plan);
      const first = await effect.act(w);
      faulty.plan(null);
      if (first !== undefined && first.status !== 200) failed++;
      // A failed call may have been stored, and only then has its message. A charge is stored before the event that caused it.
      const hasLanded = ((await entries()) ?? 0) > before;
      const seen = await sentOnce();
      if (first?.status === 200 || (hasLanded && effect.trips === undefined)) expect(seen, where).toEqual(effect.sends);
      if (!hasLanded) expect(seen, where).toEqual([]);
      // The last of them repeats a call that has succeeded.
      for (let again = hasLanded ? 1 : 0; again < 2; again++) {
        expect((await effect.act(w))?.status ?? 200, where).toBe(200);
        expect(await sentOnce(), where).toEqual(effect.sends);
      }
    }
    if (effect.act !== byCron) expect(failed).toBeGreaterThan(2);
  },
);

it("the cron reports an expired balance once, with its alerts, whichever trip fails", {
  timeout: 120_000,
}, async () => {
  // Expiries of other tests would come first.
  await env.DB.prepare("DELETE FROM balance_expiries").run();
  const faulty = faultyD1(env.DB);
  for (const plan of faultsOf({ sends: [], act: byCron, trips: 8 })) {
    faulty.plan(null);
    const w = await world(faulty);
    const { live } = w.app.environments;
    await w.alert(5);
    await makeEndpoint(live, ["credits.*", "balance.*"], w.clock.ms);
    w.clock.advance(HOUR_MS);
    const sentOnce = async () =>
      (await storedMessages(live)).map(({ type, deliveries }) => `${type} ${deliveries}`).sort();
    const all = ["balance.expired 1", "credits.depleted 1", "credits.low 1"];
    faulty.plan(plan);
    await w.cron();
    faulty.plan(null);
    expect([[], all], JSON.stringify(plan)).toContainEqual(await sentOnce());
    for (let again = 0; again < 2; again++) {
      await w.cron();
      expect(await sentOnce(), JSON.stringify(plan)).toEqual(all);
    }
  }
});
