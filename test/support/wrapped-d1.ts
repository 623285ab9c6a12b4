/** A statement that a double of D1 receives. The double may read it, change it, add others, or send it on. */
export interface SentStatement {
  readonly text: string;
  readonly values: readonly unknown[];
  /** Whether `raw` is called, which returns rows as lists of values. */
  readonly isRaw?: true;
}

/** One trip: a batch, or a statement alone. */
export type Send = (statements: readonly SentStatement[]) => Promise<D1Result[]>;

interface Session {
  readonly send: Send;
  readonly getBookmark: () => string | null;
}

/** Handles a trip. `start` is where its session starts: `first-primary`, `first-unconstrained` or a bookmark. */
export type Travel = (send: Send, statements: readonly SentStatement[], start: string) => Promise<D1Result[]>;

/** Turns `statements` into statements of D1, for `batch`. */
export const bound = (d1: Pick<D1Database, "prepare">, statements: readonly SentStatement[]): D1PreparedStatement[] =>
  statements.map(({ text, values }) => d1.prepare(text).bind(...values));

/** D1's `raw` does not return its cost. */
const UNMEASURED = {} as D1Result["meta"];

/**
 * A D1 around the real one. Every trip goes through `travel`. If `isMeasured`, every result has its cost; then `raw` uses `all`,
 * which merges columns with the same name, as a batch does.
 */
export function wrappedD1(d1: D1Database, travel: Travel, { isMeasured = false } = {}): D1Database {
  return d1Of((start) => {
    const session = d1.withSession(start);
    const send: Send = async (statements) => {
      const prepared = bound(session, statements);
      const [only] = prepared;
      if (isMeasured || prepared.length > 1 || only === undefined || statements[0]?.isRaw !== true)
        return session.batch(prepared);
      return [{ success: true, meta: UNMEASURED, results: await only.raw() }];
    };
    return {
      send: (statements) => travel(send, statements, start),
      getBookmark: () => session.getBookmark(),
    };
  });
}

/** A D1 with sessions from `openSession`, which is called with their start. Without a session, a trip starts at the primary. */
export function d1Of(openSession: (start: string) => Session): D1Database {
  const sents = new WeakMap<D1PreparedStatement, SentStatement>();
  const sessionAt = (start: string) => {
    const { send, getBookmark } = openSession(start);
    const statement = (sent: SentStatement): D1PreparedStatement => {
      const all = async () => (await send([sent]))[0] as D1Result<Record<string, unknown>>;
      const raw = async () => {
        const results = (await send([{ ...sent, isRaw: true }]))[0]?.results ?? [];
        return results.map((row) => (Array.isArray(row) ? row : Object.values(row as object)));
      };
      const prepared = {
        bind: (...values: unknown[]) => statement({ ...sent, values }),
        all,
        run: all,
        first: async (column?: string) => {
          const row = (await all()).results[0] ?? null;
          return row === null || column === undefined ? row : row[column];
        },
        raw,
        // D1PreparedStatement is a class with overloads. These five methods are all of it.
      } as unknown as D1PreparedStatement;
      sents.set(prepared, sent);
      return prepared;
    };
    const sentOf = (prepared: D1PreparedStatement): SentStatement => {
      const sent = sents.get(prepared);
      if (sent === undefined) throw new Error("The batch has a statement of another database.");
      return sent;
    };
    return {
      prepare: (text: string) => statement({ text, values: [] }),
      batch: async (statements: D1PreparedStatement[]) => send(statements.map(sentOf)),
      getBookmark,
    };
  };
  // The parts of D1Database that Purser calls.
  return {
    withSession: (start = "first-unconstrained") => sessionAt(start),
    ...sessionAt("first-primary"),
  } as unknown as D1Database;
}
