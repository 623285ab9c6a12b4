import type { Unit } from "../amounts/amount.ts";

/** The columns of a line, in the order of the CSV. */
export const COLUMNS = [
  "opening",
  ...(["purchase", "grant", "refund", "manual", "payment", "recurring"] as const).map(
    (name) => `granted.${name}` as const,
  ),
  ...([
    "spent",
    "refunded",
    "taken",
    "restored",
    "revoked",
    "adjusted",
    "erased",
    "expired",
    "closing",
    "held",
  ] as const),
] as const;
export type Column = (typeof COLUMNS)[number];

/** Steps by column. A sum over all users may exceed the exact range of a double. */
export type LineAmounts = Record<Column, bigint>;

export interface Line {
  readonly unit: Unit;
  readonly packId: string;
  readonly amounts: LineAmounts;
}

export const noAmounts = (): LineAmounts => Object.fromEntries(COLUMNS.map((column) => [column, 0n])) as LineAmounts;

/** The fields of a balance that never change. */
interface OfBalance {
  readonly balanceId: string;
  readonly packId: string;
  readonly unit: Unit;
  readonly source: "purchase" | "grant" | "refund" | "manual";
  readonly expiresAtMs: number;
}

/** A balance's current amount: the remaining amount plus open holds. */
export interface Present extends OfBalance {
  readonly remaining: bigint;
  readonly held: bigint;
}

/** The sum of a balance's entries of one cause, in the month or after it. */
export interface MonthMotion extends OfBalance {
  readonly cause: string;
  readonly isAfter: boolean;
  readonly delta: bigint;
}

/** The column that a cause adds to, and the sign that readers expect there. Holds and their returns have no column (C16). */
const COLUMN_OF_CAUSE: Readonly<Record<string, readonly [Column, 1n | -1n]>> = {
  payment: ["granted.payment", 1n],
  recurring: ["granted.recurring", 1n],
  usage: ["spent", -1n],
  refund: ["refunded", -1n],
  payment_taken: ["taken", -1n],
  payment_restored: ["restored", 1n],
  revoke: ["revoked", -1n],
  adjustment: ["adjusted", 1n],
  erasure: ["erased", -1n],
};

const isOfHold = (cause: string): boolean => cause === "hold" || cause === "hold_returned";

/**
 * The lines of some balances for the month from `fromMs` to `toMs`, computed backwards: the motions after the month are subtracted
 * from the current amounts. `opening` and `closing` count balances that had not expired at that time (C11), including held amounts.
 * Pure.
 */
export function monthLinesOf(
  presents: readonly Present[],
  motions: readonly MonthMotion[],
  { fromMs, toMs }: { readonly fromMs: number; readonly toMs: number },
): readonly Line[] {
  const lines = new Map<string, Line>();
  const amountsOf = ({ unit, packId }: OfBalance): LineAmounts => {
    const key = `${unit} ${packId}`;
    const line = lines.get(key) ?? { unit, packId, amounts: noAmounts() };
    lines.set(key, line);
    return line.amounts;
  };
  const balances = new Map<string, { of: OfBalance; total: bigint; held: bigint; moved: bigint }>();
  const stateOf = (of: OfBalance) => {
    const state = balances.get(of.balanceId) ?? { of, total: 0n, held: 0n, moved: 0n };
    balances.set(of.balanceId, state);
    return state;
  };
  for (const present of presents) {
    const state = stateOf(present);
    state.total += present.remaining + present.held;
    state.held += present.held;
  }
  for (const motion of motions) {
    const { cause, isAfter, delta, source } = motion;
    const state = stateOf(motion);
    if (isOfHold(cause)) {
      if (isAfter) state.held += delta;
    } else if (isAfter) {
      state.total -= delta;
    } else {
      state.moved += delta;
      const [column, sign] = COLUMN_OF_CAUSE[cause] ?? ([`granted.${source}`, 1n] as const);
      amountsOf(motion)[column] += sign * delta;
    }
  }
  for (const { of, total, held, moved } of balances.values()) {
    const amounts = amountsOf(of);
    const before = total - moved;
    if (of.expiresAtMs <= fromMs) amounts.expired -= before;
    else amounts.opening += before;
    if (of.expiresAtMs <= toMs) amounts.expired += total;
    else {
      amounts.closing += total;
      amounts.held += held;
    }
  }
  return [...lines.values()].filter(({ amounts }) => COLUMNS.some((column) => amounts[column] !== 0n));
}

/** The sum of two lines' amounts. */
export function plus(a: LineAmounts, b: LineAmounts): LineAmounts {
  const sum = noAmounts();
  for (const column of COLUMNS) sum[column] = a[column] + b[column];
  return sum;
}

/** Whether a line balances exactly: opening plus additions equals subtractions plus closing. */
export function closes(amounts: LineAmounts): boolean {
  const granted = COLUMNS.filter((column) => column.startsWith("granted.")).reduce(
    (sum, one) => sum + amounts[one],
    0n,
  );
  const { opening, spent, refunded, taken, restored, revoked, adjusted, erased, expired, closing } = amounts;
  return opening + granted - spent - refunded - taken + restored - revoked + adjusted - erased - expired === closing;
}
