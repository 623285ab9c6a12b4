import fc from "fast-check";
import { expect, it } from "vitest";
import { amountMinorMax } from "../../src/books/amounts/amount.ts";
import { type EarlierShare, planRefund, type Share } from "../../src/books/credits/stored-refund.ts";
import { minor } from "../support/minor.ts";

const PACK = "cpk_1";
const covered = (share: Share): EarlierShare => ({ packIds: new Set([PACK]), share });
const balanceOf = (initialMinor: number, packId = PACK) => ({ packId, initialMinor: minor(initialMinor) });

/** The due amounts of consecutive refunds of one balance; null from the first rejected one. */
function dues(initialMinor: number, shares: readonly Share[]) {
  return shares.map((share, index) =>
    planRefund([balanceOf(initialMinor)], shares.slice(0, index).map(covered), share)?.at(0),
  );
}

const initial = fc.integer({ min: 1, max: amountMinorMax.tokens });
const of = fc.integer({ min: 1, max: 1_000_000_000_000 });

/** Shares whose sum is below 1, with denominators of every size. */
const parts = fc
  .array(of, { minLength: 1, maxLength: 60 })
  .chain((ofs) =>
    fc.tuple(
      ...ofs.map((all) => fc.integer({ min: 0, max: Math.floor(all / ofs.length) }).map((part) => ({ part, of: all }))),
    ),
  )
  .map((shares) => shares.filter(({ part }) => part > 0));

it("the shares of refunds add up exactly: after each refund the total due is the sum of the shares, rounded down to a step", () => {
  fc.assert(
    fc.property(initial, parts, (initialMinor, shares) => {
      let [all, numerator, denominator] = [0n, 0n, 1n];
      for (const [index, due] of dues(initialMinor, shares).entries()) {
        const { part, of } = shares[index] ?? { part: 0, of: 1 };
        [numerator, denominator] = [numerator * BigInt(of) + BigInt(part) * denominator, denominator * BigInt(of)];
        all += BigInt(due?.dueMinor ?? -1);
        expect(due?.dueMinor).toBeGreaterThanOrEqual(0);
        expect(all).toBe((BigInt(initialMinor) * numerator) / denominator);
      }
    }),
  );
});

it("the shares of refunds add up to the whole balance when the rest is refunded, after any earlier shares", () => {
  fc.assert(
    fc.property(initial, parts, (initialMinor, shares) => {
      const due = dues(initialMinor, [...shares, null]);
      expect(due.reduce((sum, each) => sum + BigInt(each?.dueMinor ?? 0), 0n)).toBe(BigInt(initialMinor));
      expect(due.at(-1)?.revokes).toBe(true);
    }),
  );
});

it("the shares of refunds are rejected only when their sum is above 1, whatever their denominators", () => {
  fc.assert(
    fc.property(initial, fc.integer({ min: 2, max: 97 }), (initialMinor, count) => {
      const shares = Array.from({ length: count }, () => ({ part: 1, of: count }));
      const due = dues(initialMinor, shares);
      expect(due.map((each) => each?.revokes)).toEqual(shares.map((_, index) => index === count - 1));
      for (const more of [
        { part: 1, of: 1_000_000_000_000 },
        { part: 1, of: 1 },
      ]) {
        expect(dues(initialMinor, [...shares, more]).at(-1)).toBeUndefined();
      }
    }),
  );
});

it("the shares of refunds of one third each take 33, 33 and 34 of 100 steps", () => {
  const third = { part: 1, of: 3 };
  expect(dues(100, [third, third, third]).map((due) => due?.dueMinor)).toEqual([33, 33, 34]);
});

it("the shares of refunds count only for balances of their own packs, and the whole refund is rejected when one balance is above 1", () => {
  const earlier = [covered({ part: 3, of: 4 })];
  const both = [balanceOf(100), balanceOf(100, "cpk_2")];
  const rest = planRefund(both, earlier, null);
  expect(rest?.map(({ dueMinor }) => dueMinor)).toEqual([25, 100]);
  expect(planRefund(both, earlier, { part: 1, of: 2 })).toBeNull();
  const again = planRefund(both, [...earlier, covered(null)], null);
  expect(again?.map(({ dueMinor, wasWhole }) => [dueMinor, wasWhole])).toEqual([
    [0, true],
    [100, false],
  ]);
});
