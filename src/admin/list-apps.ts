import type { RootCtx } from "../context.ts";
import { apps } from "../db/schema.ts";
import { iso } from "../lib/time.ts";
import type { ListAppsOutput } from "./schemas.ts";

/** Every application, oldest first. */
export async function listApps(root: RootCtx): Promise<ListAppsOutput> {
  const rows = await root.db.select().from(apps);
  return {
    apps: rows
      .toSorted((a, b) => a.createdAtMs - b.createdAtMs || (a.id < b.id ? -1 : 1))
      .map((row) => ({ appId: row.id, name: row.name, createdAt: iso(row.createdAtMs) })),
  };
}
