import type { LedgerStretch, Standing } from "../ledger/verify-entries.ts";

/**
 * The progress of a user's verification. It reads the ledger in passes. One pass covers all balances, unless more of them
 * continue than a cursor can hold: then the next pass covers those that were granted later.
 */
export interface VerifyPosition {
  readonly afterSeq: number;
  /** The pass covers the balances granted after `fromSeq`, up to `toSeq`. Null: all that follow. */
  readonly fromSeq: number;
  readonly toSeq: number | null;
  /**
   * The seqs of the last entries of balances that continue. The value is the sum of the deltas minus the entry's
   * `balance_after_steps`.
   */
  readonly ends: ReadonlyMap<number, bigint>;
}

export const VERIFY_START: VerifyPosition = { afterSeq: 0, fromSeq: 0, toSeq: null, ends: new Map() };

/** The most characters of the ends in a cursor. It keeps a cursor far below the longest URL. */
const ENDS_CHARACTERS_MAX = 3_000;

/** Writes each seq as the difference from the one before, which is short. Omits a sum that equals the entry's own, as most do. */
function writeEnds(ends: VerifyPosition["ends"]): string {
  let before = 0;
  return [...ends]
    .toSorted(([a], [b]) => a - b)
    .map(([seq, above]) => {
      const text = `${(seq - before).toString(36)}${above === 0n ? "" : `:${above}`}`;
      before = seq;
      return text;
    })
    .join();
}

function readEnds(text: string): VerifyPosition["ends"] {
  const ends = new Map<number, bigint>();
  let seq = 0;
  for (const end of text === "" ? [] : text.split(",")) {
    const [delta = "", above = "0"] = end.split(":");
    seq += Number.parseInt(delta, 36);
    ends.set(seq, BigInt(above));
  }
  return ends;
}

/** Returns how many of these ends, in their order, a cursor can hold: all, or half of them, or half of those, and so on. */
function countThatFits(ends: readonly (readonly [seq: number, above: bigint])[], charactersMax: number): number {
  let count = ends.length;
  while (count > 1 && writeEnds(new Map(ends.slice(0, count))).length > charactersMax) count = Math.ceil(count / 2);
  return count;
}

/** Returns where verification continues after a stretch with these standings. Null at the end of the last pass. */
export function nextPosition(
  { fromSeq, toSeq }: VerifyPosition,
  { isEnd, endSeq, balances }: Pick<LedgerStretch, "isEnd" | "endSeq" | "balances">,
  standings: readonly Standing[],
  charactersMax = ENDS_CHARACTERS_MAX,
): VerifyPosition | null {
  if (isEnd) return toSeq === null ? null : { ...VERIFY_START, afterSeq: toSeq, fromSeq: toSeq };
  const grantSeqs = new Map(balances.map(({ id, grantSeq }) => [id, grantSeq]));
  // Entries of balances that do not exist come last, because they already count as flaws.
  const grantSeqOf = ({ balanceId }: Standing) => grantSeqs.get(balanceId) ?? Number.MAX_SAFE_INTEGER;
  const open = standings.toSorted((a, b) => grantSeqOf(a) - grantSeqOf(b));
  const ends = open.map(({ seq, afterSteps, total }) => [seq, total - BigInt(afterSteps)] as const);
  const count = countThatFits(ends, charactersMax);
  const lastKept = open[count - 1];
  const isCut = count < open.length && lastKept !== undefined && grantSeqs.has(lastKept.balanceId);
  return {
    ...{ afterSeq: endSeq, fromSeq, ends: new Map(ends.slice(0, count)) },
    toSeq: isCut ? grantSeqOf(lastKept) : toSeq,
  };
}

/** Writes a position as text for a cursor. */
export const writePosition = ({ afterSeq, fromSeq, toSeq, ends }: VerifyPosition): string =>
  JSON.stringify([afterSeq, fromSeq, toSeq, writeEnds(ends)]);

export function readVerifyPosition(text: string): VerifyPosition {
  // The cursor's checksum proves that `writePosition` wrote it.
  const [afterSeq, fromSeq, toSeq, ends] = JSON.parse(text) as [number, number, number | null, string];
  return { afterSeq, fromSeq, toSeq, ends: readEnds(ends) };
}
