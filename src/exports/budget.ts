import { LISTS, type ListName } from "./lists.ts";

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

/** A query brings the properties of at most so many ids: they count as so many bytes each. */
const PROPERTIES_BYTES_MIN = HEAVY_PAGE_BYTES / 1_000;

/** A balance counts like four rows of a list, because it is larger. */
export const balanceShare = 4;

/** The weight of a list's rows: 2 where rows may be heavy, because a heavy row takes another query. */
const WEIGHTS: Readonly<Record<ListName, number>> = { analytics: 2, metering: 2, ledger: 2, consent: 1, exports: 1 };

/** How much a list is: its rows, the ids that have some, and the bytes of these ids. */
export interface ListSize {
  readonly rows: number;
  readonly ids: number;
  readonly idBytes: number;
}

/** The bytes of all events' and of all ids' properties, and the number of ids that have some. */
interface HeavySizes {
  readonly analyticsBytes: number;
  readonly propertiesBytes: number;
  readonly propertiesCount: number;
}

/**
 * The fewest rows of a page with which all lists together take at most `queriesMax` queries. Null when such a page would not
 * fit into memory. Then the export is refused before its first byte.
 */
export function pageRowsMin(
  sizes: Readonly<Record<ListName, ListSize>>,
  { analyticsBytes, propertiesBytes, propertiesCount }: HeavySizes,
): number | null {
  const heavyBytes = analyticsBytes + propertiesBytes + PROPERTIES_BYTES_MIN * propertiesCount;
  // Every balance has an entry in the ledger, so there are at most as many balances as entries.
  let rows = balanceShare * sizes.ledger.rows;
  let fixed = QUERIES_FIXED + sizes.ledger.ids / BALANCE_IDS + heavyBytes / HEAVY_PAGE_BYTES;
  for (const name of LISTS) {
    rows += WEIGHTS[name] * sizes[name].rows;
    fixed += sizes[name].idBytes / SPANS_BYTES;
  }
  const left = queriesMax - Math.ceil(fixed);
  if (left <= 0) return null;
  const needed = Math.ceil(rows / left);
  return needed > PAGE_ROWS_LIMIT ? null : needed;
}
