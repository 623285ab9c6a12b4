/** The fields of a ledger entry that verification needs. */
export interface VerifiedEntry {
  readonly seq: number;
  readonly balanceId: string;
  readonly deltaMinor: number;
  readonly afterMinor: number;
  readonly previousSeq: number | null;
  readonly isGrant: 0 | 1;
}

export interface VerifiedBalance {
  readonly id: string;
  readonly initialMinor: number;
  readonly remainingMinor: number;
  readonly grantSeq: number;
  readonly lastSeq: number;
}

/** A balance's state at a seq of the ledger: its last entry up to that seq, and the sum of its deltas. */
export interface Checkpoint {
  readonly seq: number;
  readonly balanceId: string;
  readonly afterMinor: number;
  readonly total: bigint;
}

/**
 * - `sum`: the remaining amount is not the sum of the deltas.
 * - `gap`: a seq is missing. Its `balanceId` is null.
 * - `chain`: an entry does not continue from the balance's previous entry.
 * - `below_zero`: a running sum is below 0.
 * - `owed`: the balance owes a refund more than the open holds that are older than the refund can return (C21).
 */
export interface Flaw {
  readonly balanceId: string | null;
  readonly kind: "sum" | "gap" | "chain" | "below_zero" | "limit" | "owed";
  /** Set only for the kind `limit`. */
  readonly limitId?: string;
  /** Only for `limit`. Null for the user's counter. */
  readonly memberId?: string | null;
}

/** A stretch of one user's ledger, with the balances that it concerns. */
export interface LedgerStretch {
  /** The stretch has the entries after this seq, up to `endSeq`. */
  readonly afterSeq: number;
  readonly endSeq: number;
  /** The last seq of the whole ledger. */
  readonly lastSeq: number;
  /** Whether the stretch is the last one. */
  readonly isEnd: boolean;
  /** The stretch checks the balances granted after this seq, up to `toSeq`. From 0, it also checks rows without a balance. */
  readonly fromSeq: number;
  readonly toSeq: number;
  /** In order of seq. */
  readonly entries: readonly VerifiedEntry[];
  /** The balances of `entries` and `checkpoints`, and the balances that were granted in the stretch. */
  readonly balances: readonly VerifiedBalance[];
  /** The states of its balances before it, except balances that were already complete and correct. */
  readonly checkpoints: readonly Checkpoint[];
}

/** Returns whether a stretch checks a balance. */
function isChecked({ fromSeq, toSeq }: LedgerStretch, balance: VerifiedBalance | undefined): boolean {
  return balance === undefined ? fromSeq === 0 : balance.grantSeq > fromSeq && balance.grantSeq <= toSeq;
}

/** Recomputes a stretch of the ledger. Returns its errors, and the states that the next stretch needs. */
export function verifyEntries(stretch: LedgerStretch): {
  readonly flaws: readonly Flaw[];
  readonly checkpoints: readonly Checkpoint[];
} {
  const flaws = new Flaws();
  const { isEnd } = stretch;
  const hasAll = stretch.fromSeq === 0;
  const balances = new Map(stretch.balances.map((balance) => [balance.id, balance]));
  const checkpoints = new Map(stretch.checkpoints.map((checkpoint) => [checkpoint.balanceId, checkpoint]));
  const touched = new Set<string>();
  let previousSeq = stretch.afterSeq;
  for (const entry of stretch.entries) {
    const { balanceId } = entry;
    const balance = balances.get(balanceId);
    if (hasAll && entry.seq !== previousSeq + 1) flaws.add(null, "gap");
    previousSeq = entry.seq;
    if (!isChecked(stretch, balance)) continue;
    const before = checkpoints.get(balanceId) ?? checkpointAtEnd(balance, stretch.afterSeq);
    if (!continuesFrom(entry, before, balance)) flaws.add(balanceId, "chain");
    const total = (before?.total ?? 0n) + BigInt(entry.deltaMinor);
    if (total < 0n) flaws.add(balanceId, "below_zero");
    checkpoints.set(balanceId, { seq: entry.seq, balanceId, afterMinor: entry.afterMinor, total });
    touched.add(balanceId);
  }
  if (hasAll && !isEnd && previousSeq < stretch.endSeq) flaws.add(null, "gap");

  const next: Checkpoint[] = [];
  for (const checkpoint of checkpoints.values()) {
    const balance = balances.get(checkpoint.balanceId);
    if (balance === undefined) {
      // The balance of these entries does not exist.
      if (touched.has(checkpoint.balanceId)) flaws.add(checkpoint.balanceId, "sum");
    } else if (
      touched.has(balance.id) ? isEnd || checkpoint.seq >= balance.lastSeq : isEnd && checkpoint.seq < balance.lastSeq
    ) {
      checkEnd(flaws, balance, checkpoint, stretch.lastSeq);
    }
    if (balance === undefined || !isSoundAtEnd(balance, checkpoint)) next.push(checkpoint);
  }
  for (const balance of stretch.balances) {
    const isOfStretch = balance.grantSeq > stretch.afterSeq && balance.grantSeq <= stretch.endSeq;
    if (isOfStretch && isChecked(stretch, balance) && !checkpoints.has(balance.id))
      checkEnd(flaws, balance, null, stretch.lastSeq);
  }
  return { flaws: flaws.list, checkpoints: isEnd ? [] : next };
}

function isSoundAtEnd(balance: VerifiedBalance, { seq, afterMinor, total }: Checkpoint): boolean {
  const { lastSeq, remainingMinor } = balance;
  return seq === lastSeq && afterMinor === remainingMinor && total === BigInt(remainingMinor);
}

/** Returns the state of a balance whose entries ended before the stretch. No state was kept, because the balance was correct. */
function checkpointAtEnd(balance: VerifiedBalance | undefined, afterSeq: number): Checkpoint | undefined {
  if (balance === undefined || balance.lastSeq > afterSeq) return undefined;
  const { id, lastSeq, remainingMinor } = balance;
  return { seq: lastSeq, balanceId: id, afterMinor: remainingMinor, total: BigInt(remainingMinor) };
}

function continuesFrom(
  entry: VerifiedEntry,
  before: Checkpoint | undefined,
  balance: VerifiedBalance | undefined,
): boolean {
  const { seq, previousSeq, deltaMinor, afterMinor, isGrant } = entry;
  if (before !== undefined) {
    return isGrant === 0 && previousSeq === before.seq && afterMinor === before.afterMinor + deltaMinor;
  }
  if (isGrant === 0 || previousSeq !== null || afterMinor !== deltaMinor) return false;
  return balance === undefined || (seq === balance.grantSeq && deltaMinor === balance.initialMinor);
}

/**
 * Returns the seqs of entries that must be read again. The stretch continues them, but no state was kept, because their balances were
 * complete and correct before they changed again.
 */
export function missingEnds(stretch: LedgerStretch): readonly number[] {
  const balances = new Map(stretch.balances.map((balance) => [balance.id, balance]));
  const known = new Set(stretch.checkpoints.map(({ balanceId }) => balanceId));
  return stretch.entries.flatMap(({ balanceId, previousSeq }) => {
    const balance = balances.get(balanceId);
    const isKnown = known.has(balanceId) || !isChecked(stretch, balance) || (balance?.lastSeq ?? 0) <= stretch.afterSeq;
    known.add(balanceId);
    return isKnown || previousSeq === null || previousSeq > stretch.afterSeq ? [] : [previousSeq];
  });
}

/** Checks a balance against its state after its last entry. `checkpoint` is null if the balance has no entry. */
function checkEnd(flaws: Flaws, balance: VerifiedBalance, checkpoint: Checkpoint | null, ledgerLastSeq: number): void {
  const isSum = BigInt(balance.remainingMinor) === (checkpoint?.total ?? 0n);
  if (!isSum) flaws.add(balance.id, "sum");
  // The last entries of the ledger are missing.
  if (balance.lastSeq > ledgerLastSeq) flaws.add(null, "gap");
  else if (isSum && checkpoint?.seq !== balance.lastSeq) flaws.add(balance.id, "chain");
}

/** A list of errors without duplicates. */
class Flaws {
  readonly #flaws = new Map<string, Flaw>();

  add(balanceId: string | null, kind: Flaw["kind"]): void {
    this.#flaws.set(`${kind} ${balanceId ?? ""}`, { balanceId, kind });
  }

  get list(): readonly Flaw[] {
    return [...this.#flaws.values()];
  }
}
