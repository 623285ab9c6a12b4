import { type Fault, PurserError, temporarilyUnavailable } from "../errors.ts";
import type { Db, Statement } from "./sql.ts";

/** A deployment may bind several databases: `DB`, then `DB_1` to `DB_9`. */
const DATABASES_MAX = 10;

export interface Database {
  /** 0 for `DB`, n for `DB_n`: the last character of every id that names its database. */
  readonly index: number;
  /** The name of its binding: `DB`, `DB_1`. */
  readonly name: string;
  readonly d1: D1Database;
}

const bindingName = (index: number): string => (index === 0 ? "DB" : `DB_${index}`);

/** Returns the database of an index, or null when none is bound. */
export function databaseAt(env: object, index: number): Database | null {
  const name = bindingName(index);
  // Further databases are bound by the deployment, so their bindings have no generated type.
  const d1 = Reflect.get(env, name) as D1Database | undefined;
  return d1 === undefined ? null : { index, name, d1 };
}

/** Returns all bound databases, `DB` first. */
export function allDatabases(env: object): readonly Database[] {
  const databases = Array.from({ length: DATABASES_MAX }, (_, index) => databaseAt(env, index));
  return databases.filter((database) => database !== null);
}

/** Returns the database index at the end of an application's or a balance's id. Null for other text. */
export function parseDatabaseIndex(id: string): number | null {
  const digit = /^[a-z]{3}_[0-9A-Za-z]{22}([0-9])$/.exec(id)?.[1];
  return digit === undefined ? null : Number(digit);
}

/** Returns an id that names its database. `randomId` is a prefix and 22 characters. */
export function idIn(index: number, randomId: string): string {
  return `${randomId}${index}`;
}

/**
 * A request's session with one database. It never reads an older state than it has read before, and it reads its own writes.
 */
export interface Session extends Db {
  /** Marks the latest state that the session has seen. Null before its first query. */
  readonly bookmark: () => string | null;
  /** Returns the size of the database's file in bytes. */
  readonly readSize: () => Promise<number>;
}

/** Where a session starts: at the primary, or at the nearest replica. */
export type SessionStart = "first-primary" | "first-unconstrained";

const BOOKMARK = /^[0-9a-f]{8}-[0-9a-f]{8}-[0-9a-f]{8}-[0-9a-f]{32}$/;

/** The length of a bookmark's numbers, which grow with the database's state. The rest is a hash. */
const NUMBERS_LENGTH = 26;

export function isBookmark(text: string): boolean {
  return BOOKMARK.test(text);
}

/** Returns whether `bookmark` marks the same state as `wanted`, or a later one. */
export function isAsLateAs(bookmark: string | null, wanted: string): boolean {
  return bookmark !== null && bookmark.slice(0, NUMBERS_LENGTH) >= wanted.slice(0, NUMBERS_LENGTH);
}

/** Opens a session. Before each send it calls `spend` with the number of queries. `spend` may throw to reject them. */
export function openSession(d1: D1Database, start: SessionStart, spend: (queries: number) => void = () => {}): Session {
  const session = d1.withSession(start);
  const prepare = ({ text, params }: Statement) => session.prepare(text).bind(...params);
  const send = async (statements: readonly Statement[]): Promise<unknown[][]> => {
    spend(statements.length);
    const [first, ...others] = statements;
    if (first === undefined) return [];
    const answers =
      others.length === 0
        ? [await prepare(first).all<Record<string, unknown>>()]
        : await session.batch<Record<string, unknown>>(statements.map(prepare));
    return statements.map(({ map }, index) => {
      const rows = answers[index]?.results ?? [];
      return map === undefined ? rows : map(rows);
    });
  };
  return {
    send: (statements) => sendWithRetry(() => send(statements)),
    sendForArrays: (statement) =>
      sendWithRetry(() => {
        spend(1);
        return prepare(statement).raw();
      }),
    bookmark: () => session.getBookmark(),
    readSize: () =>
      sendWithRetry(async () => {
        spend(1);
        return (await session.prepare("SELECT 1").run()).meta.size_after;
      }),
  };
}

const SEND_ATTEMPTS_MAX = 4;
const PAUSES_MS = [10, 50, 200] as const;

/** D1's messages for errors after which the same batch may be sent again. The batch may have been stored. */
const RETRYABLE = [
  "Network connection lost",
  "storage caused object to be reset",
  "reset because its code was updated",
  "transient issue on remote node",
];

/** D1's messages for errors that an immediate retry does not fix, each with the fault in the log. */
const LASTING_FAULTS: readonly (readonly [words: string, fault: Fault])[] = [
  ["overloaded", "database_overloaded"],
  ["Too many requests queued", "database_overloaded"],
  ["limit and was reset", "database_overloaded"],
  ["timeout which caused object to be reset", "database_overloaded"],
  ["Too many API requests by single", "queries_exhausted"],
  ["Too many subrequests", "queries_exhausted"],
  ["Exceeded maximum DB size", "database_full"],
];

const errorMessage = (error: unknown): string => (error instanceof Error ? error.message : String(error));

/**
 * Sends again after a transient error, and throws `temporarily_unavailable` for errors that last. It also repeats a write whose
 * response was lost. So every write must be idempotent: its ids are generated before the first send, and a constraint or a guard
 * rejects the second.
 */
async function sendWithRetry<Answer>(send: () => Promise<Answer>): Promise<Answer> {
  for (let attempt = 1; ; attempt++) {
    try {
      return await send();
    } catch (error) {
      if (error instanceof PurserError) throw error;
      const message = errorMessage(error);
      const lastingFault = LASTING_FAULTS.find(([words]) => message.includes(words));
      if (lastingFault !== undefined) {
        throw temporarilyUnavailable("The database is busy; try again shortly.", error, lastingFault[1]);
      }
      if (!RETRYABLE.some((words) => message.includes(words))) throw error;
      if (attempt === SEND_ATTEMPTS_MAX) {
        throw temporarilyUnavailable("The database cannot be reached; try again.", error, "database_unreachable");
      }
      await scheduler.wait(PAUSES_MS[attempt - 1] ?? 0);
    }
  }
}
