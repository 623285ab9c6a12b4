import type { ListName } from "./lists.ts";
import type { Bound } from "./reading.ts";

/** D1 allows 1,000 queries for one request. The rest are for retries. */
export const queriesMax = 900;
/** The queries of the snapshot, the audit and the ends of lists. */
const QUERIES_FIXED = 50;
/** A page of more rows would not fit into an isolate's memory. */
const PAGE_ROWS_LIMIT = 20_000;
/** The most bytes of ids in a query, of heavy rows in a query's result, and the most ids of a page of balances (entries.ts). */
const SPANS_BYTES = 500_000;
const HEAVY_PAGE_BYTES = 2_000_000;
const BALANCE_IDS = 500;

/** A balance counts like four rows of a list, because it is larger. */
export const balanceShare = 4;

/** The weight of a list's rows: 2 where rows may be heavy, because a heavy row takes another query. */
const WEIGHTS: Readonly<Record<ListName, number>> = { analytics: 2, metering: 2, ledger: 2, consent: 1, exports: 1 };

const sum = (numbers: readonly number[]): number => numbers.reduce((total, number) => total + number, 0);
const rowsOf = (bounds: readonly Bound[]): number => sum(bounds.map(({ last }) => last));

/**
 * The fewest rows of a page with which all lists together take at most `queriesMax` queries. Null when such a page would not
 * fit into memory. Then the export is refused before its first byte.
 */
export function pageRowsMin(
  bounds: Readonly<Record<ListName, readonly Bound[]>>,
  analyticsBytes: number,
): number | null {
  const lists = Object.entries(bounds) as [ListName, readonly Bound[]][];
  const rows = sum(lists.map(([name, list]) => WEIGHTS[name] * rowsOf(list)));
  // Every balance has an entry in the ledger, so there are at most as many balances as entries.
  const balances = balanceShare * rowsOf(bounds.ledger);
  const spans = sum(lists.map(([, list]) => sum(list.map(({ id }) => id.length * 3)) / SPANS_BYTES));
  const fixed = QUERIES_FIXED + spans + bounds.ledger.length / BALANCE_IDS + analyticsBytes / HEAVY_PAGE_BYTES;
  const left = queriesMax - Math.ceil(fixed);
  if (left <= 0) return null;
  const needed = Math.ceil((rows + balances) / left);
  return needed > PAGE_ROWS_LIMIT ? null : needed;
}
