import type { Steps } from "../../db/schema.ts";
import { addFractions, type Fraction } from "../amounts/amount.ts";

/** A share of a balance's initial amount: `part` of `of`. Null for the whole rest that earlier refunds left. */
export type Share = { readonly part: number; readonly of: number } | null;

/** The share of an earlier refund, and the packs whose balances it covered. */
export interface EarlierShare {
  readonly packIds: ReadonlySet<string>;
  readonly share: Share;
}

/** The amount that a refund takes from one balance. */
export interface DueShare<Balance> {
  readonly balance: Balance;
  readonly dueSteps: Steps;
  /** Whether the shares, with this one, total 1. Then the refund takes all that remains, and revokes the balance. */
  readonly revokes: boolean;
  /** Whether the shares totalled 1 before this refund. */
  readonly wasWhole: boolean;
}

const NO_SHARE: Fraction = { numerator: 0n, denominator: 1n };
const WHOLE_SHARE: Fraction = { numerator: 1n, denominator: 1n };

/**
 * Returns the amount that a refund takes from each balance after the earlier refunds: the difference between both sums of
 * shares, each rounded down to a step (C21). So a balance's refunds add up exactly to its share. Returns null when a sum would
 * be above 1.
 */
export function planRefund<Balance extends { readonly packId: string; readonly initialSteps: Steps }>(
  balances: readonly Balance[],
  earlier: readonly EarlierShare[],
  share: Share,
): DueShare<Balance>[] | null {
  const due: DueShare<Balance>[] = [];
  for (const balance of balances) {
    const shares = earlier.filter(({ packIds }) => packIds.has(balance.packId)).map((refund) => refund.share);
    const before = shares.reduce(addShare, NO_SHARE);
    const after = addShare(before, share);
    if (after.numerator > after.denominator) return null;
    const dueSteps = roundDown(balance.initialSteps, after) - roundDown(balance.initialSteps, before);
    due.push({
      balance,
      dueSteps: Number(dueSteps) as Steps,
      revokes: isWholeShare(after),
      wasWhole: isWholeShare(before),
    });
  }
  return due;
}

function addShare(sum: Fraction, share: Share): Fraction {
  if (share === null) return WHOLE_SHARE;
  return addFractions(sum, { numerator: BigInt(share.part), denominator: BigInt(share.of) });
}

function isWholeShare({ numerator, denominator }: Fraction): boolean {
  return numerator === denominator;
}

function roundDown(initialSteps: Steps, sum: Fraction): bigint {
  return (BigInt(initialSteps) * sum.numerator) / sum.denominator;
}
