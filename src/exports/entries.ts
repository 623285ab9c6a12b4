import { type SQL, sql } from "drizzle-orm";
import { rows } from "../db/statement.ts";
import { assert } from "../lib/assert.ts";
import { type List, type ListName, lists } from "./lists.ts";
import type { Bound, Reading } from "./reading.ts";

/** A row of a list, its JSON in two parts; a number in place of the second says how many bytes were too many to send. */
export interface EntryRow {
  readonly seq: number;
  /** The row's value in the list's `orderedBy` column; null where there is none. */
  readonly position: number | null;
  readonly head: string;
  readonly body: string | number;
}

/** Where the reading of a list stands: after row `seq` of the id at `index`. */
interface Place {
  index: number;
  seq: number;
  position: number;
}

/** The rows wanted of one id, as the statement finds them: [id, after seq, to seq, after position]. */
type Span = readonly [id: string, afterSeq: number, toSeq: number, afterPosition: number];

const PAGE_ROWS_MAX = 2_000;
const PAGE_BYTES = 1_500_000;
/** What a page may weigh when its rows are heavier than those before it. */
const PAGE_BYTES_MAX = 6_000_000;
const SPANS_BYTES_MAX = 500_000;
const BEFORE_ALL = Number.MIN_SAFE_INTEGER;

/** What a list's first rows, read with the snapshot, are limited to. */
export const firstRowsMax = PAGE_ROWS_MAX;
const FIRST_BODY_BYTES_MAX = 4_096;

function entrySelection(list: List, bodyBytesMax: number): SQL {
  const { orderedBy, head, body, bodyBytes } = list;
  const max = sql.raw(`${bodyBytesMax}`);
  return sql`SELECT t.seq AS seq, ${sql.raw(orderedBy === null ? "NULL" : `t.${orderedBy}`)} AS position,
    ${sql.raw(head)} AS head, iif(${sql.raw(bodyBytes)} > ${max}, ${sql.raw(bodyBytes)}, ${sql.raw(body)}) AS body`;
}

/** The first rows of a list for the ids that `ids` (environment_id, distinct_id) yields, in its order. */
export function firstEntries(db: Reading["db"], name: ListName, ids: SQL) {
  const list = lists[name];
  const { table, idColumn } = list;
  return rows<EntryRow>(
    db,
    sql`${entrySelection(list, FIRST_BODY_BYTES_MAX)}
    FROM (${ids}) AS i CROSS JOIN ${sql.raw(table)} AS t
    WHERE t.environment_id = i.environment_id AND t.${sql.raw(idColumn)} = i.distinct_id
    LIMIT ${sql.raw(`${firstRowsMax}`)}`,
  );
}

/**
 * Rows of spans, in their order: nested loops over clustered keys need no sort. Nothing comes when the person is gone,
 * since the ids that were theirs may be somebody else's by now.
 */
async function readSpans(
  reading: Reading,
  name: ListName,
  spans: readonly Span[],
  { rowsMax, bodyBytesMax, exactly }: { rowsMax: number; bodyBytesMax: number; exactly: boolean },
): Promise<readonly EntryRow[]> {
  const list = lists[name];
  const { table, idColumn, orderedBy } = list;
  const whole = exactly ? "t.seq = span.value ->> 2" : "t.seq > span.value ->> 1 AND t.seq <= span.value ->> 2";
  const ordered = exactly
    ? `t.${orderedBy} = span.value ->> 3 AND t.seq = span.value ->> 2`
    : `(t.${orderedBy}, t.seq) > (span.value ->> 3, span.value ->> 1) AND t.seq <= span.value ->> 2`;
  return rows<EntryRow>(
    reading.db,
    sql`${entrySelection(list, bodyBytesMax)}
    FROM json_each(${JSON.stringify(spans)}) AS span CROSS JOIN ${sql.raw(table)} AS t
    WHERE t.environment_id = ${reading.environmentId} AND t.${sql.raw(idColumn)} = span.value ->> 0
      AND ${sql.raw(orderedBy === null ? whole : ordered)} AND ${reading.isStillThere}
    LIMIT ${rowsMax}`,
  );
}

/** The next spans of up to `rowsMax` rows. Only the last may stop short of its id's bound: LIMIT ends the reading there. */
function nextSpans(bounds: readonly Bound[], place: Place, rowsMax: number): { spans: Span[]; count: number } {
  const spans: Span[] = [];
  let count = 0;
  let bytes = 0;
  let { index, seq, position } = place;
  while (count < rowsMax && bytes < SPANS_BYTES_MAX) {
    const bound = bounds[index];
    if (bound === undefined) break;
    if (seq < bound.last) {
      const toSeq = Math.min(bound.last, seq + rowsMax - count);
      spans.push([bound.id, seq, toSeq, position]);
      count += toSeq - seq;
      bytes += bound.id.length * 3;
    }
    index++;
    seq = 0;
    position = BEFORE_ALL;
  }
  return { spans, count };
}

/** Moves on over one row, which must be the very next: a gap means that something was erased meanwhile. */
function advance(bounds: readonly Bound[], place: Place, row: EntryRow): string {
  while (place.seq === bounds[place.index]?.last) {
    place.index++;
    place.seq = 0;
  }
  const bound = bounds[place.index];
  assert(bound !== undefined, "no row beyond the snapshot is read");
  assert(row.seq === place.seq + 1, "rows of an id follow each other without a gap");
  place.seq = row.seq;
  place.position = row.position ?? BEFORE_ALL;
  return bound.id;
}

/** Whether the first rows are all of the list, none of them left out for its size. */
export function isWhole(bounds: readonly Bound[], first: readonly EntryRow[]): boolean {
  const total = bounds.reduce((sum, bound) => sum + bound.last, 0);
  return first.length === total && first.every((row) => typeof row.body === "string");
}

/** A list's entries as JSON text without its brackets, in pieces of a page or less. Throws when a row is missing. */
export async function* entryTexts(
  reading: Reading,
  name: ListName,
  bounds: readonly Bound[],
  first: readonly EntryRow[],
): AsyncGenerator<string> {
  const place: Place = { index: 0, seq: 0, position: BEFORE_ALL };
  let page = first;
  for (;;) {
    const ids = page.map((row) => advance(bounds, place, row));
    yield* pageTexts(reading, name, page, ids);
    const rowsMax = rowsOfNextPage(page);
    const { spans, count } = nextSpans(bounds, place, rowsMax);
    if (count === 0) return;
    const bodyBytesMax = Math.floor(PAGE_BYTES_MAX / rowsMax);
    page = await readSpans(reading, name, spans, { rowsMax: count, bodyBytesMax, exactly: false });
    assert(page.length === count, "every row that the snapshot counted is there");
  }
}

/** As many rows as will weigh a page's bytes, if they are like those of the page before. */
function rowsOfNextPage(page: readonly EntryRow[]): number {
  if (page.length === 0) return PAGE_ROWS_MAX;
  const bytes = page.reduce((sum, row) => sum + weightOf(row), 0);
  return Math.max(1, Math.min(PAGE_ROWS_MAX, Math.floor((PAGE_BYTES * page.length) / bytes)));
}

const weightOf = (row: EntryRow): number =>
  row.head.length + (typeof row.body === "string" ? row.body.length : row.body);

/** A page's entries, those that were left out for their size read after it, a few at a time. */
async function* pageTexts(
  reading: Reading,
  name: ListName,
  page: readonly EntryRow[],
  ids: readonly string[],
): AsyncGenerator<string> {
  let texts: string[] = [];
  let heavy: string[] = [];
  for (const [index, row] of page.entries()) {
    let { body } = row;
    if (typeof body === "number") {
      if (heavy.length === 0) {
        if (texts.length > 0) yield texts.join(",");
        texts = [];
        heavy = await readHeavy(reading, name, page.slice(index), ids.slice(index));
      }
      body = heavy.shift() ?? "";
    }
    assert(typeof body === "string" && body !== "", "an entry has all of its text");
    assert(typeof row.head === "string", "an entry has all of its text");
    texts.push(`${row.head}${body}}`);
  }
  if (texts.length > 0) yield texts.join(",");
}

/** The next bodies that were left out of these rows, as many as make a page. */
async function readHeavy(
  reading: Reading,
  name: ListName,
  page: readonly EntryRow[],
  ids: readonly string[],
): Promise<string[]> {
  const spans: Span[] = [];
  let bytes = 0;
  for (const [index, { seq, position, body }] of page.entries()) {
    if (typeof body === "string") continue;
    bytes += body;
    if (spans.length > 0 && bytes > PAGE_BYTES) break;
    spans.push([ids[index] ?? "", seq - 1, seq, position ?? BEFORE_ALL]);
  }
  const found = await readSpans(reading, name, spans, {
    rowsMax: spans.length,
    bodyBytesMax: Number.MAX_SAFE_INTEGER,
    exactly: true,
  });
  assert(found.length === spans.length, "every row that the snapshot counted is there");
  return found.map(({ body }) => {
    assert(typeof body === "string", "a body that is asked for by itself is sent whatever its size");
    return body;
  });
}
