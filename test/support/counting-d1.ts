import { type Travel, wrappedD1 } from "./wrapped-d1.ts";

/** The cost of some requests, by D1's own counters. */
export interface Cost {
  roundTrips: number;
  rowsRead: number;
  rowsWritten: number;
}

const nothing = (): Cost => ({ roundTrips: 0, rowsRead: 0, rowsWritten: 0 });

/** A D1 that counts trips and rows. `spent()` returns the counts and resets them. */
export function countingD1(d1: D1Database): { d1: D1Database; spent: () => Cost } {
  let cost = nothing();
  const count: Travel = async (send, statements) => {
    cost.roundTrips++;
    const results = await send(statements);
    for (const { meta } of results) {
      cost.rowsRead += meta.rows_read;
      cost.rowsWritten += meta.rows_written;
    }
    return results;
  };
  const spent = () => {
    const before = cost;
    cost = nothing();
    return before;
  };
  return { d1: wrappedD1(d1, count, { isMeasured: true }), spent };
}
