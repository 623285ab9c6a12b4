import { arrays, fragment, type Statement, statement } from "../db/sql.ts";
import { assert } from "../lib/assert.ts";
import { type Utf8, utf8 } from "../lib/utf8.ts";
import type { PersonKey } from "../people/person-walk.ts";
import { isOwnedSql, LISTS, type List, type ListName, lists, ownersOfSpans } from "./lists.ts";
import { type EntryRow, firstPosition, moveOver, nextSpans, type Position, type Span } from "./position.ts";
import { type Bound, isStillThere, type Reading, type StillThere, stillThere } from "./reading.ts";

const PAGE_ROWS_MAX = 2_000;
const PAGE_BYTES = 1_500_000;
/** What a page may weigh when its rows are heavier than those before it. */
const PAGE_BYTES_MAX = 8_000_000;

/** What a list's first rows, read with the snapshot, are limited to. */
const FIRST_ROWS_MAX = PAGE_ROWS_MAX;
const FIRST_BODY_BYTES_MAX = 4_096;

const isReadWhole = "every row that the snapshot counted is there";

export type FirstRow = { readonly seq: number; readonly text: string | number; readonly position?: number };
type PageRow = [seq: number, text: string | number, position: number];
type HeavyRow = [head: string, body: string];
type Spans = StillThere & { spans: string };

/** A row's seq, its JSON (or the weight of what is too heavy to come along), and its place in `orderedBy`. */
function selection({ orderedBy, head, body, bodyBytes }: List, bodyBytesMax: string): string {
  const position = orderedBy === null ? "" : `, t.${orderedBy} AS position`;
  return `SELECT t.seq AS seq, iif(${bodyBytes} > ${bodyBytesMax}, ${bodyBytes}, ${head} || ${body} || '}') AS text${position}`;
}

/**
 * The rows of spans, in their order: nested loops over clustered keys need no sort. Nothing comes when the person is gone.
 */
const ofSpans = (list: List, seqs: string): string => fragment`
  FROM ${ownersOfSpans} CROSS JOIN ${list.table} AS t
  WHERE ${isOwnedSql(list, ":environmentId")} AND ${seqs} AND ${isStillThere}`;

function pageStatement(list: List) {
  const seqs =
    list.orderedBy === null
      ? "t.seq > owner.value ->> 1 AND t.seq <= owner.value ->> 2"
      : `(t.${list.orderedBy}, t.seq) > (owner.value ->> 3, owner.value ->> 1) AND t.seq <= owner.value ->> 2`;
  return statement<Spans & { bodyBytesMax: number; count: number }, PageRow>`
    ${selection(list, ":bodyBytesMax")} ${ofSpans(list, seqs)} LIMIT CAST(:count AS INTEGER)`;
}

function heavyStatement(list: List) {
  const seqs = `t.seq = owner.value ->> 2${list.orderedBy === null ? "" : ` AND t.${list.orderedBy} = owner.value ->> 3`}`;
  // Two columns: D1 holds 2 MB in one value, and a body may come near to that by itself.
  return statement<Spans, HeavyRow>`SELECT ${list.head} AS head, ${list.body} AS body ${ofSpans(list, seqs)}`;
}

const ofEach = <Made>(make: (list: List) => Made) =>
  // Made of all of LISTS, so that it has every name.
  Object.fromEntries(LISTS.map((name) => [name, make(lists[name])])) as Record<ListName, Made>;

const pageStatements = ofEach(pageStatement);
const heavyStatements = ofEach(heavyStatement);

/** The first rows of a list for the ids of the walk, in its order. */
export function firstEntries(name: ListName, walk: string, key: PersonKey): Statement<FirstRow> {
  const list = lists[name];
  return statement<PersonKey, FirstRow>`${walk} ${selection(list, `${FIRST_BODY_BYTES_MAX}`)}
    FROM person AS owner CROSS JOIN ${list.table} AS t
    WHERE ${isOwnedSql(list, "owner.environment_id")}
    LIMIT ${`${FIRST_ROWS_MAX}`}`(key);
}

async function readPage(
  reading: Reading,
  name: ListName,
  { spans, count }: { readonly spans: readonly Span[]; readonly count: number },
  bodyBytesMax: number,
): Promise<EntryRow[]> {
  const values = { ...stillThere(reading), spans: JSON.stringify(spans), bodyBytesMax, count };
  // Arrays: an object for each row, its keys repeated in D1's answer, costs a quarter of the whole export.
  const page = await arrays(reading.db, pageStatements[name](values));
  assert(page.length === count, isReadWhole);
  return page;
}

/** The next of these rows that were too heavy to come along, as many as make a page. */
async function readHeavy(
  reading: Reading,
  name: ListName,
  page: readonly EntryRow[],
  ids: readonly string[],
): Promise<string[]> {
  const spans: Span[] = [];
  let bytes = 0;
  for (const [index, [seq, text, position = 0]] of page.entries()) {
    if (typeof text === "string") continue;
    bytes += text;
    if (spans.length > 0 && bytes > PAGE_BYTES) break;
    spans.push([ids[index] ?? "", seq - 1, seq, position]);
  }
  const found = await arrays(
    reading.db,
    heavyStatements[name]({ ...stillThere(reading), spans: JSON.stringify(spans) }),
  );
  assert(found.length === spans.length, isReadWhole);
  return found.map(([head, body]) => `${head}${body}}`);
}

/**
 * A page's entries; those that were too heavy are read where their turn comes, a few at a time. Empties the page: generators
 * that stand still while a piece is sent would hold its rows until the next page is there.
 */
async function* pagePieces(
  reading: Reading,
  name: ListName,
  page: EntryRow[],
  ids: readonly string[],
): AsyncGenerator<Utf8> {
  const texts: string[] = [];
  let heavy: string[] = [];
  for (const [index, [, text]] of page.entries()) {
    if (typeof text === "string") {
      texts.push(text);
      continue;
    }
    assert(typeof text === "number", "an entry has all of its text");
    if (heavy.length === 0) {
      if (texts.length > 0) yield utf8(texts.splice(0).join(","));
      heavy = await readHeavy(reading, name, page.slice(index), ids.slice(index));
    }
    texts.push(heavy.shift() ?? "");
  }
  page.length = 0;
  if (texts.length > 0) yield utf8(texts.splice(0).join(","));
}

/** As many rows as will weigh a page's bytes, if they are like those of the page before; more where the budget asks for it. */
function rowsOfNextPage(page: readonly EntryRow[], pageRowsMin: number): number {
  let bytes = 1;
  for (const [, text] of page) bytes += typeof text === "string" ? text.length : text;
  const rowsOf = (weight: number) => Math.floor((weight * Math.max(page.length, 1)) / bytes);
  const fair = Math.min(pageRowsMin, rowsOf(PAGE_BYTES_MAX / 2));
  return Math.max(1, fair, Math.min(Math.max(PAGE_ROWS_MAX, pageRowsMin), rowsOf(PAGE_BYTES)));
}

const totalOf = (bounds: readonly Bound[]): number => bounds.reduce((sum, bound) => sum + bound.last, 0);

/** Whether the first rows are all of the list, none of them left out for its weight. */
export function hasAllEntries(bounds: readonly Bound[], first: readonly EntryRow[]): boolean {
  return first.length === totalOf(bounds) && first.every(([, text]) => typeof text === "string");
}

/**
 * A list's entries as JSON without its brackets, in pieces of a page or less; `first` is emptied. Throws when a row is
 * missing.
 */
export async function* entryPieces(
  reading: Reading,
  name: ListName,
  bounds: readonly Bound[],
  first: EntryRow[],
): AsyncGenerator<Utf8> {
  const place: Position = firstPosition();
  let page = first;
  for (;;) {
    const rowsMax = rowsOfNextPage(page, reading.pageRowsMin);
    yield* pagePieces(reading, name, page, moveOver(bounds, place, page));
    const next = nextSpans(bounds, place, rowsMax);
    if (next.count === 0) return;
    page = await readPage(reading, name, next, Math.floor(PAGE_BYTES_MAX / rowsMax));
  }
}
