import { type SQL, sql } from "drizzle-orm";
import { rows } from "../db/statement.ts";
import { assert } from "../lib/assert.ts";
import { type Utf8, utf8 } from "../lib/utf8.ts";
import { type List, type ListName, lists } from "./lists.ts";
import { advance, type EntryRow, nextSpans, type Place, type Span, start } from "./place.ts";
import type { Bound, Reading } from "./reading.ts";

const PAGE_ROWS_MAX = 2_000;
const PAGE_BYTES = 1_500_000;
/** What a page may weigh when its rows are heavier than those before it. */
const PAGE_BYTES_MAX = 8_000_000;
/** D1 answers 1,000 queries to one request: a list of more pages than this gets larger ones. */
const PAGES_MAX = 600;

/** What a list's first rows, read with the snapshot, are limited to. */
const FIRST_ROWS_MAX = PAGE_ROWS_MAX;
const FIRST_BODY_BYTES_MAX = 4_096;

const isReadWhole = "every row that the snapshot counted is there";

/** A row's seq, its JSON (or the weight of what is too heavy to come along), and its place in `orderedBy`. */
function selection({ orderedBy, head, body, bodyBytes }: List, bodyBytesMax: number): SQL {
  const position = orderedBy === null ? "" : `, t.${orderedBy} AS position`;
  const text = `iif(${bodyBytes} > ${bodyBytesMax}, ${bodyBytes}, ${head} || ${body} || '}')`;
  return sql.raw(`SELECT t.seq AS seq, ${text} AS text${position}`);
}

/** The first rows of a list for the ids that `ids` (environment_id, distinct_id) yields, in its order. */
export function firstEntries(db: Reading["db"], name: ListName, ids: SQL) {
  const list = lists[name];
  return rows<{ seq: number; text: string | number; position?: number }>(
    db,
    sql`${selection(list, FIRST_BODY_BYTES_MAX)}
    FROM (${ids}) AS i CROSS JOIN ${sql.raw(list.table)} AS t
    WHERE t.environment_id = i.environment_id AND t.${sql.raw(list.idColumn)} = i.distinct_id
    LIMIT ${sql.raw(`${FIRST_ROWS_MAX}`)}`,
  );
}

/**
 * The rows of spans, in their order: nested loops over clustered keys need no sort. Nothing comes when the person is gone,
 * since the ids that were theirs may be somebody else's by now.
 */
function ofSpans({ environmentId, isStillThere }: Reading, list: List, spans: readonly Span[], seqs: string): SQL {
  return sql`
    FROM json_each(${JSON.stringify(spans)}) AS span CROSS JOIN ${sql.raw(list.table)} AS t
    WHERE t.environment_id = ${environmentId} AND t.${sql.raw(list.idColumn)} = span.value ->> 0
      AND ${sql.raw(seqs)} AND ${isStillThere}`;
}

async function readPage(
  reading: Reading,
  list: List,
  { spans, count }: { readonly spans: readonly Span[]; readonly count: number },
  bodyBytesMax: number,
): Promise<EntryRow[]> {
  const seqs =
    list.orderedBy === null
      ? "t.seq > span.value ->> 1 AND t.seq <= span.value ->> 2"
      : `(t.${list.orderedBy}, t.seq) > (span.value ->> 3, span.value ->> 1) AND t.seq <= span.value ->> 2`;
  // Arrays: an object for each row, its keys repeated in D1's answer, costs a quarter of the whole export.
  const page = await reading.db.values<[number, string | number, number]>(
    sql`${selection(list, bodyBytesMax)} ${ofSpans(reading, list, spans, seqs)} LIMIT ${count}`,
  );
  assert(page.length === count, isReadWhole);
  return page;
}

/** The next of these rows that were too heavy to come along, as many as make a page. */
async function readHeavy(
  reading: Reading,
  list: List,
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
  const seqs = `t.seq = span.value ->> 2${list.orderedBy === null ? "" : ` AND t.${list.orderedBy} = span.value ->> 3`}`;
  // Two columns: D1 holds 2 MB in one value, and a body may come near to that by itself.
  const found = await reading.db.values<[string, string]>(
    sql`SELECT ${sql.raw(list.head)} AS head, ${sql.raw(list.body)} AS body ${ofSpans(reading, list, spans, seqs)}`,
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
  list: List,
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
      heavy = await readHeavy(reading, list, page.slice(index), ids.slice(index));
    }
    texts.push(heavy.shift() ?? "");
  }
  page.length = 0;
  if (texts.length > 0) yield utf8(texts.splice(0).join(","));
}

/** As many rows as will weigh a page's bytes, if they are like those of the page before; more where `total` asks for it. */
function rowsOfNextPage(page: readonly EntryRow[], total: number): number {
  let bytes = 1;
  for (const [, text] of page) bytes += typeof text === "string" ? text.length : text;
  const rowsOf = (weight: number) => Math.floor((weight * Math.max(page.length, 1)) / bytes);
  const rowsMax = Math.max(PAGE_ROWS_MAX, Math.ceil(total / PAGES_MAX));
  const fair = Math.min(Math.ceil(total / PAGES_MAX), rowsOf(PAGE_BYTES_MAX / 2));
  return Math.max(1, fair, Math.min(rowsMax, rowsOf(PAGE_BYTES)));
}

const totalOf = (bounds: readonly Bound[]): number => bounds.reduce((sum, bound) => sum + bound.last, 0);

/** Whether the first rows are all of the list, none of them left out for its weight. */
export function isWhole(bounds: readonly Bound[], first: readonly EntryRow[]): boolean {
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
  const list = lists[name];
  const place: Place = start();
  const total = totalOf(bounds);
  let page = first;
  for (;;) {
    const rowsMax = rowsOfNextPage(page, total);
    yield* pagePieces(reading, list, page, advance(bounds, place, page));
    const next = nextSpans(bounds, place, rowsMax);
    if (next.count === 0) return;
    page = await readPage(reading, list, next, Math.floor(PAGE_BYTES_MAX / rowsMax));
  }
}
