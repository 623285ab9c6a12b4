import { and, type SQL, sql } from "drizzle-orm";
import { asInteger, computed, query, read, readArrays, type ValueOf } from "../db/query.ts";
import { arrays, type Statement } from "../db/sql.ts";
import { assert } from "../errors.ts";
import { type Utf8, utf8 } from "../lib/encoding.ts";
import type { PersonKey } from "../people/person-walk.ts";
import { jsonOf, LISTS, type List, type ListName, lists, owner, ownersOfSpans, requestedOwner } from "./lists.ts";
import {
  type Bound,
  type EntryRow,
  type ExportSpan,
  isUnchangedPerson,
  openSpanCursor,
  type Reading,
  type RequestedId,
  requestedIdOf,
} from "./span-cursor.ts";

const PAGE_ROWS_MAX = 2_000;
const PAGE_BYTES = 1_500_000;
/** The most bytes of a query for large rows, unless a single row has more. */
const LARGE_ROWS_BYTES = 4_000_000;
/** The most bytes of a page whose rows are larger than expected. */
const PAGE_BYTES_MAX = 8_000_000;

/** The limits of a list's first rows, which are read with the snapshot. */
const FIRST_ROWS_MAX = PAGE_ROWS_MAX;
const FIRST_BODY_BYTES_MAX = 2_048;

const HAS_ALL_ROWS = "every row that the snapshot counted is read";

export type FirstRow = { readonly seq: number; readonly text: string | number };
const place = sql<number>`owner.place`;
type Spans = RequestedId & { spans: string; own: string };

/** SQL: a row's seq, and its JSON, or only the size of JSON that is too large for the page. */
function selection(list: List, bodyBytesMax: SQL) {
  const { head, body } = jsonOf(list);
  const bytes = list.bodyBytes();
  return {
    seq: sql<number>`${list.table.seq}`,
    text: sql<string | number>`iif(${bytes} > ${bodyBytesMax}, ${bytes}, ${head} || ${body} || '}')`,
  };
}

/**
 * FROM: the rows of spans, in the order of their primary key, so that SQLite need not sort. No rows if the person was
 * deleted.
 */
const ofSpans = (value: ValueOf<Spans>, list: List, ...seqs: readonly (SQL | undefined)[]): SQL => sql`
  FROM ${ownersOfSpans(value, value("own"))} CROSS JOIN ${list.table} ${list.beside}
  WHERE ${and(list.isOwned(value("environmentId")), ...seqs, list.isShown?.(last), isUnchangedPerson(value))}`;

const [after, to, last] = [sql`owner.span ->> 1`, sql`owner.span ->> 2`, sql`owner.span ->> 3`];

const pageStatement = (list: List) =>
  query((value: ValueOf<Spans & { bodyBytesMax: number; count: number }>) => {
    const { seq } = list.table;
    const seqs = sql`${seq} > ${after} AND ${seq} <= ${to}`;
    const { seq: rowSeq, text } = selection(list, asInteger(value("bodyBytesMax")));
    return readArrays(
      [rowSeq, text, place] as const,
      (selected) => sql`SELECT ${selected} ${ofSpans(value, list, seqs)} LIMIT ${asInteger(value("count"))}`,
    );
  });

const largeRowsStatement = (list: List) =>
  query((value: ValueOf<Spans>) => {
    const { head, body } = jsonOf(list);
    // Two columns, because a value of D1 has at most 2 MB, and a body can be almost as large.
    return readArrays(
      [sql<string>`${head}`, sql<string | null>`${body}`] as const,
      (selected) => sql`SELECT ${selected} ${ofSpans(value, list, sql`${list.table.seq} = ${to}`)}`,
    );
  });

const firstStatement = (list: List) =>
  query((value: ValueOf<PersonKey>) =>
    read(
      computed(selection(list, sql`${FIRST_BODY_BYTES_MAX}`)),
      (selected) => sql`
        SELECT ${selected} FROM ${requestedOwner(value)} CROSS JOIN ${list.table} ${list.beside}
        WHERE ${and(list.isOwned(owner.environmentId), list.isShown?.(null))} LIMIT ${FIRST_ROWS_MAX}`,
    ),
  );

const forEachList = <Result>(make: (list: List) => Result) =>
  // LISTS contains every name, so the record is complete.
  Object.fromEntries(LISTS.map((name) => [name, make(lists[name])])) as Record<ListName, Result>;

const pageStatements = forEachList(pageStatement);
const largeRowsStatements = forEachList(largeRowsStatement);
const firstStatements = forEachList(firstStatement);

/** Returns the statement that reads the first rows of the requested id. They are the first rows of the whole list. */
export const firstEntries = (name: ListName, key: PersonKey): Statement<FirstRow> => firstStatements[name](key);

const noSpan: ExportSpan = ["", 0, 0, 0, 0];

const spanValues = (reading: Reading, spans: readonly ExportSpan[]): Spans => ({
  ...requestedIdOf(reading),
  spans: JSON.stringify(spans),
  own: JSON.stringify(reading.ownMemberIds),
});

async function readPage(
  reading: Reading,
  name: ListName,
  { spans, count }: { readonly spans: readonly ExportSpan[]; readonly count: number },
  bodyBytesMax: number,
): Promise<EntryRow[]> {
  const values = { ...spanValues(reading, spans), bodyBytesMax, count };
  // Rows are read as arrays, because an object for each row would take a quarter of the export's time.
  return arrays(reading.db, pageStatements[name](values));
}

/** Reads the next rows that were too large for their page, as many as fit into a separate page. */
async function readLargeRows(
  reading: Reading,
  name: ListName,
  page: readonly EntryRow[],
  ofPage: readonly ExportSpan[],
): Promise<string[]> {
  const spans: ExportSpan[] = [];
  let bytes = 0;
  for (const [seq, text, place] of page) {
    if (typeof text === "string") continue;
    bytes += text;
    if (spans.length > 0 && bytes > LARGE_ROWS_BYTES) break;
    const [id, , , last, rows] = ofPage[place] ?? noSpan;
    spans.push([id, seq - 1, seq, last, rows]);
  }
  const rows = await arrays(reading.db, largeRowsStatements[name](spanValues(reading, spans)));
  assert(rows.length === spans.length, HAS_ALL_ROWS);
  return rows.map(([head, body]) => {
    assert(body !== null, HAS_ALL_ROWS);
    return `${head}${body}}`;
  });
}

/**
 * Returns a page's entries. It reads the rows that were too large for the page when they are needed, a few at a time. It
 * empties the page, because a paused generator would otherwise keep the rows in memory.
 */
async function* pagePieces(
  reading: Reading,
  name: ListName,
  page: EntryRow[],
  spans: readonly ExportSpan[],
): AsyncGenerator<Utf8> {
  const texts: string[] = [];
  let largeRows: string[] = [];
  for (const [index, [, text]] of page.entries()) {
    if (typeof text === "string") {
      texts.push(text);
      continue;
    }
    assert(typeof text === "number", "an entry has all of its text");
    if (largeRows.length === 0) {
      if (texts.length > 0) yield utf8(texts.splice(0).join(","));
      largeRows = await readLargeRows(reading, name, page.slice(index), spans);
    }
    texts.push(largeRows.shift() ?? "");
  }
  page.length = 0;
  if (texts.length > 0) yield utf8(texts.splice(0).join(","));
}

/**
 * Returns the number of rows of the next page, from the sizes in the previous page. It is larger if the query budget requires
 * it.
 */
function rowsOfNextPage(page: readonly EntryRow[], pageRowsMin: number): number {
  let bytes = 1;
  for (const [, text] of page) bytes += typeof text === "string" ? text.length : text;
  const rowsOf = (weight: number) => Math.floor((weight * Math.max(page.length, 1)) / bytes);
  const budgetRows = Math.min(pageRowsMin, rowsOf(PAGE_BYTES_MAX / 2));
  return Math.max(1, budgetRows, Math.min(Math.max(PAGE_ROWS_MAX, pageRowsMin), rowsOf(PAGE_BYTES)));
}

/** Returns whether the first rows are the whole list of `rows` rows, and none was too large. */
export function hasAllEntries(rows: number, first: readonly EntryRow[]): boolean {
  return first.length === rows && first.every(([, text]) => typeof text === "string");
}

/**
 * Returns a list's entries as JSON without brackets, in pieces of a page or less. It empties `first`. Throws when a row is missing.
 */
export async function* entryPieces(
  reading: Reading,
  name: ListName,
  bounds: Iterable<Bound>,
  first: EntryRow[],
): AsyncGenerator<Utf8> {
  const cursor = openSpanCursor(bounds);
  let page = first;
  let spans = cursor.takeFirst(first);
  for (;;) {
    const rowsMax = rowsOfNextPage(page, reading.pageRowsMin);
    cursor.checkPage(spans, page);
    yield* pagePieces(reading, name, page, spans);
    const next = cursor.take(rowsMax);
    if (next.count === 0) return;
    page = await readPage(reading, name, next, Math.floor(PAGE_BYTES_MAX / rowsMax));
    spans = next.spans;
  }
}
