/** What a stretch of work cost, from D1's own counters. */
export interface Cost {
  roundTrips: number;
  rowsRead: number;
  rowsWritten: number;
}

/** A D1 that counts trips and rows. `spent()` answers and starts anew. */
export function countingD1(d1: D1Database): { d1: D1Database; spent: () => Cost } {
  let cost: Cost = { roundTrips: 0, rowsRead: 0, rowsWritten: 0 };
  const count = <T extends D1Result<unknown>>(result: T): T => {
    cost.rowsRead += result.meta.rows_read;
    cost.rowsWritten += result.meta.rows_written;
    return result;
  };
  const originals = new WeakMap<D1PreparedStatement, D1PreparedStatement>();
  const wrapStatement = (statement: D1PreparedStatement): D1PreparedStatement => {
    const all = async () => {
      cost.roundTrips++;
      return count(await statement.all());
    };
    const wrapped = {
      bind: (...values: unknown[]) => wrapStatement(statement.bind(...values)),
      all,
      run: all,
      first: async () => (await all()).results[0] ?? null,
      raw: async () => (await all()).results.map((row) => Object.values(row as object)),
    } as unknown as D1PreparedStatement;
    originals.set(wrapped, statement);
    return wrapped;
  };
  const wrapSession = (session: D1DatabaseSession) => ({
    prepare: (query: string) => wrapStatement(session.prepare(query)),
    batch: async <T>(statements: D1PreparedStatement[]) => {
      cost.roundTrips++;
      const results = await session.batch<T>(statements.map((statement) => originals.get(statement) ?? statement));
      for (const result of results) count(result);
      return results;
    },
    getBookmark: () => session.getBookmark(),
  });
  const counting = {
    withSession: (start?: string) => wrapSession(d1.withSession(start)),
    ...wrapSession(d1.withSession("first-primary")),
  };
  return {
    d1: counting as unknown as D1Database,
    spent: () => {
      const spent = cost;
      cost = { roundTrips: 0, rowsRead: 0, rowsWritten: 0 };
      return spent;
    },
  };
}
