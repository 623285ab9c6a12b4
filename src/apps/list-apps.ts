import { apps } from "../db/schema.ts";
import { iso } from "../lib/time.ts";
import type { RootCtx } from "../runtime.ts";
import type { ListAppsOutput } from "./answers.ts";

/** Applications, oldest first: all of them, or no more than `limit`. */
export async function listApps(root: RootCtx, limit?: number): Promise<ListAppsOutput> {
  const all = root.db.select().from(apps).$dynamic();
  const rows = await (limit === undefined ? all : all.limit(limit));
  return {
    apps: rows
      .toSorted((a, b) => a.createdAtMs - b.createdAtMs || (a.id < b.id ? -1 : 1))
      .map((row) => ({ appId: row.id, name: row.name, createdAt: iso(row.createdAtMs) })),
  };
}
