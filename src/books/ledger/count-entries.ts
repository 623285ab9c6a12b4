import { and, eq, sql } from "drizzle-orm";
import { type ActivityKind, countActivity, countOfPack } from "../../db/count-activity.ts";
import { computed, drizzle, scalar } from "../../db/query.ts";
import { creditBalances, creditLedger, ENTRY_KINDS } from "../../db/schema.ts";
import type { Environment } from "../../runtime.ts";
import type { Unit } from "../amounts/amount.ts";
import type { SpendableBalance } from "./balance.ts";
import type { Payment } from "./burn-down.ts";

// Counts entries for the overview. Grants are counted by new-balances.ts.

/** The fields of an adjustment, a revoke, or an amount that was taken or given back. */
export interface CountedEntry {
  readonly kind: number;
  readonly unit: Unit;
  readonly deltaMinor: number;
  readonly expiresAtMs: number;
}

/** SQL: a new entry as a `CountedEntry`. Null for usage and holds, for which no balance is read. */
export const countedEntry = () => {
  const { accountId, grantSeq, kind, deltaMinor } = creditLedger;
  const { unit, expiresAtMs } = creditBalances;
  const entry = drizzle
    .select(
      computed({
        entry: sql<string>`json_object('kind', ${kind}, 'unit', ${unit}, 'deltaMinor', ${deltaMinor}, 'expiresAtMs', ${expiresAtMs})`,
      }),
    )
    .from(creditBalances)
    .where(and(eq(creditBalances.accountId, accountId), eq(creditBalances.grantSeq, grantSeq)));
  return sql`iif(${kind} >= ${ENTRY_KINDS.adjustment}, ${scalar(entry)}, NULL)`.mapWith(
    (stored: string): CountedEntry | null => JSON.parse(stored) as CountedEntry,
  );
};

/** The figure of each kind, and the sign of its amounts there. */
const FIGURE_OF_KIND: Readonly<Record<number, readonly [ActivityKind, 1 | -1]>> = {
  [ENTRY_KINDS.adjustment]: ["adjusted", 1],
  [ENTRY_KINDS.revoke]: ["revoked", -1],
  [ENTRY_KINDS.refund]: ["refunded", -1],
  [ENTRY_KINDS.payment_taken]: ["refunded", -1],
  [ENTRY_KINDS.payment_restored]: ["restored", 1],
  [ENTRY_KINDS.erasure]: ["erased", -1],
};

type CountedIn = Pick<Environment, "id" | "database">;

/** Counts the entries that a batch wrote. It skips those that are not a `CountedEntry`. */
export function countEntries(
  environment: CountedIn,
  nowMs: number,
  entries: readonly { readonly counted?: CountedEntry | null }[],
): void {
  for (const { counted } of entries) {
    const figure = FIGURE_OF_KIND[counted?.kind ?? ENTRY_KINDS.usage];
    if (!counted || figure === undefined || counted.deltaMinor === 0) continue;
    const [kind, sign] = figure;
    countActivity(environment, kind, nowMs, counted.unit, sign * counted.deltaMinor);
    countExpired(environment, nowMs, counted, counted.deltaMinor);
  }
}

/** Counts what balances paid of an event. */
export function countSpent(environment: CountedIn, nowMs: number, { legs }: Payment<SpendableBalance>): void {
  for (const { balance, amountMinor } of legs) {
    countOfPack(environment, "spent", nowMs, balance, amountMinor);
    countExpired(environment, nowMs, balance, -amountMinor);
  }
}

/**
 * Counts the change of a balance that has expired. Expired amounts are read from balances as they are now, by the day of their expiry.
 * So the change is moved from that day to today.
 */
function countExpired(
  environment: CountedIn,
  nowMs: number,
  { unit, expiresAtMs }: { readonly unit: Unit; readonly expiresAtMs: number },
  deltaMinor: number,
): void {
  if (expiresAtMs > nowMs) return;
  countActivity(environment, "expired", nowMs, unit, deltaMinor);
  countActivity(environment, "expired", expiresAtMs, unit, -deltaMinor);
}
