/**
 * A D1 around the real one that does something before each trip, counted from 1: what others do meanwhile. What is bound
 * to a statement is shown to `onBind` first.
 */
export function hookedD1(
  d1: D1Database,
  beforeTrip: (trip: number) => Promise<void>,
  onBind: (values: readonly unknown[]) => void = () => {},
): D1Database {
  let trips = 0;
  const travel = async <T>(send: () => Promise<T>): Promise<T> => {
    await beforeTrip(++trips);
    return send();
  };
  const originals = new WeakMap<D1PreparedStatement, D1PreparedStatement>();
  const wrapStatement = (statement: D1PreparedStatement): D1PreparedStatement => {
    const wrapped = {
      bind: (...values: unknown[]) => {
        onBind(values);
        return wrapStatement(statement.bind(...values));
      },
      all: () => travel(() => statement.all()),
      run: () => travel(() => statement.run()),
      raw: () => travel(() => statement.raw()),
      // D1PreparedStatement is a class with overloads; these are what people and exports call.
    } as unknown as D1PreparedStatement;
    originals.set(wrapped, statement);
    return wrapped;
  };
  const withSession = (start?: string) => {
    const session = d1.withSession(start);
    return {
      prepare: (query: string) => wrapStatement(session.prepare(query)),
      batch: <T>(statements: D1PreparedStatement[]) =>
        travel(() => session.batch<T>(statements.map((statement) => originals.get(statement) ?? statement))),
      getBookmark: () => session.getBookmark(),
    };
  };
  // The part of D1Database that Purser calls.
  return { withSession } as unknown as D1Database;
}
