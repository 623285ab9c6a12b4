import type { ListName } from "./lists.ts";
import type { Bound } from "./reading.ts";

/** D1 answers 1,000 queries to one request. The rest are for trips that are made again. */
export const queriesMax = 900;
/** What the snapshot, the audit and the ends of lists take. */
const QUERIES_FIXED = 50;
/** More rows than this a page would not fit into an isolate's memory. */
const PAGE_ROWS_LIMIT = 20_000;
/** How many ids' names a page's query carries, and what a query brings where rows are heavy (entries.ts). */
const SPANS_BYTES = 500_000;
const HEAVY_PAGE_BYTES = 2_000_000;
const BALANCE_IDS = 500;

/** A page of balances has a quarter of a list's rows: they are larger. */
export const balanceShare = 4;

/** How many queries a row of the list costs beside those of its page: where rows are heavy, as many again. */
const WEIGHTS: Readonly<Record<ListName, number>> = { analytics: 2, metering: 2, ledger: 2, consent: 1, exports: 1 };

const sum = (numbers: readonly number[]): number => numbers.reduce((total, number) => total + number, 0);
const rowsOf = (bounds: readonly Bound[]): number => sum(bounds.map(({ last }) => last));

/**
 * How many rows a page must have at the least, so that all lists together take `queriesMax` queries. Null where no page
 * that fits into memory would do: then the export is refused before its first byte.
 */
export function pageRowsMin(
  bounds: Readonly<Record<ListName, readonly Bound[]>>,
  analyticsBytes: number,
): number | null {
  const lists = Object.entries(bounds) as [ListName, readonly Bound[]][];
  const rows = sum(lists.map(([name, list]) => WEIGHTS[name] * rowsOf(list)));
  // Whoever has a balance has its grant in the ledger, so there are no more balances than that.
  const balances = balanceShare * rowsOf(bounds.ledger);
  const spans = sum(lists.map(([, list]) => sum(list.map(({ id }) => id.length * 3)) / SPANS_BYTES));
  const fixed = QUERIES_FIXED + spans + bounds.ledger.length / BALANCE_IDS + analyticsBytes / HEAVY_PAGE_BYTES;
  const left = queriesMax - Math.ceil(fixed);
  if (left <= 0) return null;
  const needed = Math.ceil((rows + balances) / left);
  return needed > PAGE_ROWS_LIMIT ? null : needed;
}
