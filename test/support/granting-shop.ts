import { env } from "cloudflare:workers";
import { expect } from "vitest";
import { scheduled } from "../../src/cron.ts";
import { randomId } from "../../src/lib/ids.ts";
import { DAY_MS } from "../../src/lib/time.ts";
import { type Granted, GrantingModel } from "./granting-model.ts";
import { type Given, moneyFlaws } from "./money-properties.ts";
import { PaidHistory, type Plot, SETTING, type Shop, taxPercentOf } from "./paid-history.ts";
import { paymentsWorld, SIGNING_SECRET } from "./payments.ts";
import { bound, inTurn, makeClient, makePack, newLegacyPack } from "./world.ts";

/** The name of the pack without items. */
const LEGACY = "Seat";

interface Stored {
  readonly user: string;
  readonly ref: string;
  readonly unit: string;
  readonly initial: number;
  readonly remaining: number;
  readonly taken: number;
  readonly isRevoked: number;
}

/** Purser with the prices of the histories, beside the model. */
async function openShop(plot: Plot) {
  const w = await paymentsWorld();
  const call = makeClient(w.clock, {}, randomId, inTurn(2));
  const { appId } = w.app;
  const environmentId = w.app.environments.live.id;
  const packIds = new Map<string, string>();
  for (const { pack } of SETTING.prices) {
    const items = pack.items.map(({ unit, steps }) => ({ unit, amountSteps: steps }));
    if (pack.name === LEGACY) {
      const { packId, insert } = newLegacyPack(appId, LEGACY, "tokens", { expiryDays: 5 });
      await insert.run();
      packIds.set(LEGACY, packId);
    } else packIds.set(pack.name, await makePack(appId, pack.name, items));
  }
  const idOf = (name: string): string => packIds.get(name) ?? expect.fail(`No pack is named ${name}.`);
  const setPrices = async (prices: (typeof SETTING)["prices"]): Promise<void> => {
    const shown = prices.map(({ price, pack, amount, trial }) => ({
      ...{ price, packId: pack.name, amount, trial },
      ...(pack.name === LEGACY ? { quantity: (pack.items[0]?.steps ?? 0) / 1_000 } : {}),
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
      `SELECT a.user_id AS user, b.external_ref AS ref, b.unit AS unit, b.initial_steps AS initial,
         b.remaining_steps AS remaining, g.taken_steps AS taken, b.revoked_at_ms IS NOT NULL AS isRevoked
       FROM accounts AS a CROSS JOIN credit_balances AS b ON b.account_id = a.id
       LEFT JOIN payment_grants AS g ON g.balance_id = b.id
       WHERE a.environment_id = ?`,
    )
      .bind(environmentId)
      .all<Stored & Record<string, unknown>>();
    return results;
  };
  const granted = (): ReadonlyMap<string, Granted> =>
    new Map(
      judge.granted.map((each) => {
        const trial = /^stripe:trial:(.*)$/.exec(each.ref)?.[1];
        const ref = trial === undefined ? each.ref : `stripe:trial:${idOf(trial)}`;
        return [keyOf({ ...each, ref }), each];
      }),
    );

  /** Compares all balances with the model, which knows what is due, after an event that moved what is due. */
  const compareMoved = async (): Promise<void> => {
    const before = new Map(stored.map((each) => [keyOf(each), each]));
    stored = await read();
    const expected = [...granted()].map(([key, each]) => {
      const due = judge.dueOf(each);
      const { remaining, taken } = before.get(key) ?? { remaining: each.initial, taken: 0 };
      const more = due > taken ? Math.min(due - taken, remaining) : due - taken;
      return `${key} ${each.initial}: ${remaining - more} remain, ${taken + more} taken${due === each.initial ? ", revoked" : ""}`;
    });
    const found = stored.map(
      (each) =>
        `${keyOf(each)} ${each.initial}: ${each.remaining} remain, ${each.taken} taken${each.isRevoked === 1 ? ", revoked" : ""}`,
    );
    expect(found.toSorted()).toEqual(expected.toSorted());
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

  const comparePayments = async (): Promise<void> => {
    const payments = await w.payments("&limit=100");
    for (const { bill, isTold, shown } of judge.sales.values()) {
      const payment = payments.find(({ names }: { names: string[] }) => names.includes(bill.id));
      if (!isTold || shown.status === "none") continue;
      const about = bill.id;
      const { status, reason, bought, returned, carried } = shown;
      expect(`${about}: ${payment?.status} ${payment?.reason}`).toBe(`${about}: ${status} ${reason}`);
      if (bill.sold !== null || status !== "granted") continue;
      const found = payment.invoice ?? {};
      expect(`${about}: ${found.bought} ${found.returned} ${found.carried}`).toBe(
        `${about}: ${bought} ${returned} ${carried}`,
      );
    }
  };

  const carries = async (): Promise<ReadonlyMap<string, number>> => {
    const found = new Map<string, number>();
    for (const user of ["ada", "bob", "cy"]) {
      const query = `/api/v1/admin/apps/${appId}/payments?mode=live&userId=${user}`;
      const { carry } = (await w.admin("GET", query, { key: env.ADMIN_TOKEN })).body;
      for (const { customer, currency, amount } of carry) found.set(`${customer} ${currency}`, amount);
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
      await scheduled(bound(), { isolate: {}, now: w.clock.now, newId: randomId });
    }
    await compareSpent();
  };

  const shop = (history: () => PaidHistory): Shop => ({
    take: async (happening) => {
      w.clock.advance(1);
      const answer = await w.send(happening.event, call);
      expect(answer.status, JSON.stringify(answer.body)).toBe(200);
      judge.take(happening);
      await compareMoved();
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
      await comparePayments();
      const carry = await carries();
      const all = granted();
      const balances: Given["balances"] = stored.map((each) => ({
        ...(all.get(keyOf(each)) ?? expect.fail()),
        ...{ initial: each.initial, stands: each.remaining > 0 },
      }));
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
