/** How far the verification of a user has come, and where the balances that go on stand. */
export interface VerifyPosition {
  readonly afterSeq: number;
  /**
   * The seqs of the last entries of these balances, each with what the sum of its deltas is above the entry's
   * `balance_after_steps`. Null when they are too many for a cursor: then they are found again from the entries before.
   */
  readonly ends: ReadonlyMap<number, bigint> | null;
}

export const START: VerifyPosition = { afterSeq: 0, ends: new Map() };

/** Keeps a cursor far below the length of an address. */
const ENDS_MAX = 400;

/** A position as text for a cursor. Most sums are what the entry says, and are left out. */
export function writePosition({ afterSeq, ends }: VerifyPosition): string {
  if (ends === null || ends.size > ENDS_MAX) return JSON.stringify([afterSeq, null]);
  return JSON.stringify([afterSeq, [...ends].map(([seq, above]) => (above === 0n ? seq : [seq, `${above}`]))]);
}

export function readPosition(text: string): VerifyPosition {
  // The cursor's checksum says that `writePosition` wrote it.
  const [afterSeq, ends] = JSON.parse(text) as [number, (number | [number, string])[] | null];
  if (ends === null) return { afterSeq, ends };
  return {
    afterSeq,
    ends: new Map(ends.map((end) => (typeof end === "number" ? [end, 0n] : [end[0], BigInt(end[1])]))),
  };
}
