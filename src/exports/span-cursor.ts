import { assert } from "../lib/assert.ts";
import type { Bound } from "./reading.ts";

/** A row of a list: its seq, its JSON or the bytes of a JSON that was too large, and its value of `orderedBy`; 0 without one. */
export type EntryRow = readonly [seq: number, text: string | number, position: number];

/** The requested rows of one id: after a seq, up to a seq, after a value of `orderedBy`. */
export type Span = readonly [id: string, afterSeq: number, toSeq: number, afterPosition: number];

const BEFORE_ALL = Number.MIN_SAFE_INTEGER;
/** D1 takes at most 2 MB for one value. */
const SPANS_BYTES_MAX = 500_000;

/** How far a list is read. */
export interface SpanCursor {
  /**
   * The next spans of up to `rowsMax` rows, and their number of rows. Only the last span may end before its id's bound, where
   * the statement's LIMIT ends it too.
   */
  readonly take: (rowsMax: number) => { readonly spans: readonly Span[]; readonly count: number };
  /** The id of each row of the page that was read for the spans. Throws for a gap: then a row was deleted. */
  readonly moveOver: (spans: readonly Span[], page: readonly EntryRow[]) => string[];
}

export function openCursor(bounds: Iterable<Bound>): SpanCursor {
  const rest = bounds[Symbol.iterator]();
  let bound: Bound | undefined = rest.next().value;
  let seq = bound?.after ?? 0;
  let position = BEFORE_ALL;
  return {
    take: (rowsMax) => {
      const spans: Span[] = [];
      let count = 0;
      for (let bytes = 0; bound !== undefined && count < rowsMax && bytes < SPANS_BYTES_MAX; ) {
        const toSeq = Math.min(bound.last, seq + rowsMax - count);
        spans.push([bound.id, seq, toSeq, position]);
        count += toSeq - seq;
        bytes += bound.id.length * 3;
        seq = toSeq;
        if (toSeq < bound.last) break;
        bound = rest.next().value;
        seq = bound?.after ?? 0;
        position = BEFORE_ALL;
      }
      return { spans, count };
    },
    moveOver: (spans, page) => {
      const ids: string[] = [];
      for (const [id, afterSeq, toSeq] of spans) {
        for (let next = afterSeq + 1; next <= toSeq; next++) {
          const row = page[ids.length];
          assert(row?.[0] === next, "rows of an id follow each other without a gap");
          ids.push(id);
        }
      }
      assert(ids.length === page.length, "no row beyond the snapshot is read");
      if (seq > 0) position = page.at(-1)?.[2] ?? BEFORE_ALL;
      return ids;
    },
  };
}
