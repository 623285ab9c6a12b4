import { assert } from "../lib/assert.ts";
import type { Bound } from "./reading.ts";

/** A row of a list: its seq, its JSON or how many bytes were too many to send along, its place in `orderedBy` if any. */
export type EntryRow = readonly [seq: number, text: string | number, position?: number | undefined];

/** The rows wanted of one id: after seq, to seq, after position. */
export type Span = readonly [id: string, afterSeq: number, toSeq: number, afterPosition: number];

/** Where the reading of a list stands: after row `seq` of the id at `index`. */
export interface Position {
  index: number;
  seq: number;
  position: number;
}

const BEFORE_ALL = Number.MIN_SAFE_INTEGER;
/** D1 takes 2 MB of one value. */
const SPANS_BYTES_MAX = 500_000;

export const firstPosition = (): Position => ({ index: 0, seq: 0, position: BEFORE_ALL });

/**
 * The next spans of up to `rowsMax` rows, and how many rows those are. Only the last may stop short of its id's bound: the
 * statement's LIMIT ends the reading there.
 */
export function nextSpans(
  bounds: readonly Bound[],
  place: Position,
  rowsMax: number,
): { spans: Span[]; count: number } {
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

/**
 * Moves on over a page and answers each row's id. Every row must be the very next: a gap means that something was erased
 * meanwhile.
 */
export function moveOver(bounds: readonly Bound[], place: Position, page: readonly EntryRow[]): string[] {
  let bound = bounds[place.index];
  return page.map(([seq, , position]) => {
    while (place.seq === bound?.last) {
      place.index++;
      place.seq = 0;
      bound = bounds[place.index];
    }
    assert(bound !== undefined, "no row beyond the snapshot is read");
    assert(seq === place.seq + 1, "rows of an id follow each other without a gap");
    place.seq = seq;
    place.position = position ?? BEFORE_ALL;
    return bound.id;
  });
}
