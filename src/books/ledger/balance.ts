import type { RowOf } from "../../db/sql.ts";
import { creditBalances, NEVER_MS } from "../../db/tables.ts";
import { iso } from "../../lib/time.ts";
import { fromSteps } from "../amounts/amount.ts";
import { readRules } from "../amounts/match.ts";
import { type Spendable, spendingOrder } from "./burn-down.ts";

/** The columns that burn-down and a balance's status need. */
export const payingColumns = {
  id: creditBalances.id,
  packId: creditBalances.packId,
  unit: creditBalances.unit,
  matches: creditBalances.matches,
  priority: creditBalances.priority,
  remainingSteps: creditBalances.remainingSteps,
  grantedAtMs: creditBalances.grantedAtMs,
  expiresAtMs: creditBalances.expiresAtMs,
  revokedAtMs: creditBalances.revokedAtMs,
};
export type PayingRow = RowOf<typeof payingColumns>;

/** The columns of a response. */
export const presentedColumns = {
  ...payingColumns,
  packName: creditBalances.packName,
  packItemId: creditBalances.packItemId,
  initialSteps: creditBalances.initialSteps,
};
export type PresentedRow = RowOf<typeof presentedColumns>;

/** The columns of the dashboard and of an export. */
export const balanceColumns = {
  ...presentedColumns,
  source: creditBalances.source,
  externalRef: creditBalances.externalRef,
  notes: creditBalances.notes,
  grantSeq: creditBalances.grantSeq,
};
export type BalanceRow = RowOf<typeof balanceColumns>;

/** The columns that an adjustment needs. */
export const adjustmentColumns = {
  id: creditBalances.id,
  unit: creditBalances.unit,
  remainingSteps: creditBalances.remainingSteps,
  revokedAtMs: creditBalances.revokedAtMs,
};

export type BalanceStatus = "active" | "expired" | "depleted" | "revoked";

/** A stored balance in the form that burn-down takes. */
export interface SpendableBalance extends Spendable {
  readonly packId: string;
}

export function asSpendable(row: PayingRow): SpendableBalance {
  return {
    id: row.id,
    packId: row.packId,
    unit: row.unit,
    rules: readRules(row.matches),
    priority: row.priority,
    remainingSteps: row.remainingSteps,
    grantedAtMs: row.grantedAtMs,
    expiresAtMs: row.expiresAtMs,
  };
}

/** Rows in spending order, which is also the order of lists (C13). */
export function inSpendingOrder<Row extends PayingRow>(rows: readonly Row[]): Row[] {
  return rows
    .map((row) => ({ row, order: asSpendable(row) }))
    .sort((a, b) => spendingOrder(a.order, b.order))
    .map(({ row }) => row);
}

/** The status at a time, to the millisecond (C11). */
export function statusOf(
  row: Pick<BalanceRow, "revokedAtMs" | "expiresAtMs" | "remainingSteps">,
  nowMs: number,
): BalanceStatus {
  if (row.revokedAtMs !== null) return "revoked";
  if (row.expiresAtMs <= nowMs) return "expired";
  return row.remainingSteps === 0 ? "depleted" : "active";
}

/** `expires_at_ms` on the wire: null for never. */
export function presentExpiry(expiresAtMs: number): string | null {
  return expiresAtMs === NEVER_MS ? null : iso(expiresAtMs);
}

/** A balance as the API returns it. */
export function presentBalance(row: PresentedRow, nowMs: number) {
  const matches = readRules(row.matches);
  return {
    balanceId: row.id,
    packId: row.packId,
    packName: row.packName,
    packItemId: row.packItemId === "" ? null : row.packItemId,
    kind: matches.length === 0 ? ("generic" as const) : ("per_type" as const),
    unit: row.unit,
    remaining: fromSteps(row.unit, row.remainingSteps),
    initial: fromSteps(row.unit, row.initialSteps),
    grantedAt: iso(row.grantedAtMs),
    expiresAt: presentExpiry(row.expiresAtMs),
    status: statusOf(row, nowMs),
    matches: [...matches],
    priority: row.priority,
  };
}
