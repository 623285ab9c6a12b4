import { asc, eq } from "drizzle-orm";
import type { RootCtx } from "../context.ts";
import { creditPackItems, creditPacks } from "../db/schema.ts";
import { presentPack } from "./pack.ts";
import type { ListPacksOutput } from "./schemas.ts";

/** Every pack of an application, archived ones too, oldest first. People make packs, so the list is short enough. */
export async function listPacks(root: RootCtx, appId: string): Promise<ListPacksOutput> {
  const [packs, items] = await root.db.batch([
    root.db.select().from(creditPacks).where(eq(creditPacks.appId, appId)),
    root.db
      .select()
      .from(creditPackItems)
      .where(eq(creditPackItems.appId, appId))
      .orderBy(asc(creditPackItems.packId), asc(creditPackItems.position)),
  ]);
  const itemsOf = Map.groupBy(items, (item) => item.packId);
  return {
    packs: packs
      .toSorted((a, b) => a.createdAtMs - b.createdAtMs || (a.id < b.id ? -1 : 1))
      .map((pack) => presentPack({ ...pack, items: itemsOf.get(pack.id) ?? [] })),
  };
}
