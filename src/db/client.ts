import { type DrizzleD1Database, drizzle } from "drizzle-orm/d1";
import { retrying } from "./retry.ts";

/** Drizzle over one D1 session. Statements that belong together go through `db.batch`: one trip, one transaction. */
export type Db = DrizzleD1Database & { readonly $client: D1Database };

export interface OpenDb {
  readonly db: Db;
  /** The state that this session has seen; null before its first query. */
  readonly bookmark: () => string | null;
}

/** Where a session starts: at the primary, at the nearest replica, or at a replica that has seen a bookmark. */
export type SessionStart = "first-primary" | "first-unconstrained" | { readonly bookmark: string };

const BOOKMARK = /^[0-9a-f]{8}-[0-9a-f]{8}-[0-9a-f]{8}-[0-9a-f]{32}$/;

/** D1 keeps whatever it is given as a bookmark, so its form is checked first. */
export function isBookmark(text: string): boolean {
  return BOOKMARK.test(text);
}

/** Opens the database that serves this request. The one place that would choose among several. */
export function openDb(d1: D1Database, start: SessionStart): OpenDb {
  const session = d1.withSession(typeof start === "string" ? start : start.bookmark);
  // Drizzle calls `prepare` and `batch` alone, which a session has too.
  const db = drizzle(retrying(session) as unknown as D1Database);
  return { db, bookmark: () => session.getBookmark() };
}
