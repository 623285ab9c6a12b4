import { afterAll, describe, expect, it } from "vitest";
import { grantInput } from "../../../../src/api/credits/grant-credits.ts";
import { planInput } from "../../../../src/api/credits/preview-debit.ts";
import { eventInput } from "../../../../src/api/usage/usage-shapes.ts";
import { adjustBalance, previewAdjustment } from "../../../../src/books/credits/adjust.ts";
import { grantPack, previewGrant } from "../../../../src/books/credits/grant.ts";
import { previewRefund, refundCredits } from "../../../../src/books/credits/refund.ts";
import { planUsage } from "../../../../src/books/usage/plan.ts";
import { recordEvent } from "../../../../src/books/usage/record-event.ts";
import { PurserError } from "../../../../src/errors.ts";
import { DAY_MS } from "../../../../src/lib/time.ts";
import { storedBalances } from "../../../support/credits.ts";
import { expectLedgerInvariants } from "../../../support/invariants.ts";
import { CREDITS, RECURRING } from "../../../support/paths.ts";
import { createRandom, type Random } from "../../../support/random.ts";
import { soakCount } from "../../../support/soak.ts";
import { makeSpender } from "../../../support/spender.ts";
import { makeCtx, makePack } from "../../../support/world.ts";

afterAll(expectLedgerInvariants);

/** The answer of a call, or the code and the details of its error. */
const answerOf = async <Answer>(call: () => Promise<Answer>): Promise<Answer | object> => {
  try {
    return await call();
  } catch (error) {
    if (error instanceof PurserError) return { code: error.code, param: error.param, message: error.message };
    throw error;
  }
};

/** A user with two orders, spending, refunds and revocations, whose holds and daily periods are due. */
async function randomUser(random: Random) {
  const spender = await makeSpender([]);
  const { app, clock, userId, post, spend, reserve } = spender;
  await makePack(app.appId, "Both", [
    { amountMinor: 20_000, unit: "tokens" },
    { amountMinor: 10_000_000, unit: "cents", priority: 50 },
  ]);
  await makePack(app.appId, "Daily", [{ amountMinor: 5_000, unit: "tokens" }]);
  const grant = (externalRef: string) => post(`${CREDITS}/grant`, { userId, packId: "Both", externalRef });
  for (const order of ["a", "b"]) expect((await grant(order)).status).toBe(200);
  if (random.chance(0.5)) {
    const recurring = {
      userId,
      recurringId: "rec_1",
      packId: "Daily",
      every: "day",
      rolloverPeriods: random.integer(0, 2),
    };
    expect((await post(RECURRING, recurring)).status).toBe(200);
  }
  for (let step = random.integer(1, 6); step > 0; step--) {
    const quantities = { count: 0, tokens: random.integer(1, 15), cents: random.integer(1, 8) };
    const onExpiry = random.pick(["return", "charge"] as const);
    const kind = random.weighted({ hold: 5, event: 2, refund: 2, revoke: 1 });
    if (kind === "hold") await reserve({ quantities, onExpiry, expiresInSeconds: random.integer(1, 60) });
    if (kind === "event") await spend(`e${step}`, { quantities, onShortage: "partial" });
    if (kind === "refund") {
      const share = { part: 1, of: random.integer(2, 4) };
      await post(`${CREDITS}/refund`, { userId, externalRef: random.pick(["a", "b"]), refundRef: `r${step}`, share });
    }
    if (kind === "revoke" && random.chance(0.5)) {
      const { id: balanceId } = random.pick(await storedBalances(app, userId));
      await post(`${CREDITS}/revoke`, { balanceId });
    }
  }
  clock.advance(random.pick([0, 30_000, 60_000, DAY_MS, 3 * DAY_MS]));
  return { ...spender, ctx: makeCtx(app.environments.live, clock) };
}

const SEEDS = Array.from({ length: soakCount(5, 2) }, (_, index) => index + 1);

describe.each(SEEDS)("for random user %i with due holds and periods", (seed) => {
  it("the preview of an adjustment says what the adjustment then does", async () => {
    const random = createRandom(seed);
    const { ctx, app, userId } = await randomUser(random);
    const { id: balanceId } = random.pick(await storedBalances(app, userId));
    const delta = random.integer(-25, 5);
    const preview = await answerOf(async () => {
      const { balance, remaining } = await previewAdjustment(ctx, { balanceId, delta });
      expect(balance.remaining + delta).toBeCloseTo(remaining, 6);
      return { balanceId, remaining };
    });
    const done = await answerOf(async () => (await adjustBalance(ctx, { balanceId, delta, note: "n" })).output);
    expect(preview).toEqual(done);
  });

  it("the preview of a refund says what the refund then takes", async () => {
    const random = createRandom(seed);
    const { ctx, userId } = await randomUser(random);
    const share = random.pick([undefined, { part: 1, of: 2 }, { part: 1, of: 4 }]);
    const input = { userId, externalRef: random.pick(["a", "b"]), ...(share === undefined ? {} : { share }) };
    const preview = await answerOf(async () =>
      (await previewRefund(ctx, input)).map(({ balanceId, unit, remaining, taken, short }) => {
        return { balanceId, unit, taken, short, remaining: remaining - taken };
      }),
    );
    const done = await answerOf(async () => {
      const { output } = await refundCredits(ctx, { ...input, refundRef: "last" });
      return output.balances.map(({ packItemId: _, ...rest }) => rest);
    });
    expect(preview).toEqual(done);
  });

  it("the preview of a grant says what the grant then issues, or that it was issued before", async () => {
    const random = createRandom(seed);
    const { ctx, userId } = await randomUser(random);
    const input = grantInput.parse({ userId, packId: "Both", externalRef: random.pick(["a", "c"]) });
    const { isReplay, amounts, expiresAt } = await previewGrant(ctx, input);
    const { output, replayed } = await grantPack(ctx, input);
    expect({ isReplay, expiresAt, count: amounts.length }).toEqual({
      isReplay: replayed,
      expiresAt: output.expiresAt,
      count: output.balances.length,
    });
    if (!replayed)
      expect(amounts.map(({ amount }) => amount)).toEqual(output.balances.map(({ remaining }) => remaining));
  });

  it("the plan of a usage says what its event then debits", async () => {
    const random = createRandom(seed);
    const { ctx, userId } = await randomUser(random);
    const quantities = { count: 0, tokens: random.integer(1, 40), cents: random.integer(1, 20) };
    const usage = { userId, event: "chat", quantities, onShortage: "partial" };
    const { debits, uncovered } = await planUsage(ctx, planInput.parse(usage));
    const { output } = await recordEvent(ctx, eventInput.parse({ ...usage, eventId: "planned" }));
    expect({ debits, uncovered }).toEqual({ debits: output.debits, uncovered: output.uncovered });
  });
});
