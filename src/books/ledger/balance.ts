import type { creditBalances } from "../../db/schema.ts";
import { iso } from "../../lib/time.ts";
import { fromMinor } from "../amounts/amount.ts";
import { hasRules, readStoredRules } from "../amounts/match.ts";
import { type Ordered, type Spendable, spendingOrder } from "./burn-down.ts";

/** `expiresAtMs` of a balance that never expires. It sorts after every date, so that active balances are one index range. */
export const NEVER_MS = Number.MAX_SAFE_INTEGER;

type Balance = typeof creditBalances.$inferSelect;

/** The fields of a response whose values never change. */
export const FIXED_FIELDS = [
  "id",
  "packId",
  "packName",
  "packItemId",
  "unit",
  "matches",
  "priority",
  "initialMinor",
  "grantedAtMs",
  "expiresAtMs",
] as const;

/** The fields that burn-down and a balance's status need. */
export const PAYING_FIELDS = [
  "id",
  "packId",
  "packName",
  "unit",
  "matches",
  "priority",
  "remainingMinor",
  "grantedAtMs",
  "expiresAtMs",
  "revokedAtMs",
] as const;
export type PayingRow = Pick<Balance, (typeof PAYING_FIELDS)[number]>;

/** The fields of a response. */
export const PRESENTED_FIELDS = [...FIXED_FIELDS, "remainingMinor", "revokedAtMs"] as const;
export type PresentedRow = Pick<Balance, (typeof PRESENTED_FIELDS)[number]>;

/** The fields of the dashboard and of an export. */
export const BALANCE_FIELDS = [...PRESENTED_FIELDS, "source", "externalRef", "notes", "grantSeq"] as const;
export type BalanceRow = Pick<Balance, (typeof BALANCE_FIELDS)[number]>;

/** The fields that an adjustment needs. */
export const ADJUSTMENT_FIELDS = ["id", "unit", "remainingMinor", "revokedAtMs"] as const;

export type BalanceStatus = "active" | "expired" | "depleted" | "revoked";

/** A stored balance in the form that burn-down takes. */
export interface SpendableBalance extends Spendable {
  readonly packId: string;
  readonly packName: string;
}

function asSpendable(row: PayingRow): SpendableBalance {
  return {
    id: row.id,
    packId: row.packId,
    packName: row.packName,
    unit: row.unit,
    rules: readStoredRules(row.matches),
    priority: row.priority,
    remainingMinor: row.remainingMinor,
    grantedAtMs: row.grantedAtMs,
    expiresAtMs: row.expiresAtMs,
  };
}

/** Returns rows in spending order, which is also the order of lists (C13). */
export function inSpendingOrder<Row extends PayingRow>(rows: readonly Row[]): Row[] {
  // The order only needs to know whether there are rules, so the rules are not parsed.
  return rows
    .map((row) => ({ ...orderOf(row), row }))
    .sort(spendingOrder)
    .map(({ row }) => row);
}

const orderOf = ({ id, priority, grantedAtMs, expiresAtMs, matches }: PayingRow): Ordered => ({
  ...{ id, priority, grantedAtMs, expiresAtMs, rules: { length: Number(hasRules(matches)) } },
});

/** Returns a balance's status at a time, to the millisecond (C11). */
export function computeStatus(
  row: Pick<BalanceRow, "revokedAtMs" | "expiresAtMs" | "remainingMinor">,
  nowMs: number,
): BalanceStatus {
  if (row.revokedAtMs !== null) return "revoked";
  if (row.expiresAtMs <= nowMs) return "expired";
  return row.remainingMinor === 0 ? "depleted" : "active";
}

/** Returns the balances that can pay at a time, in spending order (C13). */
export function spendableBalances(rows: readonly PayingRow[], atMs: number): SpendableBalance[] {
  return payersAmong(rows.filter((row) => row.expiresAtMs > atMs));
}

/** Returns the balances that can pay, expired ones too, in spending order. */
export const payersAmong = (rows: readonly PayingRow[]): SpendableBalance[] =>
  rows
    .filter((row) => row.revokedAtMs === null && row.remainingMinor > 0)
    .map(asSpendable)
    .sort(spendingOrder);

/** The public form of `expires_at_ms`: null for never. */
export function presentExpiry(expiresAtMs: number): string | null {
  return expiresAtMs === NEVER_MS ? null : iso(expiresAtMs);
}

/** A balance as the API returns it. */
export function presentBalance(row: PresentedRow, nowMs: number) {
  const matches = readStoredRules(row.matches);
  return {
    balanceId: row.id,
    packId: row.packId,
    packName: row.packName,
    packItemId: row.packItemId === "" ? null : row.packItemId,
    kind: matches.length === 0 ? ("generic" as const) : ("per_type" as const),
    unit: row.unit,
    remaining: fromMinor(row.unit, row.remainingMinor),
    initial: fromMinor(row.unit, row.initialMinor),
    grantedAt: iso(row.grantedAtMs),
    expiresAt: presentExpiry(row.expiresAtMs),
    status: computeStatus(row, nowMs),
    matches: [...matches],
    priority: row.priority,
  };
}
