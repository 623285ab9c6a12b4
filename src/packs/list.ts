import { and, asc, eq, inArray, sql } from "drizzle-orm";
import { creditPackItems, creditPacks } from "../db/schema.ts";
import type { RootCtx } from "../runtime.ts";
import type { ListPacksOutput } from "./answers.ts";
import { presentPack } from "./pack.ts";

const EVERY = -1;

/** The packs of an application, archived ones too, oldest first: all of them, or no more than `limit`. */
export async function listPacks(root: RootCtx, appId: string, limit: number = EVERY): Promise<ListPacksOutput> {
  const wanted = sql`(SELECT id FROM credit_packs WHERE app_id = ${appId} ORDER BY id LIMIT ${limit})`;
  const [packs, items] = await root.db.batch([
    root.db.select().from(creditPacks).where(eq(creditPacks.appId, appId)).orderBy(asc(creditPacks.id)).limit(limit),
    root.db
      .select()
      .from(creditPackItems)
      .where(and(eq(creditPackItems.appId, appId), inArray(creditPackItems.packId, wanted)))
      .orderBy(asc(creditPackItems.packId), asc(creditPackItems.position)),
  ]);
  const itemsOf = Map.groupBy(items, (item) => item.packId);
  return {
    packs: packs
      .toSorted((a, b) => a.createdAtMs - b.createdAtMs || (a.id < b.id ? -1 : 1))
      .map((pack) => presentPack({ ...pack, items: itemsOf.get(pack.id) ?? [] })),
  };
}
