import { env } from "cloudflare:workers";
import { afterAll, describe, expect, it, vi } from "vitest";
import { FAULTS, faultyD1 } from "../support/faulty-d1.ts";
import { expectLedgerInvariants } from "../support/invariants.ts";
import { credit, plansShop, prorated } from "../support/plans-shop.ts";
import { createRandom } from "../support/random.ts";
import { isSoak, soakCount, soakPart, timeoutOf } from "../support/soak.ts";
import { BEFORE, TODAY } from "../support/stripe-versions.ts";
import { liveSwitching, type Standing } from "../support/switching-life.ts";

// test/unit/payment-switches.test.ts simulates many customers with the pure code. This test simulates some with the database.
afterAll(expectLedgerInvariants);

const LIVES = soakCount(3, 6);
const seed = Number(env.PROOF_SEED || "20260115");

type Shop = Awaited<ReturnType<typeof plansShop>>;

/** The stored balances of invoice lines, and the sum of debts. */
async function look({ w }: Shop): Promise<{ readonly standing: readonly Standing[]; readonly debt: number }> {
  const { id } = w.app.environments.live;
  const [grants, debts] = await env.DB.batch([
    env.DB.prepare(
      `SELECT g.line AS line, b.initial_steps AS initialSteps, b.remaining_steps AS remainingSteps,
         b.initial_steps - g.taken_steps - b.remaining_steps AS spentSteps
       FROM payment_grants AS g CROSS JOIN credit_balances AS b ON b.account_id = g.account_id AND b.id = g.balance_id
       WHERE g.environment_id = ? AND g.line IS NOT NULL`,
    ).bind(id),
    env.DB.prepare("SELECT coalesce(sum(amount), 0) AS debt FROM payment_debts WHERE environment_id = ?").bind(id),
  ]);
  const [owed] = (debts?.results ?? []) as { debt: number }[];
  // The columns have the names of the fields.
  return { standing: (grants?.results ?? []) as unknown as Standing[], debt: owed?.debt ?? 0 };
}

describe("customers who switch plans", () => {
  it("have no unpaid credits in the database after each step", { timeout: timeoutOf(LIVES, 60_000) }, async () => {
    const tell = soakPart("lives of customers who switch plans", LIVES, "lives", seed);
    for (let life = 0; life < LIVES; life++) {
      const shop = await plansShop(TODAY, { basic: { trial: true } });
      const { w } = shop;
      let spends = 0;
      const deliver = async (event: Parameters<typeof w.deliver>[0]) => {
        w.clock.advance(1);
        await w.deliver(event);
      };
      const spend = async (steps: number) => {
        const tokens = Math.min(steps / 1_000, await shop.total());
        spends += 1;
        if (tokens > 0) await shop.spend(`e${spends}`, tokens);
      };
      await liveSwitching(createRandom(seed + life), { deliver, spend, look: () => look(shop) }, 20, w.nowS);
      tell();
    }
  });
});

describe("a plan switch during which a trip to the database fails", () => {
  it.each(isSoak ? FAULTS : (["amid", "after"] as const))(
    'ends in the same state when Stripe sends the event again (fault "%s", at each trip)',
    { timeout: 120_000 },
    async (fault) => {
      vi.spyOn(console, "warn").mockReturnValue();
      vi.spyOn(scheduler, "wait").mockResolvedValue();
      const faulty = faultyD1(env.DB);
      for (let at = 1, wasHit = true; wasHit; at++) {
        faulty.plan(null);
        const shop = await plansShop(BEFORE, {}, { DB: faulty.d1 });
        const { w, paid, basic, pro } = shop;
        await w.deliver(paid("in_1", [basic("il_1")], { subscription: { user: "v" } }));
        await shop.spend("e1", 800, "v");
        const switched = paid("in_2", [credit(basic("il_2", 500), "in_1", ["il_1"]), prorated(pro("il_3", 1500))]);
        faulty.plan({ fault, at, persists: at % 2 === 0 });
        const answer = await w.send(switched);
        wasHit = faulty.trips() >= at;
        faulty.plan(null);
        if (answer.status !== 200) expect(answer.status).toBe(503);
        await w.deliver(switched);
        expect([await shop.tokens("v"), await shop.tokens(), await shop.debts()], `${at}`).toEqual([[0], [1600], []]);
      }
    },
  );
});
