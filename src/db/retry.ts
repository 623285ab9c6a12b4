import { PurserError, temporarilyUnavailable } from "../errors.ts";

const ATTEMPTS_MAX = 4;
const PAUSES_MS = [10, 50, 200] as const;

/** D1's words for a fault after which the same statement may be sent again; a write may have landed. */
const RETRYABLE = [
  "Network connection lost",
  "storage caused object to be reset",
  "reset because its code was updated",
];
/** D1's words for a queue that is full: sending again at once makes it worse. */
const OVERLOADED = ["overloaded", "Too many requests queued"];

const says = (error: unknown, words: readonly string[]): boolean => {
  const message = error instanceof Error ? error.message : String(error);
  return words.some((word) => message.includes(word));
};

async function persistently<T>(send: () => Promise<T>): Promise<T> {
  for (let attempt = 1; ; attempt++) {
    try {
      return await send();
    } catch (error) {
      if (error instanceof PurserError) throw error;
      if (says(error, OVERLOADED)) {
        throw temporarilyUnavailable("The database is busy; try again shortly.", error, "database_overloaded");
      }
      if (!says(error, RETRYABLE)) throw error;
      if (attempt === ATTEMPTS_MAX) {
        throw temporarilyUnavailable("The database cannot be reached; try again.", error, "database_unreachable");
      }
      await scheduler.wait(PAUSES_MS[attempt - 1] ?? 0);
    }
  }
}

type Session = Pick<D1DatabaseSession, "prepare" | "batch">;

/** The statement beneath a wrapped one: a batch takes D1's own. */
const originals = new WeakMap<D1PreparedStatement, D1PreparedStatement>();

function wrap(statement: D1PreparedStatement): D1PreparedStatement {
  const wrapped = {
    bind: (...values: unknown[]) => wrap(statement.bind(...values)),
    // Both have two overloads, with an argument and without; what came is handed on as it came.
    first: (...column: [string] | []) => persistently(() => statement.first(...(column as [string]))),
    run: () => persistently(() => statement.run()),
    all: () => persistently(() => statement.all()),
    raw: (...options: [{ columnNames: true }] | []) =>
      persistently(() => statement.raw(...(options as [{ columnNames: true }]))),
    // D1PreparedStatement is a class with overloads; these five methods are all of it.
  } as unknown as D1PreparedStatement;
  originals.set(wrapped, statement);
  return wrapped;
}

/**
 * A D1 session that sends a statement or batch again after a passing fault, and turns a full queue into
 * `temporarily_unavailable`. A write whose answer was lost is sent again as well, so every write of Purser must land
 * once however often it is sent: its ids are made before it, and a constraint or a guard refuses the second landing.
 */
export function retrying(session: Session): Session {
  return {
    prepare: (query) => wrap(session.prepare(query)),
    batch: <T>(statements: D1PreparedStatement[]) =>
      persistently(() => session.batch<T>(statements.map((statement) => originals.get(statement) ?? statement))),
  };
}
