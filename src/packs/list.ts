import { all } from "../db/sql.ts";
import type { SystemCtx } from "../runtime.ts";
import { queryPacks, readPackRow } from "./find.ts";
import { presentPack } from "./pack.ts";
import type { ListPacksOutput } from "./responses.ts";

const EVERY = -1;

const selectPacks = queryPacks`
  FROM credit_packs AS p WHERE p.app_id = :appId ORDER BY p.id LIMIT :limit`;

/** The packs of an application, with archived ones, oldest first; at most `limit` if it is given. */
export async function listPacks(root: SystemCtx, appId: string, limit: number = EVERY): Promise<ListPacksOutput> {
  const rows = await all(root.db, selectPacks({ appId, limit }));
  return {
    packs: rows
      .toSorted((a, b) => a.createdAtMs - b.createdAtMs || (a.id < b.id ? -1 : 1))
      .map((row) => presentPack(readPackRow(row))),
  };
}
