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

/** Minor by column. A sum over all users may exceed the exact range of a double. */
export type LineAmounts = Record<Column, bigint>;

export interface Line {
  readonly unit: Unit;
  readonly packId: string;
  readonly amounts: LineAmounts;
}

export const noAmounts = (): LineAmounts => Object.fromEntries(COLUMNS.map((column) => [column, 0n])) as LineAmounts;

/** The stored form of amounts. */
export const storedAmounts = (amounts: LineAmounts) =>
  Object.fromEntries(COLUMNS.map((column) => [column, `${amounts[column]}`]));
export const readAmounts = (stored: Readonly<Record<string, string>>): LineAmounts =>
  Object.fromEntries(COLUMNS.map((column) => [column, BigInt(stored[column] ?? 0)])) as LineAmounts;

/** Balances that are summed together. */
interface BalanceGroup {
  readonly packId: string;
  readonly unit: Unit;
  readonly source: "purchase" | "grant" | "refund" | "manual";
  /** Whether they had expired at the moment at which the month began, and at which it ended (C11). */
  readonly wasExpired: boolean;
  readonly isExpired: boolean;
}

/** The current amounts of a group's balances: the remaining amount, and the amount in open reservations. */
export interface CurrentAmounts extends BalanceGroup {
  readonly remaining: bigint;
  readonly held: bigint;
}

/** The sum of the entries of one cause, in the month or after it. */
export interface MonthChange extends BalanceGroup {
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
 * Returns the lines of some balances for a month, computed backwards from their current amounts: changes after the month are
 * subtracted. `opening` and `closing` count balances that had not expired at that moment, including their held amounts. Pure.
 */
export function computeMonthLines(
  current: readonly CurrentAmounts[],
  changes: readonly MonthChange[],
): readonly Line[] {
  const lines = new Map<string, Line>();
  const amountsOf = ({ unit, packId }: BalanceGroup): LineAmounts => {
    const key = `${unit} ${packId}`;
    const line = lines.get(key) ?? { unit, packId, amounts: noAmounts() };
    lines.set(key, line);
    return line.amounts;
  };
  const addAtStart = (group: BalanceGroup, minor: bigint) => {
    if (group.wasExpired) amountsOf(group).expired -= minor;
    else amountsOf(group).opening += minor;
  };
  const addAtEnd = (group: BalanceGroup, minor: bigint) => {
    amountsOf(group)[group.isExpired ? "expired" : "closing"] += minor;
  };
  const addHeldAtEnd = (group: BalanceGroup, minor: bigint) => {
    if (!group.isExpired) amountsOf(group).held += minor;
  };
  for (const group of current) {
    addAtStart(group, group.remaining + group.held);
    addAtEnd(group, group.remaining + group.held);
    addHeldAtEnd(group, group.held);
  }
  for (const change of changes) {
    const { cause, isAfter, delta, source } = change;
    if (isOfHold(cause)) {
      if (isAfter) addHeldAtEnd(change, delta);
      continue;
    }
    addAtStart(change, -delta);
    if (isAfter) {
      addAtEnd(change, -delta);
      continue;
    }
    const [column, sign] = COLUMN_OF_CAUSE[cause] ?? ([`granted.${source}`, 1n] as const);
    amountsOf(change)[column] += sign * delta;
  }
  return [...lines.values()].filter(({ amounts }) => COLUMNS.some((column) => amounts[column] !== 0n));
}

/** Returns the sums of two lines' amounts. */
export function addAmounts(a: LineAmounts, b: LineAmounts): LineAmounts {
  const sum = noAmounts();
  for (const column of COLUMNS) sum[column] = a[column] + b[column];
  return sum;
}

/** Whether a line balances exactly: opening plus additions equals subtractions plus closing. */
export function isBalanced(amounts: LineAmounts): boolean {
  const granted = COLUMNS.filter((column) => column.startsWith("granted.")).reduce(
    (sum, column) => sum + amounts[column],
    0n,
  );
  const { opening, spent, refunded, taken, restored, revoked, adjusted, erased, expired, closing } = amounts;
  return opening + granted - spent - refunded - taken + restored - revoked + adjusted - erased - expired === closing;
}
