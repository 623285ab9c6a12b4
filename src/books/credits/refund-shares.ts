import type { Steps } from "../../db/schema.ts";
import { addFractions, type Fraction } from "../amounts/amount.ts";

/** A share of what a balance was issued with, `part` of `of`. Null for all that is left of 1. */
export type Share = { readonly part: number; readonly of: number } | null;

/** The share of an earlier refund, and the packs whose balances it was about. */
export interface EarlierShare {
  readonly packIds: ReadonlySet<string>;
  readonly share: Share;
}

/** What a refund is due of one balance. */
export interface Due<Balance> {
  readonly balance: Balance;
  readonly dueSteps: Steps;
  /** Whether the sum of shares is 1 with this refund. Then whatever remains is taken, and the balance is revoked. */
  readonly revokes: boolean;
  /** Whether it was 1 before. */
  readonly wasWhole: boolean;
}

const NOTHING: Fraction = { numerator: 0n, denominator: 1n };
const WHOLE: Fraction = { numerator: 1n, denominator: 1n };

/**
 * What a refund is due of each balance after the earlier ones: the difference of both sums of shares, each rounded down to a
 * step (C21). So the refunds of a balance add up exactly to its share. Null when a sum would be above 1.
 */
export function planRefund<Balance extends { readonly packId: string; readonly initialSteps: Steps }>(
  balances: readonly Balance[],
  earlier: readonly EarlierShare[],
  share: Share,
): Due<Balance>[] | null {
  const due: Due<Balance>[] = [];
  for (const balance of balances) {
    const shares = earlier.filter(({ packIds }) => packIds.has(balance.packId)).map((refund) => refund.share);
    const before = shares.reduce(addShare, NOTHING);
    const after = addShare(before, share);
    if (after.numerator > after.denominator) return null;
    const dueSteps = roundDown(balance.initialSteps, after) - roundDown(balance.initialSteps, before);
    due.push({ balance, dueSteps: Number(dueSteps) as Steps, revokes: isWhole(after), wasWhole: isWhole(before) });
  }
  return due;
}

function addShare(sum: Fraction, share: Share): Fraction {
  if (share === null) return WHOLE;
  return addFractions(sum, { numerator: BigInt(share.part), denominator: BigInt(share.of) });
}

function isWhole({ numerator, denominator }: Fraction): boolean {
  return numerator === denominator;
}

function roundDown(initialSteps: Steps, sum: Fraction): bigint {
  return (BigInt(initialSteps) * sum.numerator) / sum.denominator;
}
