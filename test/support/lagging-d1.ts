import { bound, d1Of, type Send, type Sent } from "./wrapped-d1.ts";

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

const PREFIX = "00000000-00000000-";
const bookmarkOf = (writes: number) => `${PREFIX}${writes.toString(16).padStart(8, "0")}-${"0".repeat(32)}`;
const writesOf = (bookmark: string) => Number.parseInt(bookmark.slice(PREFIX.length, PREFIX.length + 8), 16);

export function laggingD1(primary: D1Database, replica: D1Database): LaggingD1 {
  const log: (readonly Sent[])[] = [];
  let applied = 0;
  const catchUpTo = async (writes: number) => {
    for (; applied < Math.min(writes, log.length); applied++) {
      await replica.batch(bound(replica, log[applied] ?? []));
    }
  };

  const lagging = d1Of((start) => {
    const onPrimary = start === "first-primary";
    const target = onPrimary ? primary : replica;
    let seen = 0;
    const send: Send = async (statements) => {
      if (!onPrimary && start !== "first-unconstrained") await catchUpTo(writesOf(start));
      const results = await target.batch(bound(target, statements));
      const wrote = results.some((result) => result.meta.rows_written > 0);
      if (wrote && !onPrimary) throw new Error("a replica takes no writes");
      // A replica is sent what was written, not what it rested on.
      if (wrote) log.push(statements.filter(({ text }) => !/^\s*INSERT INTO guards\b/.test(text)));
      seen = onPrimary ? log.length : applied;
      return results;
    };
    return { send, getBookmark: () => bookmarkOf(seen) };
  });
  return { d1: lagging, written: () => log.length, catchUpTo };
}
