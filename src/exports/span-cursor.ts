import { and, eq, type SQL, sql } from "drizzle-orm";
import { hasRow, type ValueOf } from "../db/query.ts";
import { distinctIds } from "../db/schema.ts";
import type { Db } from "../db/sql.ts";
import { assert } from "../errors.ts";
import { LISTS, type ListName } from "./lists.ts";

/** A row of a list: its seq, its JSON (or only the size of JSON that was too large), and the index of its span. */
export type EntryRow = readonly [seq: number, text: string | number, place: number];

/** The requested rows of one id: after a seq, up to a seq. Then the id's last seq at the snapshot, and its number of rows. */
export type ExportSpan = readonly [...[id: string, afterSeq: number, toSeq: number], ...[last: number, rows: number]];

/** D1 accepts at most 2 MB for one value. */
const SPANS_BYTES_MAX = 500_000;

/** The reading position in a list. */
export interface SpanCursor {
  /** Returns the span of the first rows of the first id, which were read with the snapshot. */
  readonly takeFirst: (first: readonly EntryRow[]) => readonly ExportSpan[];
  /**
   * Returns the next spans, which together have up to `rowsMax` rows, and the most rows that they have. Only the last span may end
   * before its id's bound.
   */
  readonly take: (rowsMax: number) => { readonly spans: readonly ExportSpan[]; readonly count: number };
  /** Checks the rows of a page that was read for the spans. Throws when an id ends with fewer rows, because some were deleted. */
  readonly checkPage: (spans: readonly ExportSpan[], page: readonly EntryRow[]) => void;
}

export function openSpanCursor(bounds: Iterable<Bound>): SpanCursor {
  const remainingBounds = bounds[Symbol.iterator]();
  let bound: Bound | undefined = remainingBounds.next().value;
  let seq = bound?.after ?? 0;
  /** The rows of the last span's id that earlier pages had. */
  let rowsBefore = 0;
  const goTo = (toSeq: number): ExportSpan[] => {
    if (bound === undefined) return [];
    const { id, last, rows } = bound;
    const span: ExportSpan = [id, seq, toSeq, last, rows];
    seq = toSeq;
    if (toSeq === last) {
      bound = remainingBounds.next().value;
      seq = bound?.after ?? 0;
    }
    return [span];
  };
  return {
    takeFirst: (first) => {
      const lastRow = first.at(-1);
      return lastRow === undefined ? [] : goTo(lastRow[0]);
    },
    take: (rowsMax) => {
      const spans: ExportSpan[] = [];
      let count = 0;
      for (let bytes = 0; bound !== undefined && count < rowsMax && bytes < SPANS_BYTES_MAX; ) {
        const toSeq = Math.min(bound.last, seq + rowsMax - count);
        count += toSeq - seq;
        bytes += bound.id.length * 3;
        spans.push(...goTo(toSeq));
      }
      return { spans, count };
    },
    checkPage: (spans, page) => {
      let next = 0;
      for (const [place, [, afterSeq, toSeq, last, rows]] of spans.entries()) {
        for (let previous = afterSeq; page[next]?.[2] === place; next++) {
          const rowSeq = page[next]?.[0] ?? 0;
          assert(rowSeq > previous && rowSeq <= toSeq, "rows are of their span, in order");
          previous = rowSeq;
          rowsBefore++;
        }
        if (toSeq !== last) continue;
        assert(rowsBefore === rows, "every row of the snapshot is read");
        rowsBefore = 0;
      }
      assert(next === page.length, "no row after the snapshot is read");
    },
  };
}

/** The values that the reading of every page needs. */
export interface Reading {
  readonly db: Db;
  readonly environmentId: number;
  /** The requested id, and when it was first seen. Null if it has no record. */
  readonly distinctId: string;
  readonly firstSeenAtMs: number | null;
  /** The fewest rows of a page that keep the export within its query budget. */
  readonly pageRowsMin: number;
  /** The person's ids that are members of accounts of another of their ids. */
  readonly ownMemberIds: readonly string[];
}

/** The named values of `isUnchangedPerson`. */
export type RequestedId = { environmentId: number; requestedId: string; firstSeenAtMs: number | null };

export const requestedIdOf = ({ environmentId, distinctId, firstSeenAtMs }: Reading): RequestedId => ({
  environmentId,
  requestedId: distinctId,
  firstSeenAtMs,
});

/**
 * SQL: whether the requested id was neither deleted nor created again after the snapshot. Lists are append-only, so their
 * seqs reveal every other change. SQLite evaluates this condition once for each statement, so it reads one row.
 */
export function isUnchangedPerson(value: ValueOf<RequestedId>): SQL {
  const isSameRecord = and(
    eq(distinctIds.environmentId, value("environmentId")),
    eq(distinctIds.distinctId, value("requestedId")),
    eq(distinctIds.firstSeenAtMs, value("firstSeenAtMs")),
  );
  return sql`(${value("firstSeenAtMs")} IS NULL OR ${hasRow(distinctIds, isSameRecord)})`;
}

/** The seqs of one id's rows of a list at the snapshot: those after `after` up to `last`. */
export interface Bound {
  readonly id: string;
  /** 0, except after analytics events were deleted because of their age. */
  readonly after: number;
  readonly last: number;
  /** How many of these rows the snapshot shows. */
  readonly rows: number;
}

/** The most queries of an export. D1 allows 1,000 queries a request. The others are reserved for retries. */
export const EXPORT_QUERIES_MAX = 900;
/** The queries of the snapshot, the audit and the ends of lists. */
const QUERIES_FIXED = 50;
/** A page of more rows would not fit into an isolate's memory. */
const PAGE_ROWS_LIMIT = 20_000;
/** The most bytes of large rows in the result of a query. */
const LARGE_ROWS_PAGE_BYTES = 2_000_000;
/** The most ids of a page of balances. */
const BALANCE_IDS = 500;

/** A query returns the properties of at most 1,000 ids, so each id counts as at least this many bytes. */
const PROPERTIES_BYTES_MIN = LARGE_ROWS_PAGE_BYTES / 1_000;

/** A balance counts as four rows of a list, because it is larger. */
export const ROWS_OF_BALANCE = 4;

/** The weight of a list's rows: 2 when rows may be large, because a large row takes another query. */
const WEIGHTS: Readonly<Record<ListName, number>> = { analytics: 2, metering: 2, ledger: 2, consent: 1, exports: 1 };

/** The size of a list: its rows, its seqs (pages are spans of seqs), the ids with rows, and the bytes of these ids. */
export interface ListSize {
  readonly rows: number;
  readonly seqs: number;
  readonly ids: number;
  readonly idBytes: number;
}

/** The bytes of the properties of all events and of all ids, and the number of ids with properties. */
interface PropertySizes {
  readonly analyticsBytes: number;
  readonly propertiesBytes: number;
  readonly propertiesCount: number;
}

/**
 * Returns the smallest page size, in rows, with which all lists together take at most `EXPORT_QUERIES_MAX` queries. Returns null when
 * such a page would not fit into memory. The export is then rejected before its first byte.
 */
export function pageRowsMin(
  sizes: Readonly<Record<ListName, ListSize>>,
  { analyticsBytes, propertiesBytes, propertiesCount }: PropertySizes,
): number | null {
  const propertyBytes = analyticsBytes + propertiesBytes + PROPERTIES_BYTES_MIN * propertiesCount;
  // Every balance has an entry in the ledger, so there are at most as many balances as entries.
  let rows = ROWS_OF_BALANCE * sizes.ledger.rows;
  let fixed = QUERIES_FIXED + sizes.ledger.ids / BALANCE_IDS + propertyBytes / LARGE_ROWS_PAGE_BYTES;
  for (const name of LISTS) {
    rows += WEIGHTS[name] * sizes[name].seqs;
    fixed += sizes[name].idBytes / SPANS_BYTES_MAX;
  }
  const queriesLeft = EXPORT_QUERIES_MAX - Math.ceil(fixed);
  if (queriesLeft <= 0) return null;
  const needed = Math.ceil(rows / queriesLeft);
  return needed > PAGE_ROWS_LIMIT ? null : needed;
}
