import type { Child } from "hono/jsx";
import { invalid } from "../errors.ts";
import { csvText } from "../lib/encoding.ts";
import { numberValue } from "../lib/json.ts";
import { type Form, type PageContext, textField } from "./form.ts";
import type { NumberHead } from "./table.tsx";

/**
 * This file reads a list in pages of 50 rows, sorts the whole list, and saves it as CSV. A list that nobody sorted is read page
 * by page; a sorted list and a CSV file have its first 10,000 rows.
 */

export type CellValue = string | number | null;

/** A column of a list: in the table, in the CSV file, or in both. */
export interface ListColumn<Row> {
  /** The name in `?sort=` and in the file's first line. */
  readonly name: string;
  /** Absent for a column that is only in the file. */
  readonly head?: string | NumberHead;
  readonly cell?: (row: Row) => Child;
  /** The value in the file. Absent for a column that is only in the table. */
  readonly value?: (row: Row) => CellValue;
  /** The values by which the list is sorted, the first one first. By default the file's value. */
  readonly sortKey?: (row: Row) => readonly CellValue[];
  /** Whether the table leaves it out while no row shown has a value other than 0. */
  readonly isRare?: boolean;
}

/** A request for a page of a list, in the list's own order. */
export interface ListPage {
  readonly limit: number;
  readonly cursor: string | undefined;
}
type ReadPage<Row> = (page: ListPage) => Promise<{ rows: readonly Row[]; nextCursor: string | null }>;

/** The order that a person chose. */
interface ListSort<Row> {
  readonly name: string;
  readonly order: "asc" | "desc";
  readonly page: number;
  readonly sortKey: (row: Row) => readonly CellValue[];
}

/** The rows of one page, and what follows. */
export interface ShownList<Row> {
  readonly rows: readonly Row[];
  /** The next page in the list's own order. Null after a sort. */
  readonly nextCursor: string | null;
  /** Whether the page is not the first one. */
  readonly isLater: boolean;
  readonly sorted: (ListSort<Row> & { readonly total: number; readonly isTruncated: boolean }) | null;
}

export const LIST_PAGE_ROWS = 50;
/** To sort or save a list, this many rows are read at once, and at most this many times. */
const READ_ROWS = 500;
const READ_PAGES_MAX = 20;
/** The most rows of a list that is sorted or saved. */
export const READ_ROWS_MAX = READ_ROWS * READ_PAGES_MAX;

export const sortKeyOf = <Row>({ value, sortKey }: ListColumn<Row>) =>
  sortKey ?? (value === undefined ? undefined : (row: Row) => [value(row)]);

/** Returns the order in the query, or null for the list's own. Throws `invalid_request`. */
function readSort<Row>(form: Form, columns: readonly ListColumn<Row>[]): ListSort<Row> | null {
  const name = textField(form, "sort");
  if (name === undefined) return null;
  const sortable = columns.filter((candidate) => candidate.head !== undefined && sortKeyOf(candidate) !== undefined);
  const column = sortable.find((candidate) => candidate.name === name);
  const sortKey = column === undefined ? undefined : sortKeyOf(column);
  if (sortKey === undefined)
    throw invalid("sort", `must be one of ${sortable.map((candidate) => candidate.name).join(", ")}`);
  const { order = "desc", page = "1" } = form;
  if (order !== "asc" && order !== "desc") throw invalid("order", "must be asc or desc");
  if (!/^[1-9]\d{0,4}$/.test(page)) throw invalid("page", "must be the number of a page, from 1");
  return { name, order, page: Number(page), sortKey };
}

/** Returns the first rows of a list, and whether others may follow. */
export async function readFirstRows<Row>(read: ReadPage<Row>): Promise<{ rows: readonly Row[]; isTruncated: boolean }> {
  const rows: Row[] = [];
  let cursor: string | undefined;
  for (let pages = 0; pages < READ_PAGES_MAX; pages++) {
    const page = await read({ limit: READ_ROWS, cursor });
    rows.push(...page.rows);
    if (page.nextCursor === null) return { rows, isTruncated: false };
    cursor = page.nextCursor;
  }
  return { rows, isTruncated: true };
}

/** Compares keys. A row without a value comes last in both directions. */
function compareKeys(
  a: readonly CellValue[],
  b: readonly CellValue[],
  direction: 1 | -1,
  texts: Intl.Collator,
): number {
  for (const [index, left] of a.entries()) {
    const right = b[index] ?? null;
    if (left === right) continue;
    if (left === null || right === null) return left === null ? 1 : -1;
    const isText = typeof left === "string" && typeof right === "string";
    // An amount with more digits than a double is not of the type `number`.
    const difference = isText ? texts.compare(left, right) : (numberValue(left) ?? 0) - (numberValue(right) ?? 0);
    if (difference !== 0) return difference * direction;
  }
  return 0;
}

function sortRows<Row>(rows: readonly Row[], { order, sortKey }: ListSort<Row>): readonly Row[] {
  const texts = new Intl.Collator("en", { numeric: true });
  const direction = order === "asc" ? 1 : -1;
  return rows
    .map((row) => ({ row, key: sortKey(row) }))
    .sort((a, b) => compareKeys(a.key, b.key, direction, texts))
    .map(({ row }) => row);
}

/** Returns the page of a list that the query asks for. Throws `invalid_request`. */
export async function readShownList<Row>(
  form: Form,
  columns: readonly ListColumn<Row>[],
  read: ReadPage<Row>,
): Promise<ShownList<Row>> {
  const sort = readSort(form, columns);
  if (sort === null) {
    const cursor = textField(form, "cursor");
    return { ...(await read({ limit: LIST_PAGE_ROWS, cursor })), isLater: cursor !== undefined, sorted: null };
  }
  const { rows, isTruncated } = await readFirstRows(read);
  // The list may have become shorter since the link to its last page was shown.
  const page = Math.min(sort.page, Math.max(1, Math.ceil(rows.length / LIST_PAGE_ROWS)));
  return {
    rows: sortRows(rows, sort).slice((page - 1) * LIST_PAGE_ROWS, page * LIST_PAGE_ROWS),
    nextCursor: null,
    isLater: page > 1,
    sorted: { ...sort, page, total: rows.length, isTruncated },
  };
}

/** Returns the first 10,000 rows of a list as a file, in the order of the query. The file's name says when others may follow. */
export async function csvFile<Row>(
  c: PageContext,
  name: string,
  columns: readonly ListColumn<Row>[],
  read: ReadPage<Row>,
): Promise<Response> {
  const sort = readSort(c.req.query(), columns);
  const { rows, isTruncated } = await readFirstRows(read);
  const csvColumns = columns.flatMap(({ name, value }) => (value === undefined ? [] : [{ name, value }]));
  const sorted = sort === null ? rows : sortRows(rows, sort);
  const head = csvColumns.map(({ name }) => name);
  const isRaw = c.req.query("raw") === "true";
  const text = csvText(
    head,
    sorted.map((row) => csvColumns.map(({ value }) => value(row))),
    { isRaw },
  );
  return c.body(text, 200, {
    "content-type": "text/csv; charset=utf-8",
    "content-disposition": `attachment; filename="${name}${isTruncated ? `-first-${rows.length}` : ""}.csv"`,
  });
}
