import { asSpendable, type PayingRow, type SpendableBalance } from "./balance.ts";
import { spendingOrder } from "./burn-down.ts";
import type { Hold } from "./hold.ts";

/** Returns the balances that can pay at a time, in spending order (C13). */
export function spendableBalances(rows: readonly PayingRow[], atMs: number): SpendableBalance[] {
  return payersAmong(rows.filter((row) => row.expiresAtMs > atMs));
}

const payersAmong = (rows: readonly PayingRow[]): SpendableBalance[] =>
  rows
    .filter((row) => row.revokedAtMs === null && row.remainingMinor > 0)
    .map(asSpendable)
    .sort(spendingOrder);

/**
 * Returns the balances that can pay for the commit or charge of a hold that `rows` already contain as returned: its own balances
 * first, then the others, each group in spending order (U6). A held balance that has expired pays with its held amount alone.
 */
export function payersOfHold(rows: readonly PayingRow[], { legs }: Hold, atMs: number): SpendableBalance[] {
  const heldMinor = new Map(legs.map(({ balanceId, amountMinor }) => [balanceId, amountMinor]));
  const held = rows.flatMap((row): PayingRow[] => {
    const amountMinor = heldMinor.get(row.id);
    if (amountMinor === undefined) return [];
    return [row.expiresAtMs > atMs ? row : { ...row, remainingMinor: amountMinor }];
  });
  const others = rows.filter(({ id }) => !heldMinor.has(id));
  return [...payersAmong(held), ...spendableBalances(others, atMs)];
}
