import { batch } from "../../db/sql.ts";
import { invalid, PurserError } from "../../errors.ts";
import type { TenantCtx } from "../../runtime.ts";
import type { Unit } from "../amounts/amount.ts";
import { type MatchRule, readStoredRules, rulesPassFilter } from "../amounts/match.ts";
import { type BalanceRow, type BalanceStatus, inSpendingOrder, presentBalance } from "../ledger/balance.ts";
import { readDuePeriods, selectDuePeriods } from "../ledger/due-periods.ts";
import { balancesOfPeriods } from "../ledger/plan-periods.ts";
import {
  LISTED_MAX,
  selectActive,
  selectActiveUpTo,
  selectAllBalances,
  selectAsOf,
  selectBalancesUpTo,
  selectUnderReference,
  selectUnderReferenceAsOf,
} from "../ledger/spendable-balances.ts";

export interface ListOutput {
  readonly credits: {
    readonly balanceId: string;
    readonly packId: string;
    readonly packName: string;
    readonly packItemId: string | null;
    readonly kind: "generic" | "per_type";
    readonly unit: Unit;
    readonly remaining: number;
    readonly initial: number;
    readonly grantedAt: string;
    readonly expiresAt: string | null;
    readonly status: BalanceStatus;
    readonly matches: MatchRule[];
    readonly priority: number;
  }[];
}

export interface ListInput {
  readonly userId: string;
  readonly includeExpired: boolean;
  readonly event?: string | undefined;
  readonly externalRef?: string | undefined;
  readonly asOf?: number | undefined;
}

/**
 * Returns the user's balances in spending order (C13). By default, lists active balances (C11); `includeExpired` lists all;
 * `externalRef` all under the reference; `asOf` all that were issued by then, as they were (C23); `event` only those whose rules
 * match (C4). An unknown user has none. Throws `invalid_request` for a moment in the future, and for too many balances (L6).
 */
export async function listBalances(ctx: TenantCtx, input: ListInput): Promise<ListOutput> {
  const { event } = input;
  // The query and the statuses use the same time, so that they agree.
  const nowMs = ctx.now();
  const atMs = input.asOf ?? nowMs;
  if (atMs > nowMs) throw invalid("asOf", "must not be in the future");
  const [stored, due = []] = await batch(ctx.db, [
    selectListed(ctx, input, atMs),
    ...(showsDue(input) ? [selectDuePeriods(ctx, input, { nowMs })] : []),
  ] as const);
  // The balances of due periods are listed as they will be written (R3).
  const periods = readDuePeriods(ctx, due, nowMs);
  const rows = [
    ...stored,
    ...balancesOfPeriods(periods).filter((row) => input.includeExpired || row.expiresAtMs > nowMs),
  ];
  if (rows.length > LISTED_MAX) throw tooManyListed();
  const covering = rows.filter((row) => event === undefined || rulesPassFilter(readStoredRules(row.matches), event));
  return { credits: inSpendingOrder(covering).map((row) => presentBalance(row, atMs)) };
}

/**
 * Returns whether a list shows due periods that are not granted yet. Lists by reference and lists as of a moment do not.
 */
const showsDue = ({ externalRef, asOf }: ListInput): boolean => externalRef === undefined && asOf === undefined;

function tooManyListed(): PurserError {
  const message =
    "The user has more balances than a list may have. Leave out `includeExpired` and `asOf`, or export the person.";
  return new PurserError("invalid_request", message, { details: { limit: LISTED_MAX } });
}

function selectListed(ctx: TenantCtx, { userId, externalRef, asOf: asOfMs, includeExpired }: ListInput, nowMs: number) {
  const user = { userId };
  if (asOfMs !== undefined) {
    if (externalRef === undefined) return selectAsOf(ctx, user, { asOfMs });
    return selectUnderReferenceAsOf(ctx, user, { asOfMs, externalRef });
  }
  if (externalRef !== undefined) return selectUnderReference(ctx, user, { externalRef });
  return includeExpired ? selectAllBalances(ctx, user, {}) : selectActive(ctx, user, { nowMs });
}

export interface BalanceList {
  /** In spending order; balances that can pay come before others. With their source and notes. */
  readonly balances: readonly (ReturnType<typeof presentBalance> & Pick<BalanceRow, "source" | "notes">)[];
  /** Whether the user has more balances than the list has. */
  readonly isTruncated: boolean;
}

/** Returns a user's balances for the dashboard: at most `limit` that can pay and `limit` others, so that the cost is bounded. */
export async function listAllBalances(ctx: TenantCtx, userId: string, limit: number): Promise<BalanceList> {
  const nowMs = ctx.now();
  const [active, ofAnyStatus, due] = await batch(ctx.db, [
    selectActiveUpTo(ctx, { userId }, { nowMs, limit: limit + 1 }),
    selectBalancesUpTo(ctx, { userId }, { limit: limit + 1 }),
    selectDuePeriods(ctx, { userId }, { nowMs }),
  ] as const);
  const spendable = [...active, ...balancesOfPeriods(readDuePeriods(ctx, due, nowMs))];
  const inOrder = (rows: readonly BalanceRow[]) =>
    inSpendingOrder(rows).map((row) => ({ ...presentBalance(row, nowMs), source: row.source, notes: row.notes }));
  const spendableIds = new Set(spendable.map((row) => row.id));
  const others = ofAnyStatus.filter((row) => !spendableIds.has(row.id));
  return {
    balances: [...inOrder(spendable.slice(0, limit)), ...inOrder(others).slice(0, limit)],
    isTruncated: spendable.length > limit || ofAnyStatus.length > limit,
  };
}
