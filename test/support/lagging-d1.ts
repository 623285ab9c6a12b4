/**
 * A stand-in for D1 with a read replica that lags. Writes land on the primary, and come to the replica in their order,
 * batch by batch, when `catchUpTo` lets them or a session asks for a bookmark. Reads that start anywhere run on the replica.
 */
export interface LaggingD1 {
  readonly d1: D1Database;
  /** How many writes the primary took. */
  readonly written: () => number;
  /** Lets the replica see that many of them; it never goes back. */
  readonly catchUpTo: (writes: number) => Promise<void>;
}

interface Sent {
  readonly query: string;
  readonly values: readonly unknown[];
}

const PREFIX = "00000000-00000000-";
const bookmarkOf = (writes: number) => `${PREFIX}${writes.toString(16).padStart(8, "0")}-${"0".repeat(32)}`;
const writesOf = (bookmark: string) => Number.parseInt(bookmark.slice(PREFIX.length, PREFIX.length + 8), 16);

export function laggingD1(primary: D1Database, replica: D1Database): LaggingD1 {
  const log: (readonly Sent[])[] = [];
  let applied = 0;
  const catchUpTo = async (writes: number) => {
    for (; applied < Math.min(writes, log.length); applied++) {
      const batch = log[applied] ?? [];
      await replica.batch(batch.map(({ query, values }) => replica.prepare(query).bind(...values)));
    }
  };

  const sents = new WeakMap<object, Sent>();
  const openSession = (start: string) => {
    const onPrimary = start === "first-primary";
    let seen = 0;
    const send = async <T>(batch: readonly Sent[]): Promise<D1Result<T>[]> => {
      if (!onPrimary && start !== "first-unconstrained") await catchUpTo(writesOf(start));
      const target = onPrimary ? primary : replica;
      const results = await target.batch<T>(batch.map(({ query, values }) => target.prepare(query).bind(...values)));
      const wrote = results.some((result) => result.meta.rows_written > 0);
      if (wrote && !onPrimary) throw new Error("a replica takes no writes");
      if (wrote) log.push(batch);
      seen = onPrimary ? log.length : applied;
      return results;
    };
    const statement = (sent: Sent): D1PreparedStatement => {
      const all = async () => (await send<Record<string, unknown>>([sent]))[0];
      const made = {
        bind: (...values: unknown[]) => statement({ query: sent.query, values }),
        all,
        run: all,
        first: async () => (await all())?.results[0] ?? null,
        raw: async () => (await all())?.results.map((row) => Object.values(row)),
        // D1PreparedStatement is a class with overloads; these five methods are all of it.
      } as unknown as D1PreparedStatement;
      sents.set(made, sent);
      return made;
    };
    return {
      prepare: (query: string) => statement({ query, values: [] }),
      batch: (statements: D1PreparedStatement[]) =>
        send(statements.map((one) => sents.get(one) ?? { query: "SELECT 1", values: [] })),
      getBookmark: () => bookmarkOf(seen),
    };
  };
  const lagging = {
    withSession: (start = "first-unconstrained") => openSession(start),
    ...openSession("first-primary"),
    // The parts of D1Database that Purser calls.
  } as unknown as D1Database;
  return { d1: lagging, written: () => log.length, catchUpTo };
}
