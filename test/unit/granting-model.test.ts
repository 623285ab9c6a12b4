import fc from "fast-check";
import { expect, it } from "vitest";
import { GrantingModel, type Mistake, MONEY_MISTAKES, OTHER_MISTAKES } from "../support/granting-model.ts";
import { moneyFlaws } from "../support/money-properties.ts";
import { PaidHistory, type Plot, plots, SETTING, taxPercentOf } from "../support/paid-history.ts";

const SEED = Number(process.env.PROOF_SEED || 1);
const LENGTH = 40;
const HISTORIES = process.env.SOAK_OPERATIONS === undefined ? 1_000 : Number(process.env.SOAK_OPERATIONS);

/** Returns the state of a model as text: its balances with the amounts due back, its carries and its invoices. */
function seen(model: GrantingModel, history: PaidHistory): string {
  const balances = model.granted.map(
    (each) => `${each.user} ${each.ref} ${each.unit} ${each.initial} ${model.dueOf(each)} ${each.expiresAtMs}`,
  );
  const carries = history.stripe.bills.map((bill) => model.carry(bill));
  const shown = history.stripe.bills.map((bill) => model.saleOf(bill).shown);
  return JSON.stringify({ balances: balances.toSorted(), carries, shown }, null, 1);
}

interface Verdict {
  readonly isSame: boolean;
  readonly flaws: readonly string[];
  readonly told: readonly string[];
}

/** Runs a history with the rule and with a mistake in it. */
async function judgePlot(plot: Plot, mistake: Mistake | null): Promise<Verdict> {
  const about = { version: plot.version, taxPercent: taxPercentOf(plot) };
  const judge = new GrantingModel(SETTING, about);
  const model = mistake === null ? judge : new GrantingModel(SETTING, about, mistake);
  const both = mistake === null ? [judge] : [judge, model];
  const flaws: string[] = [];
  let isSame = true;
  const history: PaidHistory = new PaidHistory(
    plot,
    {
      take: (happening) => {
        for (const each of both) each.take(happening);
      },
      takeAtOnce: (happenings) => {
        for (const each of both) each.takeAtOnce(happenings);
      },
      erase: (user) => {
        for (const each of both) each.erase(user);
      },
      setPrices: (prices) => {
        for (const each of both) each.setPrices(prices);
      },
      setCarry: (of, amount) => {
        for (const each of both) each.operatorSets(of, amount);
      },
      settle: (...settled) => {
        for (const each of both) each.settle(...settled);
      },
      spend: () => {},
      check: () => {
        isSame &&= model === judge || seen(model, history) === seen(judge, history);
        const balances = model.granted.map((each) => ({ ...each, stands: model.dueOf(each) < each.initial }));
        flaws.push(...moneyFlaws(history, judge, { carry: (of) => model.carry(of), balances }, plot.isInOrder));
      },
    },
    judge,
    { id: "1", nowS: 1_768_478_400 },
  );
  await history.run();
  return { isSame, flaws, told: history.told };
}

/** The most histories that may be needed to find a mistake. Most need fewer than twenty. */
const HISTORIES_MAX = 4_000;

it("the model of the rule of S3, S4 and S6 keeps the three properties of money in random histories", async () => {
  await fc.assert(
    fc.asyncProperty(plots(LENGTH), async (plot) => {
      const { flaws, told } = await judgePlot(plot, null);
      expect(flaws, told.join("\n")).toEqual([]);
    }),
    { seed: SEED, numRuns: HISTORIES },
  );
});

it.each(MONEY_MISTAKES)(
  "the model of the rule of S3, S4 and S6 breaks a property of money in some history if %s",
  async (mistake) => {
    const { failed } = await fc.check(
      fc.asyncProperty(plots(LENGTH), async (plot) => (await judgePlot(plot, mistake)).flaws.length === 0),
      { seed: SEED, numRuns: HISTORIES_MAX, endOnFailure: true },
    );
    expect(failed).toBe(true);
  },
);

it.each(OTHER_MISTAKES)("the model of the rule of S3, S4 and S6 differs in some history if %s", async (mistake) => {
  const { failed } = await fc.check(
    fc.asyncProperty(plots(LENGTH), async (plot) => (await judgePlot(plot, mistake)).isSame),
    { seed: SEED, numRuns: HISTORIES_MAX, endOnFailure: true },
  );
  expect(failed).toBe(true);
});
