import { eq, sql } from "drizzle-orm";
import { query, type ValueOf } from "../../db/query.ts";
import { creditPackItems, creditPacks } from "../../db/schema.ts";
import { all } from "../../db/sql.ts";
import type { SystemCtx } from "../../runtime.ts";
import { itemsOfPack, readPacks, selectPackRows } from "./find.ts";
import { presentPack } from "./pack.ts";
import type { ListPacksOutput } from "./responses.ts";

const EVERY = -1;

// The limit is of packs, not of rows.
const selectPacks = query((value: ValueOf<{ appId: string; limit: number }>) => {
  const ofApp = eq(creditPacks.appId, value("appId"));
  const page = sql`SELECT * FROM ${creditPacks} WHERE ${ofApp} ORDER BY ${creditPacks.id} LIMIT ${value("limit")}`;
  return selectPackRows().from(sql`(${page}) AS ${creditPacks}`).leftJoin(creditPackItems, itemsOfPack());
});

/** The packs of an application, with archived ones, oldest first; at most `limit` if it is given. */
export async function listPacks(root: SystemCtx, appId: string, limit: number = EVERY): Promise<ListPacksOutput> {
  const rows = await all(root.db, selectPacks({ appId, limit }));
  return {
    packs: readPacks(rows)
      .toSorted((a, b) => a.createdAtMs - b.createdAtMs || (a.id < b.id ? -1 : 1))
      .map(presentPack),
  };
}
