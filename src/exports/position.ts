import { assert } from "../lib/assert.ts";
import type { Bound } from "./reading.ts";

/** A row of a list: its seq, its JSON or the bytes of a JSON that was too large, and its value of `orderedBy` if any. */
export type EntryRow = readonly [seq: number, text: string | number, position?: number | undefined];

/** The requested rows of one id: after a seq, up to a seq, after a value of `orderedBy`. */
export type Span = readonly [id: string, afterSeq: number, toSeq: number, afterPosition: number];

/** How far a list is read: up to row `seq` of the id at `index`. `position` is that row's value of `orderedBy`. */
export interface Position {
  index: number;
  seq: number;
  position: number;
}

const BEFORE_ALL = Number.MIN_SAFE_INTEGER;
/** D1 takes at most 2 MB for one value. */
const SPANS_BYTES_MAX = 500_000;

export const firstPosition = (): Position => ({ index: 0, seq: 0, position: BEFORE_ALL });

/**
 * The next spans of up to `rowsMax` rows, and their number of rows. Only the last span may end before its id's bound, where
 * the statement's LIMIT ends it too.
 */
export function nextSpans(bounds: readonly Bound[], at: Position, rowsMax: number): { spans: Span[]; count: number } {
  const spans: Span[] = [];
  let count = 0;
  let bytes = 0;
  let { index, seq, position } = at;
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
 * Moves the position over a page and returns each row's id. Every row must follow the previous one. A gap means that a row was
 * deleted.
 */
export function moveOver(bounds: readonly Bound[], at: Position, page: readonly EntryRow[]): string[] {
  let bound = bounds[at.index];
  return page.map(([seq, , position]) => {
    while (at.seq === bound?.last) {
      at.index++;
      at.seq = 0;
      bound = bounds[at.index];
    }
    assert(bound !== undefined, "no row beyond the snapshot is read");
    assert(seq === at.seq + 1, "rows of an id follow each other without a gap");
    at.seq = seq;
    at.position = position ?? BEFORE_ALL;
    return bound.id;
  });
}
