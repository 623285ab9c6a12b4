import { apps } from "../db/schema.ts";
import { all, allColumns, select, statement } from "../db/sql.ts";
import { iso } from "../lib/time.ts";
import type { RootCtx } from "../runtime.ts";
import type { ListAppsOutput } from "./answers.ts";
import type { AppRow } from "./app.ts";

const EVERY = -1;

const selectApps = statement<{ limit: number }, AppRow>`SELECT ${select(allColumns(apps))} FROM apps LIMIT :limit`;

/** Applications, oldest first: all of them, or no more than `limit`. */
export async function listApps(root: RootCtx, limit: number = EVERY): Promise<ListAppsOutput> {
  const rows = await all(root.db, selectApps({ limit }));
  return {
    apps: rows
      .toSorted((a, b) => a.createdAtMs - b.createdAtMs || (a.id < b.id ? -1 : 1))
      .map((row) => ({ appId: row.id, name: row.name, createdAt: iso(row.createdAtMs) })),
  };
}
