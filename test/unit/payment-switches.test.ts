import { expect, it } from "vitest";
import type { StripeSetting } from "../../src/payments/stripe-setting.ts";
import { changeOf, type PureBooks, type PureShop, takePurely } from "../support/pure-payments.ts";
import { createRandom } from "../support/random.ts";
import { steps } from "../support/steps.ts";
import { liveSwitching, PLANS } from "../support/switching-life.ts";

// Pure functions decide the due amounts of lines and debts. This test simulates random customers who try to get free credits. The
// model counts only money, and decides which credits are paid for.

const LIVES = 120;
const seed = Number(process.env.PROOF_SEED || "20260115");

const setting: StripeSetting = {
  currency: "usd",
  prices: PLANS.map(({ price, amount }) => ({ price, packId: price, expires: "pack", trial: true, amount })),
};
const packOf: PureShop["packOf"] = (id) => {
  const plan = PLANS.find(({ price }) => price === id);
  const item = {
    id: "cpi_1",
    position: 0,
    unit: "tokens" as const,
    matches: "[]",
    priority: 100,
    amountSteps: steps(plan?.steps ?? 0),
  };
  return {
    ...{ id, appId: "app_1", name: id, nameKey: id, version: 1, createdAtMs: 0, archivedAtMs: null },
    ...{ defaultExpiryDays: null, unit: null, matches: "[]", priority: 100, items: [item] },
  };
};

it("leaves no unpaid credits after random plan switches, refunds, disputes, trials and coupons", async () => {
  let takenBalances = 0;
  let debtPayers = 0;
  for (let life = 0; life < LIVES; life++) {
    const random = createRandom(seed + life);
    const books: PureBooks = { payments: [], balances: {}, debts: [] };
    let nowMs = 0;
    await liveSwitching(
      random,
      {
        deliver: (event) => {
          nowMs += 1;
          takePurely(books, { setting, packOf }, changeOf(event), nowMs);
        },
        spend: (amount) => {
          let left = amount;
          for (const balance of Object.values(books.balances).filter(({ isRevoked }) => !isRevoked)) {
            const part = Math.min(left, balance.remaining);
            balance.remaining -= part;
            left -= part;
          }
        },
        look: () => ({
          standing: books.payments.flatMap(({ grants }) =>
            grants.flatMap(({ line, balanceId, initialSteps, takenSteps }) => {
              const remainingSteps = books.balances[balanceId]?.remaining ?? 0;
              const spentSteps = initialSteps - takenSteps - remainingSteps;
              return line === null ? [] : [{ line, initialSteps, remainingSteps, spentSteps }];
            }),
          ),
          debt: books.debts.reduce((sum, { amount }) => sum + amount, 0),
        }),
      },
      30,
      1_768_478_400,
    );
    takenBalances += books.payments.flatMap(({ grants }) => grants).filter(({ takenSteps }) => takenSteps > 0).length;
    debtPayers += books.debts.flatMap(({ payers }) => payers).length;
  }
  // Enough of the simulated customers had balances taken back, and debts.
  expect(takenBalances).toBeGreaterThan(LIVES);
  expect(debtPayers).toBeGreaterThan(LIVES / 4);
}, 180_000);
