import { env } from "cloudflare:workers";
import { expect } from "vitest";
import { scheduled } from "../../src/cron.ts";
import { randomId } from "../../src/lib/ids.ts";
import { DAY_MS } from "../../src/lib/time.ts";
import { type Granted, GrantingModel } from "./granting-model.ts";
import { type Given, moneyFlaws } from "./money-properties.ts";
import { PaidHistory, type Plot, SETTING, type Shop, taxPercentOf } from "./paid-history.ts";
import { paymentsWorld, SIGNING_SECRET } from "./payments.ts";
import type { Happening } from "./stripe-model.ts";
import { bound, inTurn, makeClient, makePack, newOpenAmountPack } from "./world.ts";

/** The name of the pack without items. */
const OPEN_AMOUNT = "Seat";

interface Stored {
  readonly user: string;
  readonly ref: string;
  readonly unit: string;
  readonly initial: number;
  readonly remaining: number;
  readonly taken: number;
  readonly isRevoked: number;
  readonly expiresAtMs: number;
}

/** Returns the orders in which events that come at once, each twice, may count. */
function ordersOf(happenings: readonly Happening[]): readonly (readonly Happening[])[] {
  const orders = permutationsOf(happenings);
  return orders.flatMap((order) => [order, ...orders.map((again) => [...order, ...again])]);
}

function permutationsOf(happenings: readonly Happening[]): readonly (readonly Happening[])[] {
  if (happenings.length < 2) return [happenings];
  return happenings.flatMap((first) =>
    permutationsOf(happenings.filter((each) => each !== first)).map((rest) => [first, ...rest]),
  );
}

/** Purser with the prices of the histories, beside the model. */
async function openShop(plot: Plot) {
  const w = await paymentsWorld();
  const call = makeClient(w.clock, {}, randomId, inTurn(2));
  const { appId } = w.app;
  const environmentId = w.app.environments.live.id;
  const packIds = new Map<string, string>();
  for (const { pack } of SETTING.prices) {
    const items = pack.items.map(({ unit, minor }) => ({ unit, amountMinor: minor }));
    if (pack.name === OPEN_AMOUNT) {
      const { packId, insert } = newOpenAmountPack(appId, OPEN_AMOUNT, "tokens", { expiryDays: 5 });
      await insert.run();
      packIds.set(OPEN_AMOUNT, packId);
    } else packIds.set(pack.name, await makePack(appId, pack.name, items));
  }
  const idOf = (name: string): string => packIds.get(name) ?? expect.fail(`No pack is named ${name}.`);
  const setPrices = async (prices: (typeof SETTING)["prices"]): Promise<void> => {
    const shown = prices.map(({ price, pack, amount, trial, isPeriod }) => ({
      ...{ price, packId: pack.name, amount, trial, expires: isPeriod === true ? "period" : "pack" },
      ...(pack.name === OPEN_AMOUNT ? { quantity: (pack.items[0]?.minor ?? 0) / 1_000 } : {}),
    }));
    expect((await w.set({ signingSecrets: [SIGNING_SECRET], currency: SETTING.currency, prices: shown })).status).toBe(
      200,
    );
  };
  await setPrices(SETTING.prices);

  const judge = new GrantingModel(SETTING, { version: plot.version, taxPercent: taxPercentOf(plot) });
  const holds: string[] = [];
  let stored: readonly Stored[] = [];
  const keyOf = ({ user, ref, unit }: Pick<Stored, "user" | "ref" | "unit">): string => `${user} ${ref} ${unit}`;
  const read = async (): Promise<readonly Stored[]> => {
    const { results } = await env.DB.prepare(
      `SELECT a.user_id AS user, b.external_ref AS ref, b.unit AS unit, b.initial_minor AS initial,
         b.remaining_minor AS remaining, g.clawed_back_minor AS taken, b.revoked_at_ms IS NOT NULL AS isRevoked,
         b.expires_at_ms AS expiresAtMs
       FROM accounts AS a CROSS JOIN credit_balances AS b ON b.account_id = a.id
       LEFT JOIN payment_grants AS g ON g.balance_id = b.id
       WHERE a.environment_id = ? AND a.is_erased = 0`,
    )
      .bind(environmentId)
      .all<Stored & Record<string, unknown>>();
    return results;
  };
  /** The balances of users who were not erased. */
  const grantedBy = (model: GrantingModel): ReadonlyMap<string, Granted> =>
    new Map(
      model.granted
        .filter(({ user }) => !model.erased.has(user))
        .map((each) => {
          const trial = /^stripe:trial:(.*)$/.exec(each.ref)?.[1];
          const ref = trial === undefined ? each.ref : `stripe:trial:${idOf(trial)}`;
          return [keyOf({ ...each, ref }), each];
        }),
    );
  const granted = () => grantedBy(judge);

  interface Expected {
    readonly remaining: number;
    readonly taken: number;
  }
  /** Returns what an event that moves what is due leaves of each balance. */
  const expectedAfter = (model: GrantingModel, before: ReadonlyMap<string, Expected>): ReadonlyMap<string, Expected> =>
    new Map(
      [...grantedBy(model)].map(([key, each]) => {
        const due = model.dueOf(each);
        const { remaining, taken } = before.get(key) ?? { remaining: each.initial, taken: 0 };
        const more = due > taken ? Math.min(due - taken, remaining) : due - taken;
        return [key, { remaining: remaining - more, taken: taken + more }];
      }),
    );
  const expectedTexts = (model: GrantingModel, after: ReadonlyMap<string, Expected>): string[] =>
    [...grantedBy(model)]
      .map(([key, each]) => {
        const { remaining, taken } = after.get(key) ?? expect.fail();
        const revoked = model.dueOf(each) === each.initial ? ", revoked" : "";
        const until = each.expiresAtMs === null ? "" : ` until ${each.expiresAtMs}`;
        return `${key} ${each.initial}: ${remaining} remain, ${taken} taken${revoked}${until}`;
      })
      .toSorted();
  const foundTexts = (model: GrantingModel): string[] => {
    const all = grantedBy(model);
    return stored
      .map((each) => {
        const key = keyOf(each);
        const revoked = each.isRevoked === 1 ? ", revoked" : "";
        const until = all.get(key)?.expiresAtMs == null ? "" : ` until ${each.expiresAtMs}`;
        return `${key} ${each.initial}: ${each.remaining} remain, ${each.taken} taken${revoked}${until}`;
      })
      .toSorted();
  };

  /** Compares all balances with the model, which knows what is due, after an event that moved what is due. */
  const compareMoved = async (): Promise<void> => {
    const before = new Map(stored.map((each) => [keyOf(each), each]));
    stored = await read();
    expect(foundTexts(judge)).toEqual(expectedTexts(judge, expectedAfter(judge, before)));
  };
  /** Spending leaves nothing to spend that is due back. */
  const compareSpent = async (): Promise<void> => {
    stored = await read();
    const all = granted();
    expect(stored.map((each) => `${keyOf(each)} ${each.initial}`).toSorted()).toEqual(
      [...all].map(([key, { initial }]) => `${key} ${initial}`).toSorted(),
    );
    for (const each of stored) {
      const of = all.get(keyOf(each)) ?? expect.fail();
      const due = judge.dueOf(of);
      expect(each.taken, keyOf(each)).toBeLessThanOrEqual(due);
      if (each.remaining > 0) expect(each.taken, keyOf(each)).toBe(due);
    }
  };

  interface ShownPayment {
    readonly names: readonly string[];
    readonly status: string;
    readonly reason: string | null;
    readonly invoice: { readonly bought: number; readonly returned: number; readonly carried: number } | null;
  }
  /** Returns the payments as the model and as Purser show them. */
  const paymentTexts = (model: GrantingModel, payments: readonly ShownPayment[]) => {
    const sales = [...model.sales.values()].filter(({ isTold, shown }) => isTold && shown.status !== "none");
    const hasSums = ({ bill, shown }: (typeof sales)[number]) => bill.sold === null && shown.status === "granted";
    return {
      expected: sales.map((sale) => {
        const { status, reason, bought, returned, carried } = sale.shown;
        return `${sale.bill.id}: ${status} ${reason}${hasSums(sale) ? ` ${bought} ${returned} ${carried}` : ""}`;
      }),
      found: sales.map((sale) => {
        const payment = payments.find(({ names }) => names.includes(sale.bill.id));
        const { invoice } = payment ?? {};
        const sums = hasSums(sale) ? ` ${invoice?.bought} ${invoice?.returned} ${invoice?.carried}` : "";
        return `${sale.bill.id}: ${payment?.status} ${payment?.reason}${sums}`;
      }),
    };
  };
  const listPayments = (): Promise<readonly ShownPayment[]> => w.payments("&limit=100");

  const carries = async (): Promise<ReadonlyMap<string, number>> => {
    const found = new Map<string, number>();
    for (const user of ["ada", "bob", "cy", "dee"]) {
      const query = `/api/v1/admin/apps/${appId}/payments?mode=live&userId=${user}`;
      const { carry } = (await w.admin("GET", query, { key: env.ADMIN_TOKEN })).body;
      // After an erasure, the customer's name is a hash.
      for (const { customer, currency, amount } of carry) {
        if (!customer.startsWith("#")) found.set(`${customer} ${currency}`, amount);
      }
    }
    return found;
  };

  const post = (path: string, body: object) => call("POST", `/api/v1/usage/${path}`, { key: w.app.keys.sk_live, body });
  const spend: Shop["spend"] = async (action, user, x) => {
    const quantities = { tokens: 1 + (x % 3_000) };
    const use = { userId: user, event: "chat" };
    if (action === "spend") await post("events", { ...use, eventId: randomId("e_"), quantities });
    else if (action === "hold") {
      const body = {
        ...use,
        reservationId: randomId("h_"),
        quantities,
        expiresInSeconds: x % 2 === 0 ? 60 : 86_400 * 3,
      };
      const { status } = await post("reservations", body);
      if (status === 200) holds.push(body.reservationId);
    } else if (action === "endHold") {
      const [id] = holds.splice(x % Math.max(1, holds.length), 1);
      if (id === undefined) return;
      if (x % 3 === 0) await post(`reservations/${id}/release`, {});
      else await post(`reservations/${id}/commit`, { eventId: randomId("e_"), quantities });
    } else {
      w.clock.advance(x % 2 === 0 ? 90_000 : DAY_MS);
      judge.nowMs = w.clock.ms;
      await scheduled(bound(), { isolate: {}, now: w.clock.now, newId: randomId });
    }
    await compareSpent();
  };

  /** Moves the clock to an event's time. The cron then settles what became due. */
  const moveClock = async (happenings: readonly Happening[]): Promise<void> => {
    const next = Math.max(w.clock.ms + 1, ...happenings.map(({ at }) => at * 1_000));
    const isLong = next - w.clock.ms > 60_000;
    w.clock.advance(next - w.clock.ms);
    judge.nowMs = w.clock.ms;
    if (isLong) await settleDue();
  };
  const settleDue = async (): Promise<void> => {
    await scheduled(bound(), { isolate: {}, now: w.clock.now, newId: randomId });
    await compareSpent();
  };

  /** Sends events at once, each twice, and again while they get a passing fault, as Stripe does. */
  const sendAtOnce = async (happenings: readonly Happening[]): Promise<void> => {
    let waiting = [...happenings, ...happenings];
    for (let time = 0; waiting.length > 0; time++) {
      expect(time, "deliveries at once get 503 again and again").toBeLessThan(10);
      const answers = await Promise.all(waiting.map(({ event }) => w.send(event, call)));
      for (const { status, body } of answers) expect([200, 503], JSON.stringify(body)).toContain(status);
      waiting = waiting.filter((_, index) => answers[index]?.status === 503);
    }
  };

  /** Finds an order of the events in which the model gets to Purser's state. */
  const findOrder = async (happenings: readonly Happening[]): Promise<void> => {
    const before = new Map<string, Expected>(stored.map((each) => [keyOf(each), each]));
    stored = await read();
    const payments = await listPayments();
    const carry = await carries();
    const differences: string[] = [];
    for (const order of ordersOf(happenings)) {
      const model = judge.copy();
      let after: ReadonlyMap<string, Expected> = before;
      for (const happening of order) {
        model.take(happening);
        after = expectedAfter(model, after);
      }
      const shown = paymentTexts(model, payments);
      const expected = [...expectedTexts(model, after), ...shown.expected];
      const found = [...foundTexts(model), ...shown.found];
      for (const [key, amount] of carry) {
        const [customer = "", currency = ""] = key.split(" ");
        expected.push(`${key} ${model.carry({ customer, currency })}`);
        found.push(`${key} ${amount}`);
      }
      const wrong = found.filter((text) => !expected.includes(text));
      if (JSON.stringify(found) === JSON.stringify(expected)) {
        judge.become(model);
        return;
      }
      differences.push(
        `${order.map(({ event }) => event.id)}: ${wrong.join("; ")} instead of ${expected.filter((text) => !found.includes(text)).join("; ")}`,
      );
    }
    expect.fail(`No order of the events explains the state:\n${differences.join("\n")}`);
  };

  const shop = (history: () => PaidHistory): Shop => ({
    take: async (happening) => {
      await moveClock([happening]);
      const answer = await w.send(happening.event, call);
      expect(answer.status, JSON.stringify(answer.body)).toBe(200);
      judge.take(happening);
      await compareMoved();
    },
    takeAtOnce: async (happenings) => {
      await moveClock(happenings);
      await sendAtOnce(happenings);
      await findOrder(happenings);
    },
    erase: async (user) => {
      const answer = await call("POST", "/api/v1/erase-person", {
        key: w.app.keys.sk_live,
        body: { distinctId: user },
      });
      expect(answer.body).toMatchObject({ status: "completed" });
      judge.erase(user);
      stored = await read();
      await compareSpent();
    },
    setPrices: async (prices) => {
      await setPrices(prices);
      judge.setPrices(prices);
    },
    setCarry: async ({ customer, currency }, amount) => {
      const body = { mode: "live", customer, currency, amount };
      const path = `/api/v1/admin/apps/${appId}/payments/carry`;
      const answer = await w.admin("POST", path, { key: env.ADMIN_TOKEN, body });
      expect(answer.status, JSON.stringify(answer.body)).toBe(200);
      judge.operatorSets({ customer, currency }, amount);
    },
    settle: async (bill, userId, pack, times) => {
      const answer = await w.settle(bill.id, { userId, packId: idOf(pack.name), quantity: times });
      expect(answer.status, JSON.stringify(answer.body)).toBe(200);
      judge.settle(bill, userId, pack, times);
      await compareMoved();
    },
    spend,
    check: async () => {
      const shown = paymentTexts(judge, await listPayments());
      expect(shown.found).toEqual(shown.expected);
      const carry = await carries();
      const all = granted();
      const erased = judge.granted.filter(({ user }) => judge.erased.has(user));
      const balances: Given["balances"] = [
        ...stored.map((each) => ({
          ...(all.get(keyOf(each)) ?? expect.fail()),
          ...{ initial: each.initial, stands: each.remaining > 0 },
        })),
        ...erased.map((each) => ({ ...each, stands: false })),
      ];
      const given: Given = {
        balances,
        carry: (of) => carry.get(`${of.customer} ${of.currency}`) ?? judge.carry(of),
      };
      expect(moneyFlaws(history(), judge, given, plot.isInOrder)).toEqual([]);
      for (const [key, amount] of carry) {
        const [customer = "", currency = ""] = key.split(" ");
        expect(`${key} ${amount}`).toBe(`${key} ${judge.carry({ customer, currency })}`);
      }
    },
  });
  return { judge, shop, nowS: w.nowS };
}

/** Runs a history in Purser and in the model, and compares them after each step. */
export async function comparePlot(plot: Plot): Promise<void> {
  const { judge, shop, nowS } = await openShop(plot);
  const history: PaidHistory = new PaidHistory(
    plot,
    shop(() => history),
    judge,
    { id: randomId(""), nowS },
  );
  await history.run().catch((error: unknown) => {
    throw new Error(`${error instanceof Error ? error.message : error}\nafter\n${history.told.join("\n")}`);
  });
}
