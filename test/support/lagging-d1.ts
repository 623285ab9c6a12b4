import { env } from "cloudflare:workers";
import type { TestApp } from "./world.ts";
import { bound, d1Of, type Send, type SentStatement } from "./wrapped-d1.ts";

/**
 * A D1 with a lagging read replica. Writes go to the primary. The replica gets them in order, batch by batch, when `catchUpTo` is
 * called or a session has a bookmark. Reads without a bookmark run on the replica.
 */
export interface LaggingD1 {
  readonly d1: D1Database;
  /** The number of writes to the primary. */
  readonly written: () => number;
  /** Applies the first `writes` writes to the replica. The replica never goes back. */
  readonly catchUpTo: (writes: number) => Promise<void>;
}

const PREFIX = "00000000-00000000-";
const bookmarkOf = (writes: number) => `${PREFIX}${writes.toString(16).padStart(8, "0")}-${"0".repeat(32)}`;
const writesOf = (bookmark: string) => Number.parseInt(bookmark.slice(PREFIX.length, PREFIX.length + 8), 16);

export function laggingD1(primary: D1Database, replica: D1Database): LaggingD1 {
  const log: (readonly SentStatement[])[] = [];
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
      if (wrote && !onPrimary) throw new Error("A write was sent to the replica.");
      // A replica gets the written rows, not the guards.
      if (wrote) log.push(statements.filter(({ text }) => !/^\s*INSERT INTO guards\b/.test(text)));
      seen = onPrimary ? log.length : applied;
      return results;
    };
    return { send, getBookmark: () => bookmarkOf(seen) };
  });
  return { d1: lagging, written: () => log.length, catchUpTo };
}

const ENVIRONMENTS = "SELECT id FROM environments WHERE app_id = ?";
/** The tables with rows of an application, and how to find its rows. */
const TABLES = {
  apps: "id = ?",
  environments: "app_id = ?",
  api_keys: `environment_id IN (${ENVIRONMENTS})`,
  credit_packs: "app_id = ?",
  credit_pack_items: "app_id = ?",
};

/** Copies an application with its keys and packs to the replica, as if they were old. */
export async function copyApp(app: Pick<TestApp, "appId">): Promise<void> {
  for (const [table, where] of Object.entries(TABLES)) {
    const { results } = await env.DB.prepare(`SELECT * FROM ${table} WHERE ${where}`)
      .bind(app.appId)
      .all<Record<string, unknown>>();
    // It does not list generated columns.
    const { results: stored } = await env.DB.prepare(`PRAGMA table_info(${table})`).all<{ name: string }>();
    for (const row of results) {
      const columns = stored.map(({ name }) => name).filter((column) => row[column] !== null);
      await env.REPLICA.prepare(`INSERT INTO ${table} (${columns.join()}) VALUES (${columns.map(() => "?").join()})`)
        .bind(...columns.map((column) => row[column]))
        .run();
    }
  }
  // The replica also gets the latest account, so that the next account gets the same id in both databases.
  const latest = await env.DB.prepare("SELECT coalesce(max(id), 0) AS id FROM accounts").first<{ id: number }>();
  await env.REPLICA.prepare(
    `INSERT INTO accounts (id, environment_id, user_id) SELECT CAST(?1 AS INTEGER), (SELECT id FROM environments LIMIT 1), 'before ' || ?1
     WHERE NOT EXISTS (SELECT 1 FROM accounts WHERE id = ?1)`,
  )
    .bind(latest?.id ?? 0)
    .run();
}
